"""The virtual environment that all stacks share, and what the machine must offer for it."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import pathlib
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import IO

HERE = pathlib.Path(__file__).resolve().parent
REQUIREMENTS = HERE / "requirements.txt"
CLICKHOUSE_REQUIREMENTS = HERE / "requirements-clickhouse.txt"
# How long an `up` waits for others that merely look at the environment before it reports that running
# stacks hold the old one.
OLD_ENVIRONMENT_PATIENCE_SECONDS = 20
LOG_LINES_SHOWN = 20


class StackError(Exception):
    """Something the user can act on: its text is the whole message."""


def state_root() -> pathlib.Path:
    """Where all state lives: `.tollgate` in the repository, or TOLLGATE_STATE_DIR."""
    return pathlib.Path(os.environ.get("TOLLGATE_STATE_DIR") or HERE.parent / ".tollgate").resolve()


def venv_directory() -> pathlib.Path:
    """The environment; TOLLGATE_VENV_DIR lets a test have its own state and still share it."""
    return pathlib.Path(os.environ.get("TOLLGATE_VENV_DIR") or state_root() / "venv").resolve()


def venv_python(directory: pathlib.Path) -> pathlib.Path:
    return directory / "bin" / "python"


def tail(log: pathlib.Path) -> str:
    """The end of a log, indented, for an error message."""
    try:
        lines = log.read_text(errors="replace").splitlines()
    except OSError:
        return f"    ({log} can't be read)"
    return "\n".join("    " + line for line in lines[-LOG_LINES_SHOWN:]) or "    (the log is empty)"


@contextlib.contextmanager
def exclusive_lock(path: pathlib.Path) -> Iterator[None]:
    """Holds a lock file. The file stays: removing it would let two holders lock two different files."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def check_platform() -> None:
    """Refuses a machine that has no wheel of the engine, or whose processor would kill it, before any download."""
    system, machine = platform.system(), platform.machine()
    if (system, machine) not in {
        ("Linux", "x86_64"), ("Linux", "aarch64"), ("Darwin", "x86_64"), ("Darwin", "arm64")
    }:
        raise StackError(
            f"the local stack has no ClickHouse engine for {system} on {machine}: "
            "it runs on Linux (x86_64, aarch64) and macOS (x86_64, arm64). Use one of these, or a container of one."
        )
    if system == "Linux" and platform.libc_ver()[0] != "glibc":
        raise StackError(
            "the ClickHouse engine needs glibc, and this Linux has another C library (Alpine and its like). "
            "Use a Debian, Ubuntu or Fedora image."
        )
    if machine == "x86_64":
        if system == "Linux":
            features = pathlib.Path("/proc/cpuinfo").read_text().split()
        else:
            features = subprocess.run(
                ["sysctl", "-n", "machdep.cpu.leaf7_features"], capture_output=True, text=True, check=False
            ).stdout.lower().split()
        if "avx2" not in features:
            raise StackError(
                "the ClickHouse engine needs a processor with AVX2, and this one does not report it. "
                "In a virtual machine, pass the host's CPU model through; else use another machine."
            )


def fingerprint(directory: pathlib.Path) -> str:
    """Changes whenever the environment must be made again: with the pins, and with the Python it links to."""
    digest = hashlib.sha256(os.fsencode(venv_python(directory).resolve()))
    for path in (REQUIREMENTS, CLICKHOUSE_REQUIREMENTS):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def is_current(directory: pathlib.Path) -> bool:
    try:
        return (directory / "installed").read_text() == fingerprint(directory) and venv_python(directory).exists()
    except OSError:
        return False


def try_lock(file: IO[str], kind: int) -> bool:
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def ensure_venv(say: Callable[[str], None]) -> IO[str]:
    """Makes the environment if it is absent or stale, and returns a shared lock on it.

    Whoever holds the shared lock (each supervisor does, for life) keeps others from replacing the
    environment under running servers, which load their modules late. Two callers that both find it
    absent meet at the exclusive lock: one installs, the other waits.
    """
    directory = venv_directory()
    directory.parent.mkdir(parents=True, exist_ok=True)
    lock = directory.with_name(directory.name + ".lock").open("w")
    told = False
    readers_since: float | None = None
    while True:
        if try_lock(lock, fcntl.LOCK_SH):
            if is_current(directory):
                return lock
            # flock can't be raised from shared to exclusive in one step without losing it for a moment;
            # whatever happens in that moment, the loop looks again.
            if try_lock(lock, fcntl.LOCK_EX):
                if not is_current(directory):
                    install(directory, say, lock)
                continue
            fcntl.flock(lock, fcntl.LOCK_UN)
            readers_since = readers_since or time.monotonic()
            if time.monotonic() - readers_since > OLD_ENVIRONMENT_PATIENCE_SECONDS:
                raise StackError(
                    f"the pinned packages or the Python changed, but running stacks still use {directory}: "
                    "stop them (`stack.py list`, then `stack.py down --name NAME`) and run `up` again."
                )
        elif not told:
            say("waiting: another `up` is installing the environment")
            told = True
            readers_since = None
        time.sleep(0.2)


def install(directory: pathlib.Path, say: Callable[[str], None], lock: IO[str]) -> None:
    """Builds the environment from nothing. The stamp comes last, so an interrupted installation is redone.

    The installers hold the lock too: should this process be killed, the one that outlives it must not write
    into the environment of the next attempt.
    """
    say(f"installing the environment into {directory} (some 640 MB, once; about half a minute on a good line)")
    shutil.rmtree(directory, ignore_errors=True)
    log = directory.with_name(directory.name + ".log")
    python = str(venv_python(directory))
    # Wheels only: a source package would run its author's code here, and need compilers.
    pip = [python, "-m", "pip", "install", "--disable-pip-version-check", "--no-input", "--progress-bar", "off",
           "--require-hashes", "--only-binary", ":all:"]
    steps = [
        ("venv", [sys.executable, "-m", "venv", str(directory)],
         "Debian and Ubuntu: `apt install python3-venv`."),
        ("AWS emulator", [*pip, "-r", str(REQUIREMENTS)],
         "Check that the package index can be reached (PIP_INDEX_URL for a mirror)."),
        ("ClickHouse engine", [*pip, "--no-deps", "-r", str(CLICKHOUSE_REQUIREMENTS)],
         "Check that the package index can be reached (PIP_INDEX_URL for a mirror), and pip's version (20.3 or newer)."),
    ]
    with log.open("w") as output:
        for name, command, mend in steps:
            say(f"installing: {name}")
            result = subprocess.run(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
                pass_fds=[lock.fileno()], check=False,
            )
            if result.returncode != 0:
                raise StackError(f"the installation of the {name} failed. {mend} Its last lines ({log}):\n{tail(log)}")
    (directory / "installed").write_text(fingerprint(directory))
