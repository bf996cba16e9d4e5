"""How a document is worded within a bound: instants, shortened texts, counted lists. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any, Final, NamedTuple

from .codec import Json

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST: Final = (datetime(1, 1, 1, tzinfo=UTC) - _EPOCH) // timedelta(microseconds=1)
_LAST: Final = (datetime.max.replace(tzinfo=UTC) - _EPOCH) // timedelta(microseconds=1)


def instant(at: int) -> str:
    """Microseconds since 1970 as RFC 3339 with ``Z``, held within the years 1 to 9999."""
    moment = _EPOCH + timedelta(microseconds=min(max(at, _FIRST), _LAST))
    return moment.isoformat().replace("+00:00", "Z")


def instant_or_none(at: int | None) -> str | None:
    """The same, where there may be none."""
    return None if at is None else instant(at)


def shorten(text: str, most: int) -> str:
    """The text, or its beginning with the SHA-256 of the whole, so that it can be compared."""
    if len(text) <= most:
        return text
    return f"{text[: max(most - 80, 20)]}… (sha256 {sha256(text.encode()).hexdigest()})"


def present(**members: Any) -> dict[str, Any]:
    """The members that are there; None stands for one that is not."""
    return {name: value for name, value in members.items() if value is not None}


class Room(NamedTuple):
    """How much may be said: items of a list, characters of a text and of an identifier."""

    items: int
    text: int
    name: int

    def say(self, text: str) -> str:
        """The text, or its beginning and the digest of the whole."""
        return shorten(text, self.text)

    def call(self, name: str) -> str:
        """An identifier, or its beginning and the digest of the whole."""
        return shorten(name, self.name)

    def call_or_none(self, name: str | None) -> str | None:
        """The same, where there may be none; an empty one is none."""
        return shorten(name, self.name) if name else None

    def some(self, items: Sequence[Any]) -> dict[str, Json]:
        """As many as there is room for, and the count of the others."""
        return {"items": list(items[: self.items]), "left_out": max(len(items) - self.items, 0)}


ROOMS: Final = (Room(40, 500, 500), Room(20, 300, 500), Room(8, 160, 250), Room(3, 80, 140))
"""From generous to narrow: the first in which a document keeps to its budget is taken."""
