"""The long-lived process behind one local stack: it owns the two servers, and ends them when it ends.

`stack.py up` starts it detached, with the environment's Python. It reports on stdout, one JSON object a
line (`progress`, then `ready` or `error`), until it is ready; after that it takes commands on a Unix socket
in its state directory, one JSON object each way. It never restarts a server that died: a test that killed
one wants to see it dead.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from typing import Any, Dict, List, NoReturn, Optional

import process
from environment import HERE, StackError, tail

TEMPLATE = HERE.parent / "infra" / "template.yaml"
SCHEMA = HERE / "schema.sql"
DATABASE = "tollgate"
REGION = "us-east-1"
START_SECONDS = 60
STOP_SECONDS = 20
SAVE_SECONDS = 20
ANSWER_SECONDS = 5
LEASE_GRACE_SECONDS = 15
# Not through a proxy that the environment may name: everything here is on loopback.
HTTP = urllib.request.build_opener(urllib.request.ProxyHandler({}))

Json = Dict[str, Any]


class Stop(BaseException):
    """A signal asked for the end. Not an Exception, so that no handler of errors takes it for one."""


def write_json(path: pathlib.Path, content: Json) -> None:
    """Writes a file that a reader sees whole or not at all."""
    partial = path.with_name(path.name + ".partial")
    partial.write_text(json.dumps(content, indent=2) + "\n")
    partial.replace(path)


def split_statements(sql: str) -> List[str]:
    """Splits at the semicolons that end a statement: not at those in a quoted text or a comment.

    ClickHouse takes one statement a request. Comments are dropped.
    """
    statements, current, position = [], "", 0
    while position < len(sql):
        character, pair = sql[position], sql[position : position + 2]
        if pair in ("--", "/*"):
            end = sql.find("\n" if pair == "--" else "*/", position)
            position = len(sql) if end < 0 else end + (0 if pair == "--" else 2)
            current += " "
        elif character in "'\"`":
            end = position + 1
            while end < len(sql) and sql[end] != character:
                end += 2 if sql[end] == "\\" else 1
            current += sql[position : end + 1]
            position = end + 1
        elif character == ";":
            statements.append(current.strip())
            current = ""
            position += 1
        else:
            current += character
            position += 1
    return [statement for statement in [*statements, current.strip()] if statement]


class Service:
    """One server: how it is started, and whether it answers."""

    def __init__(self, name: str, port: int, logs: pathlib.Path) -> None:
        self.name = name
        self.port = port
        self.log = logs / f"{name}.log"
        self.child: Optional[subprocess.Popen[bytes]] = None
        self.identity: Optional[process.Identity] = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def command(self) -> List[str]:
        raise NotImplementedError

    def environment(self) -> Dict[str, str]:
        raise NotImplementedError

    def answers(self) -> bool:
        raise NotImplementedError

    def prepare(self) -> None:
        """Work to be done each time the server has come up."""
        raise NotImplementedError

    def is_alive(self) -> bool:
        """Does not reap a dead child: while it is a zombie its number, and its group's, mean nobody else."""
        return process.is_running(self.identity)

    def start(self) -> None:
        """Starts the server, waits until it answers, and prepares it."""
        # Reaps a child that died by itself, and ends what that one had spawned.
        self.stop(kill=True)
        if not process.port_is_free(self.port):
            raise StackError(
                f"port {self.port}, which {self.name} needs, is taken by {process.port_holder(self.port)}. "
                "Stop that process, or bring the stack down and up again with another port."
            )
        with self.log.open("ab") as log:
            # A session of its own: the group can be ended as a whole, with what a server has spawned.
            self.child = subprocess.Popen(
                self.command(), env=self.environment(), cwd=self.log.parent, stdin=subprocess.DEVNULL,
                stdout=log, stderr=subprocess.STDOUT, start_new_session=True,
            )
        self.identity = process.identity(self.child.pid)
        deadline = time.monotonic() + START_SECONDS
        while not self.answers():
            if not self.is_alive():
                raise self.failure(f"{self.name} ended with exit status {self.child.wait()} while it started")
            if time.monotonic() > deadline:
                raise self.failure(f"{self.name} did not answer within {START_SECONDS} s of its start")
            time.sleep(0.1)
        self.prepare()

    def failure(self, what: str) -> StackError:
        return StackError(f"{what}. Its last lines ({self.log}):\n{tail(self.log)}")

    def stop(self, kill: bool = False) -> None:
        """Ends the server: SIGTERM and a bounded wait, then SIGKILL; or SIGKILL at once."""
        if self.child is None or self.identity is None:
            return
        if not kill:
            process.send(self.identity, signal.SIGTERM)
            # A server that a test has frozen would not see SIGTERM before it runs again.
            process.send(self.identity, signal.SIGCONT)
            if process.wait_gone([self.identity], STOP_SECONDS):
                print(f"{self.name} did not end within {STOP_SECONDS} s: killed", file=sys.stderr, flush=True)
        try:
            # The child is not reaped before the next line but one, so the group is still its own.
            os.killpg(self.child.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            pass  # Nothing left in it (macOS says so with EPERM).
        self.child.wait()
        self.child = self.identity = None


def clean_environment() -> Dict[str, str]:
    """The caller's environment without what would lead a server or SDK elsewhere: profiles, endpoints, proxies."""
    led_astray = ("AWS_", "MINISTACK_", "LOCALSTACK_", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
    return {name: value for name, value in os.environ.items() if not name.upper().startswith(led_astray)}


class Ministack(Service):
    """The AWS emulator."""

    def __init__(self, port: int, directory: pathlib.Path) -> None:
        super().__init__("ministack", port, directory / "logs")
        self.data = directory / "ministack"
        # Appears when the emulator has saved its state on request.
        self.saved = self.data / "saved"
        self.outputs: Dict[str, str] = {}

    def command(self) -> List[str]:
        return [sys.executable, str(HERE / "ministack_server.py"), str(os.getpid()), str(self.saved)]

    def environment(self) -> Dict[str, str]:
        temporary = self.data / "tmp"
        temporary.mkdir(parents=True, exist_ok=True)
        return {
            **clean_environment(),
            # Its own default is every interface.
            "BIND_HOST": "127.0.0.1",
            # The host in the queue URLs it hands out.
            "MINISTACK_HOST": "127.0.0.1",
            "GATEWAY_PORT": str(self.port),
            "LOG_LEVEL": "WARNING",
            "PERSIST_STATE": "1",
            "STATE_DIR": str(self.data / "state"),
            "S3_PERSIST": "1",
            "S3_DATA_DIR": str(self.data / "s3"),
            "TMPDIR": str(temporary),
            # Listeners that are not needed; the MQTT one would be on a fixed port.
            "SFTP_ENABLED": "0",
            "IOT_MTLS_ENABLED": "0",
            # At its start it removes containers that look like its own: it must find no Docker.
            "DOCKER_HOST": f"unix://{self.data / 'no-docker.sock'}",
        }

    def answers(self) -> bool:
        try:
            with HTTP.open(f"{self.url}/_ministack/ready", timeout=ANSWER_SECONDS) as answer:
                return answer.status == 200
        except OSError:
            return False

    def prepare(self) -> None:
        """Deploys the template, which may have changed since the last start, and has the result saved."""
        result = subprocess.run(
            [sys.executable, str(HERE / "deploy.py"), self.url, str(TEMPLATE)],
            env={**clean_environment(), "AWS_CONFIG_FILE": os.devnull, "AWS_SHARED_CREDENTIALS_FILE": os.devnull},
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=180, check=False,
        )
        if result.returncode != 0:
            reason = "\n".join(result.stderr.strip().splitlines()[-10:])
            raise self.failure(
                f"the deployment of {TEMPLATE} failed: {reason}\nIf the template is right, the emulator's saved state "
                f"contradicts it: `stack.py down --name {self.data.parent.name} --wipe` starts afresh"
            )
        self.outputs = json.loads(result.stdout)
        self.save()

    def save(self) -> None:
        """Without this, a SIGKILL would undo the deployment but not what S3 has already written to disk."""
        assert self.identity is not None
        self.saved.unlink(missing_ok=True)
        process.send(self.identity, signal.SIGUSR1)
        deadline = time.monotonic() + SAVE_SECONDS
        while not self.saved.exists():
            if time.monotonic() > deadline or not self.is_alive():
                raise self.failure(f"{self.name} did not save its state within {SAVE_SECONDS} s")
            time.sleep(0.02)


class ClickHouse(Service):
    """The ClickHouse server."""

    def __init__(self, port: int, directory: pathlib.Path) -> None:
        super().__init__("clickhouse", port, directory / "logs")
        self.data = directory / "clickhouse"
        # Unique to this supervisor, so that the answer of a server that holds the port by accident is not
        # taken for ours.
        self.display_name = f"tollgate-{directory.name}-{os.getpid()}"

    def command(self) -> List[str]:
        return [
            sys.executable, str(HERE / "clickhouse_server.py"), "--data", str(self.data),
            "--http-port", str(self.port), "--name", self.display_name, "--parent", str(os.getpid()),
        ]

    def environment(self) -> Dict[str, str]:
        return clean_environment()

    def answers(self) -> bool:
        try:
            with HTTP.open(f"{self.url}/?query=SELECT%201", timeout=ANSWER_SECONDS) as answer:
                return answer.headers.get("X-ClickHouse-Server-Display-Name") == self.display_name
        except OSError:
            return False

    def execute(self, statement: str, database: str) -> None:
        request = urllib.request.Request(
            f"{self.url}/?" + urllib.parse.urlencode({"database": database}), data=statement.encode()
        )
        try:
            with HTTP.open(request, timeout=START_SECONDS) as answer:
                answer.read()
        except urllib.error.HTTPError as error:
            first_line = " ".join(statement.split())[:100]
            raise StackError(
                f"{SCHEMA} was not applied: ClickHouse refused `{first_line}`: {error.read().decode().strip()}"
            ) from error

    def prepare(self) -> None:
        self.execute(f"CREATE DATABASE IF NOT EXISTS {DATABASE}", "default")
        for statement in split_statements(SCHEMA.read_text()):
            self.execute(statement, DATABASE)


class Supervisor:
    """Owns the servers of one stack, its leases and its control socket."""

    def __init__(self, directory: pathlib.Path, aws_port: int, clickhouse_port: int) -> None:
        self.directory = directory
        self.ministack = Ministack(aws_port, directory)
        self.services: Dict[str, Service] = {
            "ministack": self.ministack,
            "clickhouse": ClickHouse(clickhouse_port, directory),
        }
        self.leases: List[process.Identity] = []
        # A stack that was once asked for without a lease stays until `down`.
        self.pinned = False
        self.leases_gone_since: Optional[float] = None

    def description(self) -> Json:
        """The answer of `up`, which is also stack.json."""
        return {
            "name": self.directory.name,
            "state_dir": str(self.directory),
            "aws_endpoint_url": self.ministack.url,
            "clickhouse_url": self.services["clickhouse"].url,
            "clickhouse_database": DATABASE,
            "region": REGION,
            "supervisor_pid": os.getpid(),
            "pids": {
                name: service.child.pid if service.child else None for name, service in self.services.items()
            },
            "outputs": self.ministack.outputs,
        }

    def record(self, ready: bool) -> None:
        """Writes down who runs, for `down` and for the next `up` should this process be killed."""
        write_json(
            self.directory / "supervisor.json",
            {
                "supervisor": process.identity(os.getpid()),
                "children": {name: s.identity for name, s in self.services.items() if s.identity},
            },
        )
        if ready:
            write_json(self.directory / "stack.json", self.description())

    def start(self, service: Service, ready: bool) -> None:
        try:
            service.start()
        finally:
            self.record(ready)

    def ensure(self, leases: List[process.Identity], pin: bool) -> None:
        """What a later `up` asks for: more leases, and every server up."""
        self.leases += [lease for lease in leases if lease not in self.leases]
        self.pinned = self.pinned or pin
        self.leases_gone_since = None
        for service in self.services.values():
            if not service.is_alive():
                self.start(service, ready=True)
            elif not service.answers():
                raise StackError(
                    f"{service.name} (pid {service.identity and service.identity['pid']}) runs but does not answer. "
                    f"`stack.py restart {service.name} --name {self.directory.name} --kill` brings it back."
                )

    def obey(self, request: Json) -> None:
        """Carries out one command of the control socket."""
        command = request["command"]
        if command == "ensure":
            self.ensure(request["leases"], request["pin"])
            return
        service = self.services[request["service"]]
        if command in ("restart", "stop"):
            service.stop(kill=request["kill"])
            self.record(ready=True)
        if command in ("restart", "start") and not service.is_alive():
            self.start(service, ready=True)

    def serve_one(self, listener: socket.socket) -> None:
        """Waits a moment for a command and answers it; a caller that has gone is no reason to fail."""
        try:
            connection, _ = listener.accept()
        except TimeoutError:
            return
        with connection:
            connection.settimeout(ANSWER_SECONDS)
            try:
                with connection.makefile("rw") as stream:
                    try:
                        self.obey(json.loads(stream.readline()))
                        answer: Json = {"ready": self.description()}
                    except (StackError, OSError, subprocess.SubprocessError) as error:
                        answer = {"error": str(error)}
                    stream.write(json.dumps(answer) + "\n")
            except OSError:
                pass

    def leases_have_expired(self) -> bool:
        """Whether nobody needs the stack any more. The grace lets a test run hand over to the next one."""
        if self.pinned or any(process.is_running(lease) for lease in self.leases):
            self.leases_gone_since = None
            return False
        now = time.monotonic()
        self.leases_gone_since = self.leases_gone_since or now
        return now - self.leases_gone_since >= LEASE_GRACE_SECONDS

    def stop(self) -> None:
        """Ends both servers and forgets what says that the stack runs. The data stays."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)
        for service in self.services.values():
            service.stop()
        for name in ("stack.json", "control.sock", "supervisor.json"):
            (self.directory / name).unlink(missing_ok=True)

    def run(self) -> None:
        """The whole life: up, ready, commands, down."""
        # Relative, because the path of a Unix socket may be no longer than some 100 bytes.
        os.chdir(self.directory)
        pathlib.Path("control.sock").unlink(missing_ok=True)
        try:
            with socket.socket(socket.AF_UNIX) as listener:
                self.record(ready=False)
                for service in self.services.values():
                    report({"progress": f"starting {service.name} on port {service.port}"})
                    self.start(service, ready=False)
                listener.bind("control.sock")
                listener.listen()
                listener.settimeout(0.5)
                self.record(ready=True)
                report({"ready": self.description()})
                # From here on stdout belongs to nobody: the caller waits for its end.
                os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
                while not self.leases_have_expired():
                    self.serve_one(listener)
                print("every lease is gone: stopping", file=sys.stderr, flush=True)
        except (StackError, OSError, subprocess.SubprocessError) as error:
            report({"error": str(error)})
            print(error, file=sys.stderr, flush=True)
            raise SystemExit(1) from error
        except Stop:
            print("asked to stop", file=sys.stderr, flush=True)
        finally:
            self.stop()


def report(message: Json) -> None:
    """Tells the waiting `up`; it may have been interrupted, which is no reason to stop."""
    try:
        print(json.dumps(message), flush=True)
    except BrokenPipeError:
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())


def request_stop(*_: object) -> NoReturn:
    raise Stop


def main() -> None:
    parser = argparse.ArgumentParser(description="Started by stack.py; not for use by hand.")
    parser.add_argument("directory", type=pathlib.Path)
    parser.add_argument("--aws-port", type=int, required=True)
    parser.add_argument("--clickhouse-port", type=int, required=True)
    parser.add_argument("--leases", type=json.loads, required=True)
    parser.add_argument("--pin", action="store_true")
    arguments = parser.parse_args()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, request_stop)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    supervisor = Supervisor(arguments.directory, arguments.aws_port, arguments.clickhouse_port)
    supervisor.leases = arguments.leases
    supervisor.pinned = arguments.pin
    supervisor.run()


if __name__ == "__main__":
    main()
