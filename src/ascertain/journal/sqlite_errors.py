"""What SQLite refused, in the words of the error tree.

Only for failures after which nothing is written. A COMMIT that raises is none: see `ambiguous`.
"""

from __future__ import annotations

import sqlite3

from ascertain.errors import AmbiguousCommit, JournalError, JournalUnavailable, NotAJournal

__all__ = ["ambiguous", "is_refusal", "unavailable"]

_FIXES = {
    sqlite3.SQLITE_BUSY: "Another process keeps the write lock. Look for a long transaction on "
    "the file, or raise the busy timeout, then call again.",
    sqlite3.SQLITE_LOCKED: "Another connection keeps a lock. End its transaction, then call again.",
    sqlite3.SQLITE_FULL: "Free space on the disk that holds the journal, then call again.",
    sqlite3.SQLITE_READONLY: "Make the file and its directory writable for this user. A file that "
    "was moved or replaced while it was open must be opened again.",
    sqlite3.SQLITE_CANTOPEN: "Check that the directory exists and that this user may write in it.",
    sqlite3.SQLITE_PERM: "Check that this user may read and write the file.",
    sqlite3.SQLITE_IOERR: "The disk or file system reports an error. Check it before going on.",
    sqlite3.SQLITE_CORRUPT: "Stop writing. Keep the file as it is and restore a checked backup.",
    sqlite3.SQLITE_PROTOCOL: "Too many processes race for the file's locks. Call again.",
    sqlite3.SQLITE_NOMEM: "Free memory, then call again.",
}


def is_refusal(error: BaseException) -> bool:
    """Whether the place (file, disk, lock) refused, and not one statement.

    Args:
        error: anything that was raised while a statement ran.

    Returns:
        True for a full disk, a lock that is not given, a read-only place and the like.
    """
    return isinstance(error, sqlite3.Error) and (
        _code(error) in _FIXES or _code(error) == sqlite3.SQLITE_NOTADB
    )


def unavailable(error: Exception) -> JournalError:
    """The error to raise where the journal could not be used and nothing was written.

    Args:
        error: as it was raised by sqlite3, by the file system, or by the journal itself.

    Returns:
        `NotAJournal`, `JournalUnavailable`, or a new error of the class that ``error`` has in the
        tree; its cause is ``error``. Each caller of a batch is given one of its own.
    """
    found: JournalError
    if isinstance(error, JournalError):
        found = type(error)(error.message, fix=error.fix)
    elif isinstance(error, sqlite3.Error) and _code(error) == sqlite3.SQLITE_NOTADB:
        found = NotAJournal(
            f"The file is not a SQLite database: {error}", fix="Check the path of the journal."
        )
    else:
        fix = "Nothing was written. Mend the cause, then call again."
        if isinstance(error, sqlite3.Error):
            fix = _FIXES.get(_code(error), fix)
        found = JournalUnavailable(f"The journal cannot be used: {error}", fix=fix)
    found.__cause__ = error
    return found


def ambiguous(error: Exception | None = None) -> AmbiguousCommit:
    """The error to raise where COMMIT itself failed.

    Args:
        error: as sqlite3 raised it; None if an interrupt hid it.

    Returns:
        `AmbiguousCommit`, also for errors that SQLite rolls back: a full disk can be met after
        the commit record was written, and a later start of the database may find it.
    """
    why = f" ({error})" if error is not None else ""
    found = AmbiguousCommit(
        f"COMMIT failed{why}: the records may or may not be durable",
        fix="Release nothing. Read the action's records again: what they say is so.",
    )
    found.__cause__ = error
    return found


def _code(error: sqlite3.Error) -> int:
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF
