"""Runs schemathesis against a front door on a local stack, from the OpenAPI document that it serves.

    python3 crates/front-door/tests/schemathesis/run.py [--binary PATH] [--seed N] [--max-examples N]

Installs what it needs below .tollgate/, starts a stack and a front door of its own, and stops both by their handles.
Twice: with the document as it is, and with CloudEvents' binary mode, whose headers OpenAPI cannot tie together, in
place of sending events. A seed makes the order of requests; how far it goes is a matter of time.
"""

import argparse
import hashlib
import json
import os
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parents[3]
WORK = REPOSITORY / ".tollgate" / "schemathesis"
STACK = "schemathesis"
BINARY_MODE = "x-cloudevents-binary-mode"
# Seconds for one of the two runs.
RUN_S = 45


def tools() -> Path:
    """The folder of the installed programs; installs them again when the pins or the Python change."""
    pins = HERE / "requirements.txt"
    key = hashlib.sha256(pins.read_bytes() + sys.version.encode()).hexdigest()
    venv, stamp = WORK / "venv", WORK / "venv.stamp"
    if not stamp.exists() or stamp.read_text() != key:
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(venv)], check=True)
        subprocess.run([str(venv / "bin" / "pip"), "install", "--quiet", "-r", str(pins)], check=True)
        stamp.write_text(key)
    return venv / "bin"


def start(binary: Path) -> tuple[subprocess.Popen, str]:
    """A front door without limits on how often and how long it is asked, and where it listens."""
    address = WORK / "address"
    address.unlink(missing_ok=True)
    variables = {"TOLLGATE_RATE_PER_KEY": "0", "TOLLGATE_MAX_WAITERS": "0"}
    command = ["front-door", "--with-parent", "--listen", "127.0.0.1:0", "--address-file", str(address)]
    with open(WORK / "front-door.log", "wb") as log:
        door = subprocess.Popen(
            [binary, "--stack", STACK, *command], env=os.environ | variables, stdout=subprocess.DEVNULL, stderr=log
        )
    deadline = time.monotonic() + 20
    while not (address.exists() and address.read_text()):
        if door.poll() is not None or time.monotonic() > deadline:
            door.kill()
            sys.exit(f"the front door does not listen; see {WORK / 'front-door.log'}")
        time.sleep(0.05)
    return door, f"http://{address.read_text()}"


def binary_view(document: dict) -> dict:
    """The document with sending events in CloudEvents' binary mode, and nothing else."""
    operation = document["paths"]["/v1/events"]["post"]
    mode = operation.pop(BINARY_MODE)
    for header in mode["parameters"]:
        # What is percent-encoded is UTF-8 without control characters, and of a length once it is decoded: a pattern of
        # that nobody could read.
        schema = header["schema"]
        if "%" in schema.get("pattern", ""):
            schema["pattern"] = schema["pattern"].replace("%[0-9A-Fa-f]{2}", "%2[0-9A-F]")
            schema["maxLength"] = 80
    operation["parameters"] += mode["parameters"]
    operation["requestBody"] = mode["requestBody"]
    document["paths"] = {"/v1/events": {"post": operation}}
    return document


def run(programs: Path, document: Path, plan: list[str], url: str, key: str, arguments: argparse.Namespace) -> int:
    command = [
        str(programs / "schemathesis"), "--config-file", str(HERE / "schemathesis.toml"), "run", str(document),
        *plan, "--url", url, "--seed", str(arguments.seed), "--max-time", str(RUN_S),
        "--checks", "all", "--max-examples", str(arguments.max_examples),
        "--report", "ndjson",
        "--report-ndjson-path", str(document.with_suffix(".ndjson")),
    ]
    environment = os.environ | {"SCHEMATHESIS_HOOKS": "hooks", "PYTHONPATH": str(HERE), "TOLLGATE_API_KEY": key}
    started = time.monotonic()
    status = subprocess.run(command, env=environment, cwd=WORK).returncode
    print(f"{document.name}: exit status {status} after {time.monotonic() - started:.0f} s", flush=True)
    return status


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--binary", type=Path, default=REPOSITORY / "target" / "release" / "tollgate")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--max-examples", type=int, default=100)
    arguments = parser.parse_args()
    WORK.mkdir(parents=True, exist_ok=True)
    programs = tools()
    stack = [sys.executable, str(REPOSITORY / "localstack" / "stack.py")]
    subprocess.run([*stack, "up", "--name", STACK, "--lease", str(os.getpid())], check=True)
    door = None
    try:
        binary = arguments.binary.resolve()
        cli = lambda *words: subprocess.check_output([binary, "--stack", STACK, *words], text=True).strip()
        cli("spaces", "set", "acme", "--plan", "plus-active")
        key = cli("keys", "create", "acme", "--scope", "admin")
        door, url = start(binary)
        with urllib.request.urlopen(f"{url}/openapi.json", timeout=10) as answer:
            served = answer.read()
        whole, binary_mode = WORK / "document.json", WORK / "binary-mode.json"
        whole.write_bytes(served)
        subprocess.run([str(programs / "openapi-spec-validator"), str(whole)], check=True)
        binary_mode.write_text(json.dumps(binary_view(json.loads(served))))
        # The second document's headers are only some of the good ones: nothing is bad for not being among them.
        only_good = ["--mode", "positive", "--exclude-checks", "negative_data_rejection"]
        plans = [(whole, ["--mode", "all"]), (binary_mode, only_good)]
        statuses = [run(programs, document, plan, url, key, arguments) for document, plan in plans]
        if door.poll() is not None:
            sys.exit(f"the front door ended by itself; see {WORK / 'front-door.log'}")
        return max(statuses)
    finally:
        if door is not None:
            door.terminate()
            door.wait(timeout=40)
        subprocess.run([*stack, "down", "--wipe", "--name", STACK], check=False)


if __name__ == "__main__":
    sys.exit(main())
