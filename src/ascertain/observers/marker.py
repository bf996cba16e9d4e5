"""The fence of a SQL database of yours: a marker row for each action id (DESIGN 4, 6).

Attempt and seal write the same row; a writer that wins no row aborts. The row stands in
the effect's own transaction, so that it is there exactly if the effect is: it is the
proof, the readback, and, written by a seal, the end of every later attempt.

Installed in your database: ``ascertain_store`` (its name), ``ascertain_fence`` (the
rows) and ``ascertain_outbox`` (what others are to hear of, in the same transaction).
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Any, Protocol

import msgspec

from ascertain.core.codec import decode, encode
from ascertain.core.contract import Consistency
from ascertain.core.evidence import Absent, Declined, Reading, Seen, Source, Unreadable
from ascertain.errors import InputRefused, IntentConflict

from . import Question

TABLES = (
    "CREATE TABLE IF NOT EXISTS ascertain_store (name VARCHAR(64) PRIMARY KEY)",
    "CREATE TABLE IF NOT EXISTS ascertain_fence ("
    "action_id VARCHAR(200) PRIMARY KEY, fingerprint VARCHAR(200) NOT NULL, "
    "state VARCHAR(16) NOT NULL, attempt INTEGER NOT NULL, result TEXT, reason TEXT)",
    "CREATE TABLE IF NOT EXISTS ascertain_outbox ("
    "action_id VARCHAR(200) NOT NULL, topic VARCHAR(100) NOT NULL, body TEXT NOT NULL, "
    "PRIMARY KEY (action_id, topic))",
)


class Handle(Protocol):
    """One connection to the database, whatever the library."""

    conn: Any

    def run(self, sql: str, values: dict[str, Any]) -> list[tuple[Any, ...]]:
        """Run a statement with ``:name`` values; its rows, empty where it gives none."""

    def active(self) -> bool:
        """Is a transaction open on it?"""

    def begin(self) -> None:
        """Begin a transaction that may write."""

    def join(self) -> object:
        """See to it that the caller's transaction has really begun, before a savepoint in it."""

    def commit(self) -> None:
        """Make it durable."""

    def rollback(self) -> None:
        """Take everything back."""

    def close(self) -> None:
        """Give the connection back, if it is ours."""


class Duplicate(Exception):
    """The fence row is there already."""


class Fenced(msgspec.Struct, frozen=True):
    """A fence row. ``state``: applied, rejected or sealed."""

    fingerprint: str
    state: str
    attempt: int
    result: Any
    reason: str | None


class Marker:
    """The fence as observer and sealer. ``connect`` opens a `Handle` of its own to it."""

    def __init__(
        self,
        connect: Callable[[], Handle],
        wrap: Callable[[Any], Handle],
        *,
        domain: str,
        shared_path: str | None = None,
        leads_here: Callable[[Handle], bool] | None = None,
    ) -> None:
        self._connect = connect
        self.wrap = wrap
        self.shared_path = shared_path
        self._leads_here = leads_here
        self.name = self._install()
        self.fence = f"{self.name}/ascertain_fence"
        self.source = Source(f"marker {self.name}", domain, Consistency.LINEARIZABLE)

    def _install(self) -> str:
        """Create the tables; the store's name, which is made once."""
        handle = self._connect()
        try:
            handle.begin()
            for statement in TABLES:
                handle.run(statement, {})
            rows = handle.run("SELECT name FROM ascertain_store", {})
            if not rows:
                name = f"store-{secrets.token_hex(12)}"
                handle.run("INSERT INTO ascertain_store (name) VALUES (:name)", {"name": name})
                rows = [(name,)]
            handle.commit()
            return str(rows[0][0])
        except BaseException:
            handle.rollback()
            raise
        finally:
            handle.close()

    def check(self, handle: Handle) -> None:
        """Is it a connection to this fence's database? Raises InputRefused if it is not.

        Begins no transaction.
        """
        try:
            ours = self._named(handle) if self._leads_here is None else self._leads_here(handle)
            why = "another database than the action's store"
        except Exception as error:
            ours, why = False, f"no open connection to the action's store ({error})"
        if not ours:
            raise InputRefused(
                f"the connection is to {why}"[:300],
                fix="Give an open connection, or a session, to the database of store=….",
            )

    def _named(self, handle: Handle) -> bool:
        return handle.run("SELECT name FROM ascertain_store", {}) == [(self.name,)]

    def open(self) -> Handle:
        """A connection of the fence's own, for a release that recovery makes."""
        return self._connect()

    # -- as observer and sealer --------------------------------------------------------------

    def observe(self, question: Question) -> Reading:
        """Read the row on the writer's side, behind every transaction that has it."""
        handle = self._connect()
        try:
            handle.begin()
            row = read_fence(handle, question.action_id)
            handle.rollback()
        finally:
            handle.close()
        return reading_of(row, question)

    def seal(self, question: Question) -> bool:
        """Win the row for nobody. It waits for a running transaction that has it."""
        handle = self._connect()
        try:
            handle.begin()
            try:
                write_fence(handle, question.action_id, question.fingerprint, "sealed", 0)
            except Duplicate:
                row = read_fence(handle, question.action_id)
                handle.rollback()
                return row is not None and row.state == "sealed"
            handle.commit()
            return True
        except BaseException:
            handle.rollback()
            raise
        finally:
            handle.close()


