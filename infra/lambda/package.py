#!/usr/bin/env python3
"""Builds the front door for Lambda and measures the package: its size, and the time from exec to its first answer.

    python3 infra/lambda/package.py             build and measure
    python3 infra/lambda/package.py --measure   measure what was built before

Needs Rust and Python 3.10 only: cargo-lambda and the linker come from PyPI into .tollgate/lambda-tools. The measured
process runs against a stub of the Lambda runtime's API on loopback, as the only request of a fresh process each time:
what AWS adds around it (microVM, download of the package) is not in these figures.
"""

import argparse
import http.server
import json
import os
import pathlib
import queue
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import venv
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOOLS = ROOT / ".tollgate" / "lambda-tools"
TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
BINARY = "tollgate-front-door"
PACKAGE = TARGET / "lambda" / BINARY / "bootstrap.zip"
REQUIREMENTS = pathlib.Path(__file__).with_name("requirements.txt")
STARTS = 20
PATIENCE_S = 20
NAMES = ["LEDGER_TABLE", "METER_TABLE", "SPACES_TABLE", "KEYS_TABLE", "RECEIPTS_TABLE", "EVENT_QUEUE_URL"]
REQUEST = {
    "version": "2.0", "routeKey": "$default", "rawPath": "/healthz", "rawQueryString": "",
    "headers": {"host": "api.example.com"},
    "requestContext": {
        "accountId": "0", "apiId": "a", "domainName": "api.example.com", "domainPrefix": "api", "requestId": "r",
        "http": {"method": "GET", "path": "/healthz", "protocol": "HTTP/1.1", "sourceIp": "127.0.0.1", "userAgent": "m"},
        "routeKey": "$default", "stage": "$default", "time": "30/Nov/2026:00:00:00 +0000", "timeEpoch": 1796000000000,
    },
    "isBase64Encoded": False,
}


def build():
    """Builds the package with the profile that ships."""
    if not (TOOLS / "bin" / "cargo-lambda").exists():
        venv.create(TOOLS, with_pip=True)
        pip = [TOOLS / "bin" / "pip", "install", "--quiet", "--require-hashes", "-r", REQUIREMENTS]
        subprocess.run(pip, check=True)
    env = {**os.environ, "PATH": f"{TOOLS / 'bin'}{os.pathsep}{os.environ['PATH']}"}
    command = ["cargo", "lambda", "build", "--locked", "--profile", "dist", "--package", BINARY, "--bin", BINARY,
               "--output-format", "zip", "--skip-target-check"]
    subprocess.run(command, check=True, cwd=ROOT, env=env)


class Runtime(http.server.ThreadingHTTPServer):
    """The Lambda runtime's API, for one function instance at a time."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Calls)
        self.asked, self.answered = queue.Queue(), queue.Queue()
        self.invocations = queue.Queue()


class Calls(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.server.asked.put(time.monotonic())
        body = json.dumps(self.server.invocations.get()).encode()
        self.send_response(200)
        for name, value in [
            ("lambda-runtime-aws-request-id", "1"),
            ("lambda-runtime-deadline-ms", "9999999999999"),
            ("lambda-runtime-invoked-function-arn", "arn:aws:lambda:us-east-1:0:function:f"),
            ("content-type", "application/json"),
            ("content-length", str(len(body))),
        ]:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self):
        at = time.monotonic()
        body = self.rfile.read(int(self.headers["content-length"]) if "content-length" in self.headers else self.chunked())
        self.send_response(202)
        self.send_header("content-length", "0")
        self.end_headers()
        self.server.answered.put((at, json.loads(body)))

    def chunked(self):
        raise SystemExit("the function answers in chunks: this stub reads whole bodies only")

    def log_message(self, *_):
        pass


def start(bootstrap, runtime):
    """One fresh process: milliseconds to its first question and to its first answer, and its peak memory in MiB."""
    env = {f"TOLLGATE_{name}": "unused" for name in NAMES} | {
        "AWS_LAMBDA_RUNTIME_API": f"127.0.0.1:{runtime.server_address[1]}",
        "AWS_LAMBDA_FUNCTION_NAME": "f", "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": "128", "AWS_LAMBDA_FUNCTION_VERSION": "1",
        "AWS_LAMBDA_LOG_GROUP_NAME": "g", "AWS_LAMBDA_LOG_STREAM_NAME": "s", "AWS_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "unused", "AWS_SECRET_ACCESS_KEY": "unused", "AWS_EC2_METADATA_DISABLED": "true",
    }
    runtime.invocations.put(REQUEST)
    began = time.monotonic()
    log = tempfile.TemporaryFile()
    process = subprocess.Popen([bootstrap], env=env, stdout=log, stderr=log)
    try:
        asked = runtime.asked.get(timeout=PATIENCE_S)
        answered, answer = runtime.answered.get(timeout=PATIENCE_S)
        assert answer["statusCode"] == 200, answer
        status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
        peak_kib = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))
        runtime.asked.get(timeout=PATIENCE_S)  # its next question: nothing is left under way
        return (asked - began) * 1000, (answered - began) * 1000, peak_kib / 1024
    except queue.Empty:
        log.seek(0)
        sys.exit(f"no answer within {PATIENCE_S} s; it said:\n{log.read().decode(errors='replace')}")
    finally:
        process.kill()
        process.wait()
        # The question that nobody will answer any more.
        runtime.invocations.put({})


def measure():
    if not PACKAGE.exists():
        sys.exit(f"{PACKAGE} is not there: build it first, without --measure")
    with tempfile.TemporaryDirectory() as folder:
        zipfile.ZipFile(PACKAGE).extract("bootstrap", folder)
        bootstrap = pathlib.Path(folder) / "bootstrap"
        bootstrap.chmod(0o755)
        samples = []
        for _ in range(STARTS):
            runtime = Runtime()
            threading.Thread(target=runtime.serve_forever, daemon=True).start()
            samples.append(start(bootstrap, runtime))
            runtime.shutdown()
            runtime.server_close()
        unpacked = bootstrap.stat().st_size
    init, first, peak = (statistics.median(column) for column in zip(*samples))
    result = {
        "zip_bytes": PACKAGE.stat().st_size,
        "unpacked_bytes": unpacked,
        "starts": STARTS,
        "init_ms": round(init, 1),
        "first_answer_ms": round(first, 1),
        "peak_mib": round(peak, 1),
    }
    print(json.dumps(result))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--measure", action="store_true", help="measure what was built before")
    if not parser.parse_args().measure:
        build()
    measure()


if __name__ == "__main__":
    main()
