"""Runs the AWS emulator so that it ends when its parent does, and can save its state without ending.

Settings come by environment (see supervisor.py). The emulator by itself saves when it ends by SIGTERM and
at no other time. What it writes to S3 is on disk at once, though, so after a SIGKILL it would meet
a bucket that none of its other services knows of, and refuse to deploy the template. Hence a save on
SIGUSR1, which the supervisor asks for after each deployment. It reaches into the emulator's module: the
version is pinned.
"""

from __future__ import annotations

import pathlib
import signal
import sys

import process


def main() -> None:
    process.die_with_parent(int(sys.argv[1]))
    saved = pathlib.Path(sys.argv[2])
    # The emulator parses the command line itself.
    del sys.argv[1:]
    from ministack import app
    from ministack.core.persistence import save_all

    def save(*_: object) -> None:
        # Runs in the main thread between two steps of the event loop's code, so no request is half done in it.
        save_all(app._build_persistence_save_dict())
        saved.touch()

    signal.signal(signal.SIGUSR1, save)
    app.main()


if __name__ == "__main__":
    main()
