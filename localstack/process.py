"""What the local stack needs to know about processes and ports, with the standard library only.

A pid alone names nothing: it is reused. Wherever a pid is kept in a file it is kept with the time its
process started, and nothing is signalled unless both still agree.
"""

from __future__ import annotations

import ctypes
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterable
from typing import TypedDict


class Identity(TypedDict):
    """What is written down about a process so that it can be recognised later."""

    pid: int
    started: str


def started_at(pid: int) -> str | None:
    """An opaque text that says when this process started; None if it does not run (a zombie does not)."""
    stat = pathlib.Path(f"/proc/{pid}/stat")
    if pathlib.Path("/proc/self/stat").exists():
        try:
            # The command name sits in parentheses and may itself hold spaces and parentheses.
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            return None
        return None if fields[0] in "ZX" else f"ticks {fields[19]}"
    answer = subprocess.run(
        ["ps", "-o", "stat=,lstart=", "-p", str(pid)], capture_output=True, text=True, check=False
    ).stdout.split(maxsplit=1)
    return None if len(answer) < 2 or answer[0].startswith("Z") else answer[1].strip()


def identity(pid: int) -> Identity:
    """The identity of a process; that of one which does not run matches nothing."""
    return {"pid": pid, "started": started_at(pid) or "gone"}


def is_running(process: Identity | None) -> bool:
    """Whether this very process (not a later one with the same pid) still runs."""
    return process is not None and started_at(process["pid"]) == process["started"]


def send(process: Identity, number: signal.Signals) -> None:
    """Signals a process after making sure that the pid still means it."""
    if is_running(process):
        try:
            os.kill(process["pid"], number)
        except ProcessLookupError:
            pass


def wait_gone(processes: Iterable[Identity], seconds: float) -> list[Identity]:
    """Waits until none of these runs, at most this long; returns those that still do."""
    left = list(processes)
    deadline = time.monotonic() + seconds
    while left:
        left = [process for process in left if is_running(process)]
        if not left or time.monotonic() > deadline:
            break
        time.sleep(0.05)
    return left


def die_with_parent(parent: int) -> None:
    """Makes this process end when its parent does, however the parent ended.

    Without it a supervisor killed with SIGKILL would leave servers behind that hold the ports. Linux
    does this in the kernel; elsewhere a thread watches. The signal is SIGTERM because the AWS emulator
    saves its state on SIGTERM.
    """
    if sys.platform == "linux":
        set_parent_death_signal = 1
        if ctypes.CDLL(None, use_errno=True).prctl(set_parent_death_signal, signal.SIGTERM) != 0:
            raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG) failed")
    else:

        def watch() -> None:
            while os.getppid() == parent:
                time.sleep(1)
            os.kill(os.getpid(), signal.SIGTERM)

        threading.Thread(target=watch, daemon=True).start()
    # The parent may have died before the request above was in place.
    if os.getppid() != parent:
        raise SystemExit("the parent process ended before this server had started")


def port_is_free(port: int) -> bool:
    """Whether a server could listen on this loopback port now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # Old connections in TIME_WAIT are no obstacle to a server, so they must not be one here.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def port_holder(port: int) -> str:
    """Says who listens on a port, in words for an error message, as well as this machine lets us know."""
    inodes = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            rows = pathlib.Path(table).read_text().splitlines()[1:]
        except OSError:
            continue
        for row in rows:
            fields = row.split()
            listening = fields[3] == "0A"
            if listening and int(fields[1].rpartition(":")[2], 16) == port:
                inodes.add(f"socket:[{fields[9]}]")
    for descriptor in pathlib.Path("/proc").glob("[0-9]*/fd/*") if inodes else ():
        try:
            if os.readlink(descriptor) in inodes:
                command = (descriptor.parent.parent / "cmdline").read_bytes().replace(b"\0", b" ")
                return f"pid {descriptor.parts[2]} ({command.decode(errors='replace').strip()[:120]})"
        except OSError:
            continue
    if shutil.which("lsof"):
        answer = subprocess.run(
            ["lsof", "-nP", f"-iTCP:{port}", "-sTCP:LISTEN", "-Fpc"], capture_output=True, text=True, check=False
        ).stdout.split()
        if len(answer) >= 2:
            return f"pid {answer[0][1:]} ({answer[1][1:]})"
    return "a process that this user may not see"
