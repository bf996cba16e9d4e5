"""The command `ascertain`: one file for each group of commands.

Exit codes: 0 fine; 1 something needs attention; 2 bad usage or input; 3 the journal could
not be used; 70 a defect of this program; 130 interrupted. Errors go to stderr, one line
first, then what to do about it.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

__all__ = ["interruptible", "main", "uninterrupted"]

_asked: list[int] = []


def _remember(number: int, frame: FrameType | None) -> None:
    _asked.append(number)


def _raise_if_asked() -> None:
    if _asked:
        _asked.clear()
        raise KeyboardInterrupt


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Ctrl-C counts afterwards: some modules cannot be left halfway through their loading."""
    usual = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    try:
        if usual:
            signal.signal(signal.SIGINT, _remember)
    except ValueError:  # not on the main thread, which alone is interrupted
        usual = False
    try:
        yield
    finally:
        if usual:
            signal.signal(signal.SIGINT, signal.default_int_handler)
    if usual:
        _raise_if_asked()


@contextmanager
def interruptible() -> Iterator[None]:
    """Within `uninterrupted`: work that Ctrl-C ends at once."""
    deferred = signal.getsignal(signal.SIGINT) is _remember
    if deferred:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        _raise_if_asked()
        yield
    finally:
        if deferred:
            signal.signal(signal.SIGINT, _remember)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code. What a command needs is loaded with it."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        with uninterrupted():
            if given == ["--version"]:
                from ascertain import __version__

                print(f"ascertain {__version__}")
                return 0
            from ascertain.cli.application import run

            return run(given)
    except KeyboardInterrupt:
        print("ascertain: interrupted", file=sys.stderr)
        return 130
