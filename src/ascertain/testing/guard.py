"""Runs another program and ends it when standard input ends: ``python guard.py COMMAND…``.

Started by path, with the standard library alone, so that it costs next to nothing.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time

POLITE_S = 0.2


def main(command: list[str]) -> int:
    """Run the command until it ends or our standard input does."""
    program = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=sys.stderr, stderr=sys.stderr
    )
    told: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, frame: told.append(number))
    while program.poll() is None and not told:
        ready, _, _ = select.select([0], [], [], 0.1)
        if ready and not os.read(0, 4096):
            break
    else:
        if not told:
            return program.returncode
    program.terminate()
    until = time.monotonic() + POLITE_S
    while program.poll() is None and time.monotonic() < until:
        time.sleep(0.02)
    program.kill()
    return program.wait()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
