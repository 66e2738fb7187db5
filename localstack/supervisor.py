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
from typing import Any, NoReturn

import process
from environment import StackError
from services import ANSWER_SECONDS, DATABASE, ClickHouse, Ministack, Service

REGION = "us-east-1"
LEASE_GRACE_SECONDS = 15

Json = dict[str, Any]


class Stop(BaseException):
    """A signal asked for the end. Not an Exception, so that no handler of errors takes it for one."""


def write_json(path: pathlib.Path, content: Json) -> None:
    """Writes a file that a reader sees whole or not at all."""
    partial = path.with_name(path.name + ".partial")
    partial.write_text(json.dumps(content, indent=2) + "\n")
    partial.replace(path)


class Supervisor:
    """Owns the servers of one stack, its leases and its control socket."""

    def __init__(self, directory: pathlib.Path, aws_port: int, clickhouse_port: int) -> None:
        self.directory = directory
        self.ministack = Ministack(aws_port, directory)
        self.services: dict[str, Service] = {
            "ministack": self.ministack,
            "clickhouse": ClickHouse(clickhouse_port, directory),
        }
        self.leases: list[process.Identity] = []
        # A stack that was once asked for without a lease stays until `down`.
        self.pinned = False
        self.leases_gone_since: float | None = None

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

    def ensure(self, leases: list[process.Identity], pin: bool) -> None:
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
