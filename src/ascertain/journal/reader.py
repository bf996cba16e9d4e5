"""One reading connection for each process, closed over forks like the writer's (see `writer`)."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable

from ascertain.errors import JournalUnavailable
from ascertain.journal.forks import follow_forks, keep_for_ever

__all__ = ["SharedReader"]

_FORK_WAIT_SECONDS = 30.0


class SharedReader:
    """A connection that threads use in turn: ``with reader.lock: reader.open().execute(…)``.

    Args:
        connect: opens the connection; called lazily, and again after a fork.

    Attributes:
        lock: to be held for as long as the connection, or a cursor of it, is used.
    """

    def __init__(self, connect: Callable[[], sqlite3.Connection]) -> None:
        self._connect = connect
        self._inherited = False
        self._conn: sqlite3.Connection | None = None
        self._start_over()
        follow_forks(self)

    def _start_over(self) -> None:
        self._pid = os.getpid()
        self._forking = 0
        self.lock = threading.Lock()

    def open(self) -> sqlite3.Connection:
        """The connection, under the lock.

        Raises:
            JournalUnavailable: it cannot be opened, or it was open when this process was forked.
        """
        if self._pid != os.getpid():
            self.after_fork_in_child()
        if self._inherited:
            raise JournalUnavailable(
                "This process was forked while the journal was being read",
                fix="Fork outside of journal calls, or open the journal only in the child.",
            )
        conn = self._conn
        if conn is None:
            conn = self._conn = self._connect()
        return conn

    def close(self) -> None:
        """Close the connection; the next use opens it again."""
        with self.lock:
            self._close()

    def _close(self) -> None:
        conn, self._conn = self._conn, None
        if conn is not None:
            conn.close()

    def close_for_fork(self) -> None:
        """Close it and let nobody read before the fork is over: the writer's ``before_fork``.

        Raises:
            JournalUnavailable: somebody reads on and on; the child will refuse.
        """
        if not self.lock.acquire(timeout=_FORK_WAIT_SECONDS):
            raise JournalUnavailable("The journal is being read", fix="Call again.")
        self._forking = threading.get_ident()
        self._close()

    def before_fork(self, until: float) -> None:
        """See `forks`; the writer calls `close_for_fork` when nobody is in a transaction."""

    def after_fork_in_parent(self) -> None:
        """Let the others read again."""
        if self._forking == threading.get_ident():
            self._forking = 0
            self.lock.release()

    def after_fork_in_child(self) -> None:
        """Forget the parent's connection, without touching it."""
        conn, self._conn = self._conn, None
        self._start_over()
        if conn is not None:
            self._inherited = True
            keep_for_ever(conn)
