"""A journal's file as a whole: projections made again, incarnations begun, faults found."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from hashlib import sha256
from itertools import groupby
from typing import Any, cast

from ascertain.core.codec import Json, decode, encode
from ascertain.core.records import AttemptReleased, Entry, read_entry

from . import ActionRow, StoredLineage
from .sqlite_rows import COLUMNS, PLACES, SELECT, insert_values, octets, row_of
from .writer import unavailable

_INCARNATION = "incarnation/"
_INSERT = (
    f"INSERT INTO action ({', '.join((*COLUMNS[:-2], 'parent', 'number'))}) "
    f"VALUES ({', '.join('?' * len(COLUMNS))})"
)
_FREE = "SELECT max(coalesce((SELECT max(number) FROM action), 0), ?) + 1"


def replace_rows(
    conn: sqlite3.Connection, lineage: int, make: Callable[[list[Entry]], list[ActionRow]]
) -> int:
    """The rows of one lineage, made again from its records in the transaction that reads them.

    The root keeps the lineage's number. Reservations that are missing come back; none goes,
    since a use too many is worse than one too few. Raises ChainBroken.
    """
    bodies = conn.execute(
        "SELECT body FROM record WHERE number BETWEEN ? AND ? ORDER BY number",
        (lineage * PLACES, lineage * PLACES + PLACES - 1),
    ).fetchall()
    entries = [read_entry(body) for (body,) in bodies]
    made = make(entries)
    conn.execute("DELETE FROM action WHERE number = ? OR parent = ?", (lineage, lineage))
    for row in made:
        root = row.action_id == row.root_id
        row.parent = None if root else lineage
        conn.execute("DELETE FROM action WHERE action_id = ?", (row.action_id,))
        (newest,) = conn.execute("SELECT max(number) >> 20 FROM record").fetchone()
        (free,) = conn.execute(_FREE, (newest,)).fetchone()
        conn.execute(_INSERT, (*insert_values(row), lineage if root else free))
    for entry in entries:
        if reserves(entry):
            place = (entry.record.decision_id, entry.record.action_id)
            conn.execute("INSERT OR IGNORE INTO reservation VALUES (?, ?)", place)
    return len(made)


def reserves(entry: Entry) -> bool:
    """Is it a release that used a decision which others may use too?"""
    record = entry.record
    return isinstance(record, AttemptReleased) and not record.decision_id.startswith(
        f"{record.action_id}/"
    )


def drop_loose_rows(conn: sqlite3.Connection) -> None:
    """Rows of actions without any record go."""
    conn.execute(
        "DELETE FROM action WHERE coalesce(parent, number) NOT IN "
        "(SELECT DISTINCT number >> 20 FROM record)"
    )


def write_incarnation(conn: sqlite3.Connection, incarnation: str, why: dict[str, Json]) -> None:
    """The incarnation of the file from here on, and why it began."""
    (after,) = conn.execute("SELECT value FROM meta WHERE name = 'incarnation'").fetchone()
    (count,) = conn.execute(
        "SELECT count(*) FROM meta WHERE name LIKE ?", (f"{_INCARNATION}%",)
    ).fetchone()
    kept = {**why, "incarnation": incarnation, "after": after}
    name = f"{_INCARNATION}{count + 1:06}"
    conn.execute("INSERT INTO meta VALUES (?, ?)", (name, encode(kept).decode()))
    conn.execute("UPDATE meta SET value = ? WHERE name = 'incarnation'", (incarnation,))


def read_incarnations(rows: Callable[..., list[tuple[Any, ...]]]) -> list[dict[str, Json]]:
    """What `write_incarnation` has written, oldest first."""
    found = rows("SELECT value FROM meta WHERE name LIKE ? ORDER BY name", f"{_INCARNATION}%")
    return [cast(dict[str, Json], decode(value.encode())) for (value,) in found]


class SqliteSnapshot:
    """The `Snapshot` of a file: one read transaction on a connection of its own."""

    def __init__(self, conn: sqlite3.Connection) -> None:
        self._conn = conn
        try:
            conn.execute("BEGIN")
            conn.execute("SELECT 1 FROM meta LIMIT 1").fetchone()
        except sqlite3.Error as error:
            raise unavailable(error) from error

    def count(self) -> int:
        """See the protocol."""
        return int(self._one("SELECT count(DISTINCT number >> 20) FROM record"))

    def _one(self, sql: str) -> Any:
        return self._conn.execute(sql).fetchone()[0]

    def lineages(self) -> Iterator[StoredLineage]:
        """See the protocol."""
        records = self._conn.execute("SELECT number >> 20, body FROM record ORDER BY number")
        for number, group in groupby(records, key=lambda found: int(found[0])):
            bodies = tuple(octets(body) for _, body in group)
            found = self._conn.execute(
                f"{SELECT} WHERE number = ? OR parent = ? ORDER BY parent IS NOT NULL, number",
                (number, number),
            )
            rows = tuple(row_of(values) for values in found.fetchall())
            yield StoredLineage(number, bodies, rows, frozenset(self._certificates(rows)))

    def _certificates(self, rows: tuple[ActionRow, ...]) -> Iterator[str]:
        for row in rows:
            sql = "SELECT digest FROM certificate WHERE action_id = ?"
            for (name,) in self._conn.execute(sql, (row.action_id,)):
                yield str(name)

    def faults(self) -> Iterator[str]:
        """See the protocol."""
        for (found,) in self._conn.execute("PRAGMA integrity_check(20)"):
            if found != "ok":
                yield f"the file is damaged: {found}"
        for words, sql in _LOOSE:
            count = int(self._one(sql))
            if count:
                yield words.format(count=count)
        yield from self._altered()
        names = {name for (name,) in self._conn.execute("SELECT name FROM sqlite_master "
                                                        "WHERE type = 'trigger'")}  # fmt: skip
        for missing in sorted(_TRIGGERS - names):
            yield f"the trigger {missing} is gone: what it guards could have been altered"

    def _altered(self) -> Iterator[str]:
        for table in ("contract", "certificate"):
            for name, body in self._conn.execute(f"SELECT digest, body FROM {table}"):
                if sha256(octets(body)).hexdigest() != name:
                    yield f"the {table} {name[:16]} was altered"

    def close(self) -> None:
        """See the protocol."""
        self._conn.close()


_OF_NO_LINEAGE = "lineage NOT IN (SELECT DISTINCT number >> 20 FROM record)"
_LOOSE = (
    (
        "{count} rows of actions have no records",
        "SELECT count(*) FROM action WHERE coalesce(parent, number) NOT IN "
        "(SELECT DISTINCT number >> 20 FROM record)",
    ),
    (
        "{count} certificates belong to no lineage",
        f"SELECT count(*) FROM certificate WHERE {_OF_NO_LINEAGE}",
    ),
    (
        "{count} outbox rows belong to no lineage",
        f"SELECT count(*) FROM outbox WHERE {_OF_NO_LINEAGE}",
    ),
    (
        "{count} reservations are for actions that are not known",
        "SELECT count(*) FROM reservation WHERE action_id NOT IN (SELECT action_id FROM action)",
    ),
)
_TRIGGERS = {
    "record_kept_update", "record_kept_delete", "record_kept_replace", "contract_kept_update",
    "contract_kept_delete", "certificate_kept_update", "certificate_kept_delete",
}  # fmt: skip
