"""The journal on one SQLite file (DESIGN 10).

Write-ahead log with ``synchronous=FULL`` (``EXTRA`` while the log is switched on, so
that the directory entry is durable too). Many processes may share the file; each has
one writer, which shares commits among its threads and coroutines.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Any, TypeVar, cast

from ascertain.core.codec import Json
from ascertain.core.cut import Sources
from ascertain.core.records import AttemptReleased, Chain, Entry, read_entry
from ascertain.errors import (
    AmbiguousCommit,
    JournalUnavailable,
    PositionTaken,
    StaleEpoch,
)

from . import ActionRow, OutboxRow, StoredCertificate, Transaction
from .reader import SharedReader
from .sidecar import Sidecar
from .sqlite_file import connect, prepare
from .sqlite_rows import CHANGING, INSERT, PLACES, SELECT, insert_values, octets, row_of
from .sqlite_whole import (
    SqliteSnapshot,
    drop_loose_rows,
    read_incarnations,
    replace_rows,
    write_incarnation,
)
from .writer import SharedWriter, unavailable

T = TypeVar("T")

_SET = ", ".join(f"{name} = ?" for name in CHANGING)
_ADVANCE_ROOT = (
    f"UPDATE action SET {_SET}, position = ?, head = ? "
    "WHERE number = ? AND epoch = ? AND position = ?"
)
_ADVANCE = f"UPDATE action SET {_SET} WHERE number = ? AND epoch = ?"
_HEAD = "UPDATE action SET position = ?, head = ? WHERE number = ? AND position = ?"
_DUE = (
    "UPDATE action SET finding = ?, level = ?, decision = ?, open = ?, next_at = ?, "
    "changed_at = ? WHERE number = ?"
)
_RECORD = "INSERT INTO record (number, body) VALUES (?, ?)"

_changing_values = attrgetter(*CHANGING)


class _Read:
    """Reads over one connection."""

    def __init__(self, conn: sqlite3.Connection) -> None:
        self.conn = conn

    def action(self, action_id: str) -> ActionRow | None:
        found = self.conn.execute(f"{SELECT} WHERE action_id = ?", (action_id,)).fetchone()
        return None if found is None else row_of(found)

    def entries(self, root_id: str) -> list[Entry]:
        rows = self.conn.execute(
            "SELECT record.body FROM action JOIN record ON record.number "
            "BETWEEN action.number * 1048576 AND action.number * 1048576 + 1048575 "
            "WHERE action.action_id = ? ORDER BY record.number",
            (root_id,),
        )
        return [read_entry(body) for (body,) in rows.fetchall()]

    def lineage(self, root_id: str) -> list[ActionRow]:
        root = self.action(root_id)
        if root is None:
            return []
        rows = self.conn.execute(f"{SELECT} WHERE parent = ? ORDER BY number", (root.number,))
        return [root, *(row_of(found) for found in rows.fetchall())]


class _Transaction(_Read):
    """One work's writes. ``released``: the release that it wrote, if any."""

    def __init__(self, conn: sqlite3.Connection) -> None:
        super().__init__(conn)
        self.released: tuple[int, int, str] | None = None

    def create(self, row: ActionRow, chain: Chain) -> None:
        if row.parent is None:
            row.position, row.head = chain.position, chain.digest
        try:
            cursor = self.conn.execute(INSERT, insert_values(row))
        except sqlite3.IntegrityError:
            raise PositionTaken(f"action {row.action_id!r} is known already") from None
        row.number = cursor.lastrowid or 0
        if row.parent is not None:
            self._move_head(row.parent, chain)
        self._insert(row.parent or row.number, chain)

    def advance(self, row: ActionRow, chain: Chain, *, epoch: int) -> None:
        values = _changing_values(row)
        if row.parent is None:
            place = (chain.position, chain.digest, row.number, epoch, chain.base)
            changed = self.conn.execute(_ADVANCE_ROOT, (*values, *place)).rowcount
        else:
            changed = self.conn.execute(_ADVANCE, (*values, row.number, epoch)).rowcount
        if changed != 1:
            raise self._lost(row, epoch)
        if row.parent is None:
            row.position, row.head = chain.position, chain.digest
        else:
            self._move_head(row.parent, chain)
        self._insert(row.parent or row.number, chain)

    def _lost(self, row: ActionRow, epoch: int) -> PositionTaken | StaleEpoch:
        now = self.action(row.action_id)
        if now is not None and now.epoch == epoch:
            return PositionTaken(f"lineage {row.root_id!r} has moved on")
        return StaleEpoch(
            f"action {row.action_id!r} is driven by somebody else",
            fix="Its outcome is being found out; read it with `ascertain show`.",
        )

    def append(self, chain: Chain, row: ActionRow) -> None:
        self._move_head(row.parent or row.number, chain)
        self._insert(row.parent or row.number, chain)
        shown = (row.finding, row.level, row.decision, int(row.open), row.next_at, row.changed_at)
        self.conn.execute(_DUE, (*shown, row.number))

    def _move_head(self, lineage: int, chain: Chain) -> None:
        """Compare and append: the lineage's head moves only from where the chain began."""
        place = (chain.position, chain.digest, lineage, chain.base)
        if self.conn.execute(_HEAD, place).rowcount != 1:
            raise PositionTaken(f"lineage {chain.lineage!r} has moved on")

    def _insert(self, lineage: int, chain: Chain) -> None:
        entries = chain.entries
        if not entries:
            return
        if chain.position >= PLACES:
            raise JournalUnavailable(
                f"lineage {chain.lineage!r} is full: it has {PLACES - 1} records",
                fix="A person must decide on its actions; begin a new one under a new id.",
            )
        first = lineage * PLACES
        rows = [(first + entry.position, entry.raw) for entry in entries]
        self.conn.executemany(_RECORD, rows)
        if type(entries[-1].record) is AttemptReleased:
            self.released = (lineage, chain.position, chain.digest)

    def reserve(self, decision_id: str, action_id: str, uses: int) -> bool:
        rows = self.conn.execute(
            "SELECT action_id FROM reservation WHERE decision_id = ?", (decision_id,)
        ).fetchall()
        if (action_id,) in rows:
            return True
        if len(rows) >= uses:
            return False
        self.conn.execute("INSERT INTO reservation VALUES (?, ?)", (decision_id, action_id))
        return True

    def emit(self, row: ActionRow, position: int, topic: str, body: str) -> None:
        values = (row.parent or row.number, position, topic, body)
        self.conn.execute(
            "INSERT INTO outbox (lineage, position, topic, body) VALUES (?, ?, ?, ?)", values
        )

    def keep_certificate(self, certificate: StoredCertificate) -> None:
        self.conn.execute(
            "INSERT OR IGNORE INTO certificate SELECT ?, number, ?, ?, ?, ? "
            "FROM action WHERE action_id = ?",
            (
                certificate.digest,
                certificate.action_id,
                certificate.position,
                certificate.form,
                certificate.body,
                certificate.root_id,
            ),
        )


