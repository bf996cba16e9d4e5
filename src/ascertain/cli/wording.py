"""How the command speaks: instants, durations, and plain words before the technical one."""

from __future__ import annotations

import re
import shlex
from datetime import UTC, datetime
from typing import Final, NamedTuple

from ascertain.core.contract import DAY, HOUR, MINUTE, SECOND
from ascertain.core.facts import Decision, Finding
from ascertain.core.outcome import OUTCOME_OF
from ascertain.core.wording import instant_or_none
from ascertain.errors import InputRefused
from ascertain.outcomes import WORDS

_UNITS: Final = {"s": SECOND, "m": MINUTE, "h": HOUR, "d": DAY, "w": 7 * DAY}
_LAST: Final = 253_370_000_000  # in the year 9998: a zone east of UTC still has room
_SPAN: Final = re.compile(r"([0-9]{1,9})([smhdw])")

DECISION_WORDS: Final[dict[Decision, str]] = {
    Decision.EXECUTE: "send it, under the same id",
    Decision.ADOPT: "take this as the result; nothing is left to do",
    Decision.VERIFY: "look again",
    Decision.REAUTHORISE: "it needs a fresh decision before anything happens",
    Decision.COMPENSATE: "undo exactly what must not stand",
    Decision.QUARANTINE: "a person must decide",
}
"""Each decision in plain words."""

COUNT_WORDS: Final[dict[str, str]] = {
    "applied_final": "happened",
    "applied_short": "happened, evidence incomplete",
    "applied_provisional": "under way",
    "applied_reversed": "undone later",
    "rejected": "refused",
    "not_applied": "did not happen",
    "not_applied_sealed": "cannot happen any more",
    "conflict": "in conflict",
    "unknown": "unknown",
}
"""Each finding as a count of it is called."""


def utc(at: int | None) -> str | None:
    """An instant for programs: RFC 3339 in UTC, None where there is none."""
    return instant_or_none(at)


def local(at: int) -> datetime:
    """An instant in the zone of whoever reads it."""
    seconds = min(max(at // SECOND, 0), _LAST)
    return datetime.fromtimestamp(seconds, tz=UTC).astimezone()


def day(at: int) -> str:
    """The local day of an instant, as ``30 Nov 2026``."""
    moment = local(at)
    return f"{moment.day} {moment:%b %Y}"


def clock(at: int) -> str:
    """The local time of day of an instant, as ``14:05:09``."""
    return f"{local(at):%H:%M:%S}"


def moment(at: int, now: int) -> str:
    """An instant for people: time and zone, and the day where it is another one."""
    there, here = local(at), local(now)
    seconds = abs(at - now) < 10 * MINUTE
    time = f"{there:%H:%M:%S}" if seconds else f"{there:%H:%M}"
    zone = there.tzname() or f"{there:%z}"
    if there.date() == here.date():
        return f"{time} {zone}"
    return f"{day(at)} {time} {zone}"


def about(duration: int) -> str:
    """Roughly how long, in one unit, as ``3 h``."""
    duration = abs(duration)
    for unit, word in ((DAY, "d"), (HOUR, "h"), (MINUTE, "min")):
        if duration >= 2 * unit:
            return f"{duration // unit} {word}"
    return f"{duration // SECOND} s"


def when(at: int, now: int) -> str:
    """When something is due: ``at 14:05 CET (in 3 min)``, or since when it has been."""
    if at <= now:
        return "now"
    return f"at {moment(at, now)} (in {about(at - now)})"


def read_span(text: str) -> int:
    """A duration as a person writes it: ``90s``, ``15m``, ``2h``, ``3d``. Raises InputRefused."""
    found = _SPAN.fullmatch(text.strip())
    if found is None:
        raise InputRefused(
            f"{text!r} is not a duration", fix="Write a number and a unit: 90s, 15m, 2h, 3d or 1w."
        )
    return int(found[1]) * _UNITS[found[2]]


_SETTLED: Final = {
    "compensated/surplus": "it happened more often than wanted, and the surplus was undone",
    "compensated/denied": "it happened without being allowed, and was undone",
}
"""Conflicts that a compensation has settled, by the row that says so."""


def plain_words(finding: Finding, row: str = "") -> str:
    """What is known, in plain words. ``row``: of the decision table, where one was taken."""
    return _SETTLED.get(row, WORDS[finding])


def verdict_words(finding: Finding, row: str = "") -> str:
    """Plain words first, the technical word second: ``it happened (VERIFIED_APPLIED)``."""
    return f"{plain_words(finding, row)} ({OUTCOME_OF[finding].value})"


def read_outcome(text: str) -> tuple[str, ...]:
    """The findings that a word names: an outcome or a finding. Raises InputRefused."""
    word = text.strip().lower().replace("-", "_")
    found = [
        finding.value
        for finding, outcome in OUTCOME_OF.items()
        if word in (outcome.value.lower(), outcome.value.lower().removeprefix("verified_"))
    ] or [finding.value for finding in Finding if finding.value == word]
    if not found:
        outcomes = ", ".join(dict.fromkeys(item.value for item in OUTCOME_OF.values()))
        raise InputRefused(f"{text!r} is not an outcome", fix=f"Write one of {outcomes}.")
    return tuple(found)


class Place(NamedTuple):
    """What a command to type has to repeat: where the journal is, and the program."""

    journal: tuple[str, ...] = ()
    app: tuple[str, ...] = ("--app", "MODULE:OBJECT")

    def command(self, *words: str) -> str:
        """A command to type, quoted for the shell."""
        return shlex.join(("ascertain", *words, *self.journal))

    def acting(self, *words: str) -> str:
        """The same for a command that needs the program."""
        return self.command(*words, *self.app)


def plural(count: int, one: str, several: str) -> str:
    """``1 action needs``, ``2 actions need``."""
    return f"{count} {one if count == 1 else several}"
