"""One named stack as its files and processes tell of it, for the commands of stack.py."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import sys
from collections.abc import Iterator
from typing import Any

import environment
import process
from environment import StackError
from services import SAVE_SECONDS, START_SECONDS, STOP_SECONDS

Json = dict[str, Any]

SERVICES = ("ministack", "clickhouse")
# The supervisor may have to stop and start both servers, and to deploy, before it answers.
ANSWER_SECONDS = 2 * (START_SECONDS + STOP_SECONDS) + SAVE_SECONDS + 60
DOWN_SECONDS = 2 * STOP_SECONDS + 5


def say(text: str) -> None:
    """Progress goes to stderr: stdout is for the answer."""
    print(text, file=sys.stderr, flush=True)


class Stack:
    """One named stack, as its files and processes tell of it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.directory = environment.state_root() / "stacks" / name

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """One `up` or `down` of a stack at a time. The lock is outside the directory, which --wipe removes."""
        with environment.exclusive_lock(environment.state_root() / "locks" / f"{self.name}.lock"):
            yield

    def read(self, file: str) -> Json:
        """One of the stack's JSON files; empty if it isn't there."""
        try:
            content: Json = json.loads((self.directory / file).read_text())
            return content
        except FileNotFoundError:
            return {}
        except json.JSONDecodeError as error:
            raise StackError(f"{self.directory / file} is damaged ({error}): delete that file and try again.") from error

    def supervisor(self) -> process.Identity | None:
        """The supervisor if it runs."""
        recorded = self.read("supervisor.json").get("supervisor")
        return recorded if process.is_running(recorded) else None

    def children(self) -> dict[str, process.Identity]:
        """The servers that were last recorded, whether they run or not."""
        children: dict[str, process.Identity] = self.read("supervisor.json").get("children", {})
        return children

    def ask(self, request: Json) -> Json:
        """Has the supervisor carry out a command and returns the stack's description."""
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(ANSWER_SECONDS)
            # A Unix socket's path may be no longer than some 100 bytes, a directory's may.
            os.chdir(self.directory)
            connection.connect("control.sock")
            with connection.makefile("rw") as stream:
                stream.write(json.dumps(request) + "\n")
                stream.flush()
                try:
                    line = stream.readline()
                except TimeoutError:
                    raise StackError(
                        f"the supervisor of {self.name} did not answer within {ANSWER_SECONDS} s: "
                        f"`stack.py down --name {self.name}`, then `up`."
                    ) from None
        if not line:
            raise ConnectionError("the supervisor ended")
        answer: Json = json.loads(line)
        if "error" in answer:
            raise StackError(answer["error"])
        description: Json = answer["ready"]
        return description

    def sweep(self) -> None:
        """Ends what a killed supervisor left behind. Its servers end with it by themselves, but one that is
        frozen or busy may be late, and the next start needs its port and its files."""
        children = list(self.children().values())
        left = process.wait_gone(children, 5)
        for number, patience in ((signal.SIGTERM, STOP_SECONDS), (signal.SIGKILL, 5)):
            for child in left:
                process.send(child, number)
                process.send(child, signal.SIGCONT)
            left = process.wait_gone(left, patience)
        if left:
            raise StackError(f"pid {left[0]['pid']} of stack {self.name} does not end, not even by SIGKILL: see `ps`")
        for file in ("stack.json", "supervisor.json"):
            (self.directory / file).unlink(missing_ok=True)

    def end(self, supervisor: process.Identity) -> None:
        """SIGTERM, a bounded wait, SIGKILL; then whatever servers are left."""
        process.send(supervisor, signal.SIGTERM)
        process.send(supervisor, signal.SIGCONT)
        if process.wait_gone([supervisor], DOWN_SECONDS):
            say(f"the supervisor (pid {supervisor['pid']}) did not end within {DOWN_SECONDS} s: killing it")
            process.send(supervisor, signal.SIGKILL)
            process.wait_gone([supervisor], 5)
        self.sweep()

    def state(self) -> Json:
        """What runs, for `status` and `list`."""
        supervised = self.supervisor() is not None
        children = self.children()
        services = {}
        for service in SERVICES:
            running = process.is_running(children.get(service))
            services[service] = "running" if running else "dead" if supervised and service in children else "stopped"
        if not supervised:
            overall = "stopped"
        elif not (self.directory / "stack.json").exists():
            overall = "starting"
        else:
            overall = "running" if set(services.values()) == {"running"} else "degraded"
        described = self.read("stack.json") if supervised else {}
        return {"name": self.name, "state_dir": str(self.directory), **described, "state": overall, "services": services}


def all_stacks() -> list[Stack]:
    directories = sorted((environment.state_root() / "stacks").glob("*/"))
    return [Stack(directory.name) for directory in directories]
