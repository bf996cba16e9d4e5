"""The fake provider's books: what truly happened there, in one SQLite database.

One connection behind one lock; the lock is the provider's transaction. With a file, the books
survive the death of the provider's process.
"""

from __future__ import annotations

import json
import sqlite3
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

SCHEMA = """
CREATE TABLE IF NOT EXISTS requests (
    number INTEGER PRIMARY KEY, at_ms INTEGER NOT NULL, kind TEXT NOT NULL,
    action_id TEXT NOT NULL, key TEXT NOT NULL, digest TEXT NOT NULL,
    answer TEXT NOT NULL DEFAULT 'open');
CREATE TABLE IF NOT EXISTS effects (
    number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, action_id TEXT NOT NULL,
    payload TEXT NOT NULL, state TEXT NOT NULL, accepted_ms INTEGER NOT NULL,
    committed_ms INTEGER);
CREATE INDEX IF NOT EXISTS effects_by_action ON effects (action_id);
CREATE TABLE IF NOT EXISTS reversals (
    number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, effect_id TEXT NOT NULL,
    action_id TEXT NOT NULL, committed_ms INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS keys (
    key TEXT PRIMARY KEY, digest TEXT NOT NULL, first_ms INTEGER NOT NULL,
    code INTEGER, answer TEXT);
CREATE TABLE IF NOT EXISTS seals (action_id TEXT PRIMARY KEY, at_ms INTEGER NOT NULL);
DELETE FROM keys WHERE code IS NULL;
"""


def now_ms() -> int:
    """The provider's own clock."""
    return time.time_ns() // 1_000_000


@dataclass(frozen=True, slots=True)
class KeyUse:
    """What the books say about a key. ``code`` is None while its first request is under way."""

    digest: str
    first_ms: int
    code: int | None
    answer: str


class Ledger:
    """Requests, effects, reversals, keys and seals."""

    def __init__(self, path: str = ":memory:") -> None:
        self._connection = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
        self._connection.row_factory = sqlite3.Row
        self._connection.executescript(SCHEMA)
        self._lock = threading.RLock()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All of it or nothing; one at a time."""
        with self._lock:
            if self._connection.in_transaction:
                yield
                return
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield
            except BaseException:
                self._connection.execute("ROLLBACK")
                raise
            self._connection.execute("COMMIT")

    def _write(self, statement: str, *values: object) -> int:
        with self.transaction():
            return self._connection.execute(statement, values).lastrowid or 0

    def _rows(self, statement: str, *values: object) -> list[dict[str, object]]:
        with self._lock:
            return [dict(row) for row in self._connection.execute(statement, values)]

    def arrived(self, kind: str, action_id: str, key: str, digest: str) -> int:
        """A request came in, whatever becomes of it."""
        return self._write(
            "INSERT INTO requests (at_ms, kind, action_id, key, digest) VALUES (?, ?, ?, ?, ?)",
            now_ms(),
            kind,
            action_id,
            key,
            digest,
        )

    def answered(self, number: int, answer: str) -> None:
        """What became of it."""
        self._write("UPDATE requests SET answer = ? WHERE number = ?", answer, number)

    def key(self, key: str, retention_ms: int) -> KeyUse | None:
        """The use of a key, unless it was pruned."""
        with self.transaction():
            if retention_ms:
                self._write("DELETE FROM keys WHERE first_ms < ?", now_ms() - retention_ms)
            row = self._connection.execute("SELECT * FROM keys WHERE key = ?", (key,)).fetchone()
        if row is None:
            return None
        return KeyUse(row["digest"], row["first_ms"], row["code"], row["answer"] or "")

    def take_key(self, key: str, digest: str) -> None:
        """The first request under this key is under way."""
        self._write("INSERT INTO keys VALUES (?, ?, ?, NULL, NULL)", key, digest, now_ms())

    def save_answer(self, key: str, code: int, answer: str) -> None:
        """Keep what this key gets from now on."""
        self._write("UPDATE keys SET code = ?, answer = ? WHERE key = ?", code, answer, key)

    def drop_key(self, key: str) -> None:
        """Forget a key whose request left no result."""
        self._write("DELETE FROM keys WHERE key = ? AND code IS NULL", key)

    def accept(self, action_id: str, payload: Mapping[str, object]) -> str:
        """An effect was accepted; it is not committed yet."""
        with self.transaction():
            number = self._write(
                "INSERT INTO effects (id, action_id, payload, state, accepted_ms)"
                " VALUES ('', ?, ?, 'accepted', ?)",
                action_id,
                json.dumps(payload, sort_keys=True),
                now_ms(),
            )
            reference = f"eff_{number:06d}"
            self._write("UPDATE effects SET id = ? WHERE number = ?", reference, number)
        return reference

    def commit(self, reference: str) -> None:
        """The effect is true from now on."""
        self._write(
            "UPDATE effects SET state = 'committed', committed_ms = ? WHERE id = ?",
            now_ms(),
            reference,
        )

    def reverse(self, effect_id: str, action_id: str) -> str:
        """A later effect that offsets the first; the first stays in the books."""
        with self.transaction():
            number = self._write(
                "INSERT INTO reversals (id, effect_id, action_id, committed_ms)"
                " VALUES ('', ?, ?, ?)",
                effect_id,
                action_id,
                now_ms(),
            )
            reference = f"rev_{number:06d}"
            self._write("UPDATE reversals SET id = ? WHERE number = ?", reference, number)
        return reference

    def seal(self, action_id: str) -> bool:
        """Refuse this action id from now on. False: it has taken effect already."""
        with self.transaction():
            if self._rows("SELECT 1 FROM effects WHERE action_id = ?", action_id):
                return False
            self._write("INSERT OR IGNORE INTO seals VALUES (?, ?)", action_id, now_ms())
        return True

    def sealed(self, action_id: str) -> bool:
        """True if the action id is sealed."""
        return bool(self._rows("SELECT 1 FROM seals WHERE action_id = ?", action_id))

    def effects(
        self, action_id: str | None = None, *, reference: str | None = None, lag_ms: int = 0
    ) -> list[dict[str, object]]:
        """Effects with their reversals, oldest first; ``lag_ms`` hides those younger than that."""
        found = self._rows(
            "SELECT id, action_id, payload, state, accepted_ms, committed_ms FROM effects"
            " WHERE (?1 IS NULL OR action_id = ?1) AND (?2 IS NULL OR id = ?2)"
            " AND coalesce(committed_ms, accepted_ms) <= ?3 ORDER BY number",
            action_id,
            reference,
            now_ms() - lag_ms,
        )
        for effect in found:
            effect["payload"] = json.loads(str(effect["payload"]))
            effect["reversals"] = self._rows(
                "SELECT id, action_id, committed_ms FROM reversals WHERE effect_id = ?",
                effect["id"],
            )
        return found

    def books(self) -> dict[str, object]:
        """Everything, for those who check."""
        return {
            "effects": self.effects(),
            "reversals": self._rows("SELECT * FROM reversals ORDER BY number"),
            "requests": self._rows("SELECT * FROM requests ORDER BY number"),
            "seals": self._rows("SELECT * FROM seals ORDER BY action_id"),
        }
