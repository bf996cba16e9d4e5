"""The rows of `action` as SQLite keeps them."""

from __future__ import annotations

from operator import attrgetter
from typing import Any

from . import ActionRow

FIXED = ("action_id", "root_id", "type", "contract", "fingerprint", "created_at")
CHANGING = (
    "finding", "level", "compensation", "decision", "epoch", "holder", "lease_until", "attempts",
    "changed_at", "next_at", "open",
)  # fmt: skip
COLUMNS = (*FIXED, *CHANGING, "position", "head", "parent", "number")
SELECT = f"SELECT {', '.join(COLUMNS)} FROM action"
INSERT = (
    f"INSERT INTO action ({', '.join(COLUMNS[:-1])}) VALUES ({', '.join('?' * (len(COLUMNS) - 1))})"
)

PLACES = 1 << 20
"""A record's number is its lineage's, times this, and its position: see the schema."""

insert_values = attrgetter(*COLUMNS[:-1])


def octets(value: Any) -> bytes:
    """A stored value as bytes, also where somebody has put text in its place."""
    return value.encode() if isinstance(value, str) else bytes(value)


def row_of(values: tuple[Any, ...]) -> ActionRow:
    """A row from the columns of `SELECT`."""
    row = ActionRow(**dict(zip(COLUMNS, values, strict=True)))
    row.open = bool(row.open)
    return row
