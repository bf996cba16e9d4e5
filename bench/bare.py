"""The yardstick: a bare script that commits the same bytes, alone or sharing commits."""

from __future__ import annotations

import sqlite3
import threading
from pathlib import Path


def database(path: Path) -> sqlite3.Connection:
    """A file with one table and durable commits, as a script would open it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    conn = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=30)
    conn.execute("PRAGMA synchronous = EXTRA")
    conn.execute("PRAGMA journal_mode = WAL")
    conn.execute("PRAGMA synchronous = FULL")
    conn.execute("CREATE TABLE record (number INTEGER PRIMARY KEY, name TEXT, body BLOB)")
    return conn


def commit(conn: sqlite3.Connection, name: str, bodies: list[bytes]) -> None:
    """One transaction with these bytes."""
    conn.execute("BEGIN IMMEDIATE")
    conn.executemany(
        "INSERT INTO record (name, body) VALUES (?, ?)", [(name, body) for body in bodies]
    )
    conn.execute("COMMIT")


class Shared:
    """Threads share commits: whoever is first commits for those that wait."""

    def __init__(self, conn: sqlite3.Connection) -> None:
        self.conn = conn
        self.changed = threading.Condition(threading.Lock())
        self.waiting: list[tuple[str, list[bytes]]] = []
        self.filling = 1
        self.committed = 0
        self.leading = False

    def commit(self, name: str, bodies: list[bytes]) -> None:
        """Return once the bytes are durable."""
        with self.changed:
            self.waiting.append((name, bodies))
            mine = self.filling
            while self.leading and self.committed < mine:
                self.changed.wait()
            if self.committed >= mine:
                return
            batch, self.waiting = self.waiting, []
            self.filling += 1
            self.leading = True
        self.conn.execute("BEGIN IMMEDIATE")
        self.conn.executemany(
            "INSERT INTO record (name, body) VALUES (?, ?)",
            [(name, body) for name, bodies in batch for body in bodies],
        )
        self.conn.execute("COMMIT")
        with self.changed:
            self.committed = mine
            self.leading = False
            self.changed.notify_all()
