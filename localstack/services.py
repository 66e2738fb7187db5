"""The two servers of a local stack: how each is started, prepared and ended."""

from __future__ import annotations

import json
import os
import pathlib
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request

import process
from environment import HERE, StackError, tail

TEMPLATE = HERE.parent / "infra" / "template.yaml"
SCHEMA = HERE / "schema.sql"
DATABASE = "tollgate"
START_SECONDS = 60
STOP_SECONDS = 20
SAVE_SECONDS = 20
ANSWER_SECONDS = 5
# Not through a proxy that the environment may name: everything here is on loopback.
HTTP = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def split_statements(sql: str) -> list[str]:
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
        self.child: subprocess.Popen[bytes] | None = None
        self.identity: process.Identity | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def command(self) -> list[str]:
        raise NotImplementedError

    def environment(self) -> dict[str, str]:
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


def clean_environment() -> dict[str, str]:
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
        self.outputs: dict[str, str] = {}

    def command(self) -> list[str]:
        return [sys.executable, str(HERE / "ministack_server.py"), str(os.getpid()), str(self.saved)]

    def environment(self) -> dict[str, str]:
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
                return bool(answer.status == 200)
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

    def command(self) -> list[str]:
        return [
            sys.executable, str(HERE / "clickhouse_server.py"), "--data", str(self.data),
            "--http-port", str(self.port), "--name", self.display_name, "--parent", str(os.getpid()),
        ]

    def environment(self) -> dict[str, str]:
        return clean_environment()

    def answers(self) -> bool:
        try:
            with HTTP.open(f"{self.url}/?query=SELECT%201", timeout=ANSWER_SECONDS) as answer:
                return bool(answer.headers.get("X-ClickHouse-Server-Display-Name") == self.display_name)
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