class _Plain:
    """A caller's connection without its row factory."""

    def __init__(self, conn: sqlite3.Connection) -> None:
        self._conn = conn

    def execute(self, sql: str, values: Sequence[Any] = ()) -> sqlite3.Cursor:
        """Run one statement."""
        return self._cursor().execute(sql, values)

    def executemany(self, sql: str, rows: Sequence[Sequence[Any]]) -> sqlite3.Cursor:
        """Run one statement for each row."""
        return self._cursor().executemany(sql, rows)

    def _cursor(self) -> sqlite3.Cursor:
        cursor = self._conn.cursor()
        cursor.row_factory = None
        return cursor


class _Work:
    """A work as the writer runs it. ``released``: the release that its last run wrote."""

    __slots__ = ("released", "work")

    def __init__(self, work: Callable[[Transaction], Any]) -> None:
        self.work = work
        self.released: tuple[int, int, str] | None = None

    def __call__(self, conn: sqlite3.Connection) -> Any:
        transaction = _Transaction(conn)
        result = self.work(transaction)
        self.released = transaction.released
        return result


class CallerTransaction(_Transaction):
    """The journal inside a transaction of the caller's, on the same file (DESIGN 4, `apply`)."""

    def __init__(self, conn: sqlite3.Connection) -> None:
        super().__init__(cast(sqlite3.Connection, _Plain(conn)))

    def keep_contract(self, digest: str, body: bytes) -> None:
        """Store a contract in the same transaction."""
        self.conn.execute("INSERT OR IGNORE INTO contract VALUES (?, ?)", (digest, body))

    def durable(self) -> bool:
        """Does a commit on this connection reach the disk before it returns?"""
        return int(self.conn.execute("PRAGMA synchronous").fetchone()[0]) >= 2


