"""What became of a command: exit codes, and errors in words."""

from __future__ import annotations

import os
import sys
import traceback
from typing import Final

from ascertain.errors import AscertainError, JournalError, VerificationFailed

FINE: Final = 0
ATTENTION: Final = 1
BAD_INPUT: Final = 2
NO_JOURNAL: Final = 3
DEFECT: Final = 70
INTERRUPTED: Final = 130
CLOSED_PIPE: Final = 141


def printable(text: str) -> str:
    """The text on one line, without what a terminal would obey instead of showing."""
    return "".join(
        sign if sign.isprintable() else " " if sign in "\n\t" else f"\\x{ord(sign):02x}"
        for sign in text
    )


def exit_code(error: AscertainError) -> int:
    """The exit code that stands for an error of the tree."""
    if isinstance(error, JournalError):
        return NO_JOURNAL
    return ATTENTION if isinstance(error, VerificationFailed) else BAD_INPUT


def tell(message: str, fix: str = "") -> None:
    """Say on stderr what is wrong, in one line, and then what to do."""
    print(f"ascertain: {printable(message)}", file=sys.stderr)
    for line in fix.splitlines():
        print(f"  {printable(line)}", file=sys.stderr)


def failed(error: BaseException, *, debug: bool) -> int:
    """Tell of an error that ended a command; the exit code."""
    if isinstance(error, BrokenPipeError) or isinstance(error.__context__, BrokenPipeError):
        # Whoever read our output has gone; what is still buffered must not fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return CLOSED_PIPE
    if debug:
        traceback.print_exception(error)
    if isinstance(error, KeyboardInterrupt):
        notes = "; ".join(getattr(error, "__notes__", ()))
        tell(f"interrupted: {notes or 'what was recorded stays; run the same command again'}")
        return INTERRUPTED
    if isinstance(error, AscertainError):
        tell(error.message, error.fix)
        return exit_code(error)
    usage = getattr(error, "format_message", None)
    if type(error).__name__ == "NoArgsIsHelpError" and usage is not None:
        print(usage(), file=sys.stderr)
        return BAD_INPUT
    if usage is not None:
        context = getattr(error, "ctx", None)
        path = "ascertain" if context is None else context.command_path
        tell(usage(), f"`{path} --help` shows how it is used.")
        return BAD_INPUT
    tell(
        f"unexpected {type(error).__name__}: {error}",
        "" if debug else "This is a defect. `--debug` shows where; what was recorded stays.",
    )
    return DEFECT
