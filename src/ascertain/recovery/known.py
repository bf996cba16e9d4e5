"""A second `perform` of a known action: what is recorded, and the read-only moves.

It never sends again on its own while the outcome is open. Where it is proved that
nothing happened, the call is a fresh wish, and is decided afresh (DESIGN 4).
"""

from __future__ import annotations

from typing import Any

import msgspec

from ascertain.action import (
    check_same,
    draft_steps,
    finish_steps,
    first_steps,
    joins,
    reclaim_steps,
)
from ascertain.applying import marker_of
from ascertain.authority import Authority
from ascertain.core.facts import Finding
from ascertain.core.records import Chain, Entry
from ascertain.errors import PositionTaken, StaleEpoch
from ascertain.journal import ActionRow
from ascertain.observers import Observer
from ascertain.observers.marker import Within
from ascertain.outcomes import Outcome, Pending, Unknown
from ascertain.ports import Steps
from ascertain.presented import Presented
from ascertain.runtime import Runtime, judged, standing
from ascertain.settling import report_of

from .looking import executor_steps, look_steps
from .rebuilt import intent_of, present_again

_ROUNDS = 20
"""How often a claim starts again because its lineage has moved on meanwhile."""

_OPEN = {Finding.UNKNOWN.value, Finding.APPLIED_SHORT.value, Finding.APPLIED_PROVISIONAL.value}


def perform_steps(
    runtime: Runtime, p: Presented, authority: Authority, connection: Any = None
) -> Steps[Outcome]:
    """`perform` and `apply`, first or repeated. Raises IntentConflict or JournalError kinds."""
    for _ in range(_ROUNDS):
        outcome = yield from first_steps(runtime, p, authority, connection)
        if outcome is not None:
            return outcome
        row = yield runtime.ports.read("row", lambda: runtime.journal.action(p.action_id))
        if row is not None:
            return (yield from known_steps(runtime, p, authority, connection))
    raise PositionTaken(
        f"lineage {p.root_id!r} moves on again and again", fix="Try again in a moment."
    )


def known_steps(
    runtime: Runtime, p: Presented, authority: Authority, connection: Any = None
) -> Steps[Outcome]:
    """What a repeated call gets."""
    row = yield runtime.ports.read("row", lambda: runtime.journal.action(p.action_id))
    check_same(runtime, p, row.fingerprint)
    entries = yield runtime.ports.read("entries", lambda: runtime.journal.entries(row.root_id))
    now = yield runtime.ports.now()
    if row.finding in _OPEN:
        return (yield from _look(runtime, p, row, entries, now, connection))
    if row.finding == Finding.NOT_APPLIED.value and row.attempts < p.contract.attempts:
        return (yield from _again(runtime, p, authority, row, entries, connection))
    return report_of(runtime, row, entries, None)


def _look(
    runtime: Runtime,
    p: Presented,
    row: ActionRow,
    entries: list[Entry],
    now: int,
    connection: Any,
) -> Steps[Outcome]:
    """Observe and adopt; an action that is being driven right now is left alone."""
    cut = runtime.cut(entries, now)
    asked = runtime.ended.get(p.action_id)
    if asked is not None and (yield runtime.ports.adapter("ended", asked)) is not True:
        return Pending(action_id=p.action_id, reason="your transaction is not committed yet")
    row, cut = yield from executor_steps(runtime, row, cut)
    driven = row.lease_until > now and row.holder not in cut.views[row.action_id].gone
    if driven and p.action_id not in runtime.ended:
        found = report_of(runtime, row, list(cut.entries), None)
        if isinstance(found, Unknown):
            return Unknown(
                action_id=p.action_id,
                judgement=found.judgement,
                reason="it is being performed right now",
                next_observation=row.lease_until,
            )
        return found
    if p.declared.observers:
        observers = _observers(p, connection)
        row, cut = yield from look_steps(runtime, row, cut, p.declared, observers)
    return report_of(runtime, row, list(cut.entries), None)


def _observers(p: Presented, connection: Any) -> tuple[Observer, ...]:
    """Whom to ask. Inside a transaction of the caller's the fence is read there: any other
    connection would wait for the caller, who waits here."""
    if connection is None or not p.declared.local:
        return p.declared.observers
    marker = marker_of(p)
    handle = marker.wrap(connection)
    if not handle.active():
        return p.declared.observers
    others = tuple(item for item in p.declared.observers if item is not marker)
    return (Within(marker, handle), *others)


def _again(
    runtime: Runtime,
    p: Presented,
    authority: Authority,
    row: ActionRow,
    entries: list[Entry],
    connection: Any,
) -> Steps[Outcome]:
    """It did not happen: a further attempt under a fresh decision and a higher epoch.

    What is sent is what was recorded, byte for byte, and it still needs what it needed;
    the call adds to that, and takes nothing away.
    """
    chain = Chain(row.root_id, entries[-1].position, entries[-1].digest)
    now = yield runtime.ports.now()
    cut = runtime.cut(entries, now)
    view = cut.views[row.action_id]
    found = judged(runtime, cut, row.action_id, standing(runtime.contract(row.contract)))
    if found.facts.finding is not Finding.NOT_APPLIED:  # more came in since the row was read
        return report_of(runtime, row, entries, None)
    recorded = present_again(runtime, row.root_id, view, p.declared)
    p = msgspec.structs.replace(
        recorded,
        preconditions=p.preconditions,
        needs=tuple(dict.fromkeys((*recorded.needs, *p.needs))),
        deadline=p.deadline,
        meaning=p.meaning,
    )
    draft = yield from draft_steps(
        runtime,
        p,
        authority,
        chain,
        intent_of(view),
        number=row.attempts + 1,
        epoch=row.epoch + 1,
        joined=joins(p, connection),
    )
    try:
        claimed = yield from reclaim_steps(runtime, p, row, entries, draft)
    except (PositionTaken, StaleEpoch):
        return (yield from known_steps(runtime, p, authority, connection))
    return (yield from finish_steps(runtime, p, claimed, connection))
