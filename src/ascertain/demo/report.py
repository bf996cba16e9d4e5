"""The demo's figures, counted at the provider."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from typing import TypedDict

from ascertain.demo.payments import Payment
from ascertain.demo.provider import Effect


class Row(TypedDict):
    """One run in figures."""

    name: str
    approved: int
    effects: int
    duplicates: int
    lost: int
    unknown: int
    kills: int
    certificates: int
    verified: int


def count(
    name: str,
    run: Collection[Payment],
    effects: Iterable[Effect],
    *,
    open_ids: Collection[str] = (),
    kills: int = 0,
    certificates: int = 0,
    verified: int = 0,
) -> Row:
    """The row of a run.

    ``open_ids``: payments that the run itself calls unresolved. A payment without an effect is
    lost, unless the run says that it is open; a reversed effect still counts as one.
    """
    found = Counter(effect.action_id for effect in effects)
    approved = {payment.action_id for payment in run}
    return Row(
        name=name,
        approved=len(approved),
        effects=sum(found.values()),
        duplicates=sum(number - 1 for number in found.values())
        + sum(1 for action_id in found if action_id not in approved),
        lost=len(approved - set(found) - set(open_ids)),
        unknown=len(set(open_ids)),
        kills=kills,
        certificates=certificates,
        verified=verified,
    )