class SqliteJournal:
    """The Journal protocol over one SQLite file. See the module.

    ``path``: the database file; what stands beside it (keyring, witness, locks) is in
    the folder ``<path>.ascertain``. ``read_only``, ``reconciling``: another incarnation is
    opened too, and is not complete. Raises JournalError kinds when it cannot be used.
    """

    def __init__(
        self,
        path: Path,
        *,
        create: bool = True,
        read_only: bool = False,
        reconciling: bool = False,
    ) -> None:
        self.path = path
        self.url = f"sqlite://{path}"
        self.read_only = read_only
        self.sidecar: Sidecar = prepare(
            path, create=create, read_only=read_only, reconciling=reconciling
        )
        self._reader = SharedReader(lambda: connect(path, read_only=True))
        self._writer = SharedWriter(
            self._connect,
            before_fork=self._reader.close_for_fork,
        )

    @property
    def sources(self) -> Sources:
        """Complete while the incarnation is the one that the witness knows."""
        return Sources(self.sidecar.complete, self.sidecar.incarnation)

    @property
    def doubt(self) -> str | None:
        """Why its records may be incomplete, in words."""
        doubts = self.sidecar.doubts
        return doubts[0].message if doubts else None

    def _connect(self) -> sqlite3.Connection:
        if self.read_only:
            raise JournalUnavailable(
                f"{self.path} was opened to be read only", fix="Open it for writing."
            )
        return connect(self.path, read_only=False)

    # -- writing --------------------------------------------------------------------------

    def transact(self, work: Callable[[Transaction], T]) -> T:
        """See the protocol."""
        run = _Work(work)
        result = self._writer.submit(run)
        if run.released is not None:
            self._witness(run.released)
        return cast(T, result)

    async def transact_async(self, work: Callable[[Transaction], T]) -> T:
        """See the protocol."""
        run = _Work(work)
        result = await self._writer.submit_async(run)
        if run.released is not None:
            self._witness(run.released)
        return cast(T, result)

    def over(self, conn: sqlite3.Connection) -> CallerTransaction:
        """The journal's records over a caller's connection to the same file."""
        return CallerTransaction(conn)

    def witness(self, transaction: CallerTransaction) -> None:
        """Show the outside what a caller's transaction has made durable."""
        if transaction.released is not None:
            self._witness(transaction.released)

    def _witness(self, released: tuple[int, int, str]) -> None:
        """A release is durable: show it to the outside before anything is sent."""
        try:
            self.sidecar.witness_record(*released)
        except OSError as error:
            raise AmbiguousCommit(
                f"a release is durable and its witness could not be written: {error.strerror}",
                fix="Mend the disk or the rights of the journal's folder; nothing was sent.",
            ) from error

    # -- reading --------------------------------------------------------------------------

    @contextmanager
    def _read(self) -> Iterator[_Read]:
        with self._reader.lock:
            try:
                yield _Read(self._reader.open())
            except sqlite3.Error as error:
                raise unavailable(error) from error

    def action(self, action_id: str) -> ActionRow | None:
        """See the protocol."""
        with self._read() as read:
            return read.action(action_id)

    def entries(self, root_id: str) -> list[Entry]:
        """See the protocol."""
        with self._read() as read:
            return read.entries(root_id)

    def lineage(self, root_id: str) -> list[ActionRow]:
        """See the protocol."""
        with self._read() as read:
            return read.lineage(root_id)

    def epoch(self, row: ActionRow) -> int:
        """See the protocol."""
        sql = "SELECT epoch FROM action WHERE number = ?"
        with self._reader.lock:
            try:
                found = self._reader.open().execute(sql, (row.number,)).fetchone()
            except sqlite3.Error as error:
                raise unavailable(error) from error
        return 0 if found is None else int(found[0])

    def _rows(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        with self._read() as read:
            return read.conn.execute(sql, values).fetchall()

    def open_actions(self, *, before: int | None = None, most: int = 1000) -> list[ActionRow]:
        """See the protocol."""
        limit = 2**62 if before is None else before
        sql = f"{SELECT} WHERE open = 1 AND next_at <= ? ORDER BY next_at LIMIT ?"
        return [row_of(found) for found in self._rows(sql, limit, most)]

    def actions(
        self,
        *,
        finding: tuple[str, ...] = (),
        decision: tuple[str, ...] = (),
        type: str | None = None,
        changed_before: int | None = None,
        open: bool | None = None,
        oldest: bool = False,
        most: int = 1000,
    ) -> list[ActionRow]:
        """See the protocol."""
        where: list[str] = []
        values: list[Any] = []
        for column, among in (("finding", finding), ("decision", decision)):
            if among:
                where.append(f"{column} IN ({', '.join('?' * len(among))})")
                values.extend(among)
        for column, test, value in (
            ("type", "=", type),
            ("changed_at", "<", changed_before),
            ("open", "=", None if open is None else int(open)),
        ):
            if value is not None:
                where.append(f"{column} {test} ?")
                values.append(value)
        clause = f" WHERE {' AND '.join(where)}" if where else ""
        order = "created_at, number" if oldest else "changed_at DESC, number DESC"
        sql = f"{SELECT}{clause} ORDER BY {order} LIMIT ?"
        return [row_of(found) for found in self._rows(sql, *values, most)]

    def counts(self) -> dict[str, int]:
        """See the protocol."""
        rows = self._rows("SELECT finding, count(*) FROM action GROUP BY finding")
        (opened,) = self._rows("SELECT count(*) FROM action WHERE open = 1")
        return {**{str(name): int(count) for name, count in rows}, "open": int(opened[0])}

    def certificates(self, action_id: str) -> list[StoredCertificate]:
        """See the protocol."""
        rows = self._rows(
            "SELECT c.digest, c.action_id, a.action_id, c.position, c.form, c.body "
            "FROM certificate c JOIN action a ON a.number = c.lineage "
            "WHERE c.action_id = ? ORDER BY c.position",
            action_id,
        )
        names = ("digest", "action_id", "root_id", "position", "form", "body")
        return [StoredCertificate(**dict(zip(names, row, strict=True))) for row in rows]

    def outbox(self, *, most: int = 1000) -> list[OutboxRow]:
        """See the protocol."""
        rows = self._rows(
            "SELECT o.number, a.action_id, o.position, o.topic, o.body "
            "FROM outbox o JOIN action a ON a.number = o.lineage ORDER BY o.number LIMIT ?",
            most,
        )
        names = ("number", "root_id", "position", "topic", "body")
        return [OutboxRow(**dict(zip(names, row, strict=True))) for row in rows]

    def roots(self) -> Iterator[str]:
        """See the protocol."""
        after = 0
        while True:
            rows = self._rows(
                "SELECT number, action_id FROM action WHERE parent IS NULL AND number > ? "
                "ORDER BY number LIMIT 500",
                after,
            )
            if not rows:
                return
            yield from (str(name) for _, name in rows)
            after = int(rows[-1][0])

    # -- contracts and projections ----------------------------------------------------------

    def keep_contract(self, digest: str, body: bytes) -> None:
        """See the protocol."""
        if self.contract(digest) is None:
            self._writer.submit(
                lambda conn: conn.execute(
                    "INSERT OR IGNORE INTO contract VALUES (?, ?)", (digest, body)
                ).close()
            )

    def contract(self, digest: str) -> bytes | None:
        """See the protocol."""
        found = self._rows("SELECT body FROM contract WHERE digest = ?", digest)
        return octets(found[0][0]) if found else None

    def replace_projections(self, make: Callable[[list[Entry]], list[ActionRow]]) -> int:
        """See the protocol. One transaction for each lineage; safe to interrupt and repeat."""
        count = 0
        for (lineage,) in self._rows("SELECT DISTINCT number >> 20 FROM record"):
            count += self._writer.submit(partial(replace_rows, lineage=lineage, make=make))
        self._writer.submit(drop_loose_rows)
        return count

    def snapshot(self) -> SqliteSnapshot:
        """See the protocol."""
        return SqliteSnapshot(connect(self.path, read_only=True))

    def begin_incarnation(self, incarnation: str, why: dict[str, Json]) -> None:
        """What the file holds now is what counts from here on; ``why`` is kept with it."""
        self._writer.submit(partial(write_incarnation, incarnation=incarnation, why=why))
        self.sidecar.reconcile(incarnation)

    def incarnations(self) -> list[dict[str, Json]]:
        """Every reconciliation, oldest first: ``incarnation``, ``after`` and what was given."""
        return read_incarnations(self._rows)

    def close(self) -> None:
        """See the protocol."""
        # The writer last: only a connection that may write folds the log into the file.
        self._reader.close()
        self._writer.close()
        self.sidecar.close()