class Within:
    """The fence as it is seen inside a transaction of the caller's, which has the write lock."""

    def __init__(self, marker: Marker, handle: Handle) -> None:
        self.source = marker.source
        self._handle = handle

    def observe(self, question: Question) -> Reading:
        """Read the row there."""
        self._handle.join()
        return reading_of(read_fence(self._handle, question.action_id), question)


def reading_of(row: Fenced | None, question: Question) -> Reading:
    """What a fence row says about an action."""
    if row is None or row.state == "sealed":
        return Absent()
    if row.fingerprint != question.fingerprint:
        return Seen(
            reference_of(question.action_id),
            action_id=question.action_id,
            fingerprint=row.fingerprint,
        )
    if row.state == "rejected":
        return Declined(row.reason or "refused")
    if row.state != "applied":
        return Unreadable(f"a fence row in state {row.state!r}")
    return Seen(
        reference_of(question.action_id),
        action_id=question.action_id,
        fingerprint=row.fingerprint,
        result=row.result,
    )


def reference_of(action_id: str) -> str:
    """The reference of an effect behind a fence: its row."""
    return f"ascertain_fence/{action_id}"


def read_fence(handle: Handle, action_id: str) -> Fenced | None:
    """The row of an action, as this connection sees it."""
    rows = handle.run(
        "SELECT fingerprint, state, attempt, result, reason FROM ascertain_fence "
        "WHERE action_id = :action_id",
        {"action_id": action_id},
    )
    if not rows:
        return None
    fingerprint, state, attempt, result, reason = rows[0]
    kept = None if result is None else decode(result.encode())
    return Fenced(fingerprint, state, int(attempt), kept, reason)


def write_fence(handle: Handle, action_id: str, fingerprint: str, state: str, attempt: int) -> None:
    """Win the row. Raises Duplicate where it is held already."""
    won = handle.run(
        "INSERT INTO ascertain_fence (action_id, fingerprint, state, attempt) "
        "VALUES (:action_id, :fingerprint, :state, :attempt) "
        "ON CONFLICT (action_id) DO NOTHING RETURNING action_id",
        {
            "action_id": action_id,
            "fingerprint": fingerprint,
            "state": state,
            "attempt": attempt,
        },
    )
    if not won:
        raise Duplicate(action_id)


def finish_fence(
    handle: Handle, action_id: str, state: str, result: Any = None, reason: str | None = None
) -> None:
    """Store the result with the row, and the outbox row beside it, in its transaction."""
    kept = None if result is None else encode(result).decode()
    handle.run(
        "UPDATE ascertain_fence SET state = :state, result = :result, reason = :reason "
        "WHERE action_id = :action_id",
        {"action_id": action_id, "state": state, "result": kept, "reason": reason},
    )
    body = encode({"action_id": action_id, "state": state}).decode()
    handle.run(
        "INSERT INTO ascertain_outbox (action_id, topic, body) VALUES (:action_id, :topic, :body)",
        {"action_id": action_id, "topic": f"fence.{state}", "body": body},
    )


def check_fence(row: Fenced, action_id: str, fingerprint: str) -> None:
    """Raises IntentConflict where the row was won for another intent."""
    if row.fingerprint != fingerprint:
        raise IntentConflict(
            f"action {action_id!r} took effect with another intent",
            fix="A changed plan needs a new action id, and a new decision.",
        )


# --- connections ----------------------------------------------------------------------------


