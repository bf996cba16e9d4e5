"""Which distinct effects the evidence of one action proves (DESIGN 6)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from .contract import LEVELS
from .cut import View
from .records import Entry

LEVEL = {name: rank for rank, name in enumerate(LEVELS)}
"""Rank of each transition, from accepted to settled."""

_NOBODY: frozenset[str] = frozenset()


class Proved(NamedTuple):
    """One effect that the evidence proves. ``reference`` is "" where the provider gives none.

    ``level``: rank of the furthest transition seen. ``domains``: the control domains that
    vouch for it. ``seen``: not only the reply says so.
    """

    reference: str
    level: int
    matches: bool | None
    reversed: bool
    domains: frozenset[str]
    seen: bool


class Claim(NamedTuple):
    """One record that says that there is an effect, and when it was learnt."""

    entry: Entry
    at: int


def claims(view: View) -> Iterator[Claim]:
    """Every record that says that an effect of this action is or was there."""
    for entry in view.effects:
        if entry.record.state != "rejected":
            yield Claim(entry, entry.record.at)
    for entry in view.receipts:
        record = entry.record
        ours = record.about is None or record.about == view.action_id
        if ours and (record.claim in LEVEL or record.claim == "reversed"):
            yield Claim(entry, record.observed_at)
    for entry in view.attested:
        if entry.record.claim in ("applied", "reversed"):
            yield Claim(entry, entry.record.at)


def proved(view: View) -> tuple[Proved, ...]:
    """Distinct effects, merged by reference; one without any joins the only named one.

    A reversal proves that there was an effect. A person vouches for the match: that is
    what an attestation says.
    """
    found: dict[str, Proved] = {}
    undone: set[str] = set()
    for entry in view.effects:
        record = entry.record
        if record.state != "rejected":
            _add(found, undone, record.reference, record.state, record.matches,
                 _NOBODY, record.source != "reply")  # fmt: skip
    for entry in view.receipts:
        record = entry.record
        ours = record.about is None or record.about == view.action_id
        if ours and (record.claim in LEVEL or record.claim == "reversed"):
            _add(found, undone, record.reference, record.claim, None,
                 frozenset((record.domain,)), record.evidence != "reply")  # fmt: skip
    for entry in view.attested:
        record = entry.record
        if record.claim in ("applied", "reversed"):
            state = "settled" if record.claim == "applied" else "reversed"
            _add(found, undone, record.reference, state, True, frozenset((record.domain,)), True)
    if "" in found and len(found) == 2:
        nameless = found.pop("")
        (reference,) = found
        _merge(found, nameless._replace(reference=reference))
        undone = {reference if item == "" else item for item in undone}
    return tuple(item._replace(reversed=item.reference in undone) for item in found.values())


def _add(
    found: dict[str, Proved],
    undone: set[str],
    reference: str | None,
    state: str,
    matches: bool | None,
    domains: frozenset[str],
    seen: bool,
) -> None:
    name = reference or ""
    if state == "reversed":
        undone.add(name)
    _merge(found, Proved(name, LEVEL.get(state, 0), matches, False, domains, seen))


def _merge(found: dict[str, Proved], new: Proved) -> None:
    old = found.get(new.reference)
    if old is None:
        found[new.reference] = new
        return
    matches = False if False in (old.matches, new.matches) else old.matches or new.matches
    found[new.reference] = old._replace(
        level=max(old.level, new.level),
        matches=matches,
        domains=old.domains | new.domains,
        seen=old.seen or new.seen,
    )