class SqliteHandle:
    """A sqlite3 connection; ``owned``: it is closed with the handle."""

    def __init__(self, conn: Any, *, owned: bool = False) -> None:
        self.conn = conn
        self.owned = owned

    def run(self, sql: str, values: dict[str, Any]) -> list[tuple[Any, ...]]:
        """See `Handle`. The connection's own row factory is left out of it."""
        cursor = self.conn.cursor()
        cursor.row_factory = None
        try:
            rows: list[tuple[Any, ...]] = cursor.execute(sql, values).fetchall()
        finally:
            cursor.close()
        return rows

    def active(self) -> bool:
        """See `Handle`."""
        return bool(self.conn.in_transaction)

    def begin(self) -> None:
        """See `Handle`."""
        self.conn.execute("BEGIN IMMEDIATE")

    def join(self) -> None:
        """See `Handle`: it is open, or `active` would have said so."""

    def commit(self) -> None:
        """See `Handle`."""
        self.conn.execute("COMMIT")

    def rollback(self) -> None:
        """See `Handle`."""
        if self.conn.in_transaction:
            self.conn.execute("ROLLBACK")

    def close(self) -> None:
        """See `Handle`."""
        if self.owned:
            self.conn.close()


class SqlalchemyHandle:
    """A SQLAlchemy Session or Connection; ``owned``: it is closed with the handle."""

    def __init__(self, conn: Any, *, owned: bool = False) -> None:
        self.conn = conn
        self.owned = owned

    def run(self, sql: str, values: dict[str, Any]) -> list[tuple[Any, ...]]:
        """See `Handle`."""
        from sqlalchemy import text

        result = self.conn.execute(text(sql), values)
        return [tuple(row) for row in result.fetchall()] if result.returns_rows else []

    def active(self) -> bool:
        """See `Handle`."""
        return bool(self.conn.in_transaction())

    def begin(self) -> None:
        """See `Handle`. SQLite must hold its write lock before anything is read."""
        if not self.conn.in_transaction():
            self.conn.begin()
        if not self.join():
            # An engine that begins on its own does so without the write lock.
            self.run(TABLES[0], {})
            self.run("UPDATE ascertain_store SET name = name", {})

    def join(self) -> bool:
        """See `Handle`. A session's transaction need not have reached SQLite yet: its driver
        begins only before a write, and the end of a savepoint outside would be a COMMIT.

        True if SQLite has its write lock by this call, or there is no SQLite.
        """
        conn = self.conn.connection() if hasattr(self.conn, "get_bind") else self.conn
        if conn.dialect.name != "sqlite":
            return True
        if conn.connection.driver_connection.in_transaction:
            return False
        conn.exec_driver_sql("BEGIN IMMEDIATE")
        return True

    def commit(self) -> None:
        """See `Handle`."""
        self.conn.commit()

    def rollback(self) -> None:
        """See `Handle`."""
        self.conn.rollback()

    def close(self) -> None:
        """See `Handle`."""
        if self.owned:
            self.conn.close()


def sqlite_marker(path: str, *, domain: str = "database", timeout_s: float = 30.0) -> Marker:
    """The fence in a SQLite file. Effects on it go over sqlite3 connections of yours."""
    import sqlite3
    from pathlib import Path

    def connect() -> Handle:
        conn = sqlite3.connect(path, isolation_level=None, timeout=timeout_s)
        conn.execute("PRAGMA synchronous = FULL")
        return SqliteHandle(conn, owned=True)

    return Marker(connect, SqliteHandle, domain=domain, shared_path=str(Path(path).absolute()))


def sqlalchemy_marker(engine: Any, *, domain: str = "database") -> Marker:
    """The fence in a database behind a SQLAlchemy engine. Effects go over your sessions."""
    from sqlalchemy.orm import Session

    if not hasattr(engine, "connect"):
        raise InputRefused(
            f"{type(engine).__name__} is not an engine", fix="Give a sqlalchemy.Engine."
        )

    def leads_here(handle: Handle) -> bool:
        conn = handle.conn
        bind = conn.get_bind() if hasattr(conn, "get_bind") else conn
        return bool(bind.engine is engine or bind.engine.url == engine.url)

    return Marker(
        lambda: SqlalchemyHandle(Session(engine), owned=True),
        SqlalchemyHandle,
        domain=domain,
        leads_here=leads_here,
    )
