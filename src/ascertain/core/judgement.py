"""From a cut to the facts of the decision table (DESIGN 7, "Facts"). Pure.

What the cut alone does not say (other lineages, what is held now) comes in as a
`Context`; the shell records it before it asks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from .absence import first_release, lands_by, one_key, quiet_at
from .contract import FOR_EVER, Contract
from .cut import Breach, Cut, View, Violation, violations
from .decision import Row, decide
from .facts import Closure, Compensation, Effects, Facts, Finding, Needs, Preconditions
from .outcome import Verdict, outcome

ALL_VERBS = frozenset({"observe", "continue", "compensate", "quarantine"})


class Context(NamedTuple):
    """What is known beside the cut, at the time of the decision.

    ``observable``: an observer is there to ask. ``sealable``: the fence can be sealed
    here. ``breaker_until``: when the open breaker closes, None if it is closed.
    """

    observable: bool = False
    sealable: bool = False
    needs: Needs = Needs.MET
    authority: bool = False
    verbs: frozenset[str] = frozenset()
    preconditions: Preconditions = Preconditions.HOLD
    compensator: bool = False
    compensation: Compensation = Compensation.NONE
    breaker_until: int | None = None


class Judgement(NamedTuple):
    """Everything that was concluded from one cut about one action."""

    verdict: Verdict
    violations: tuple[Violation, ...]
    facts: Facts
    row: Row
    next_observation: int | None


def judge(cut: Cut, action_id: str, contract: Contract, context: Context) -> Judgement:
    """Outcome, violations, facts and decision for one action. Pure and total."""
    verdict = outcome(cut, action_id, contract)
    view = cut.views.get(action_id) or View(action_id)
    found = violations(view, contract)
    facts = facts_of(cut, view, contract, verdict, found, context)
    row = decide(facts)
    return Judgement(verdict, tuple(found), facts, row, _when(verdict, context))


def _when(verdict: Verdict, context: Context) -> int | None:
    if context.breaker_until is not None:
        return context.breaker_until
    return verdict.next_look


def facts_of(
    cut: Cut,
    view: View,
    contract: Contract,
    verdict: Verdict,
    found: Sequence[Violation],
    context: Context,
) -> Facts:
    """The closed facts. Every argument is data."""
    effects = _effects(verdict, found)
    return Facts(
        closure=_closure(found),
        finding=verdict.finding,
        effects=effects,
        exact=all(item.reference for item in verdict.effects),
        settled=not verdict.open if verdict.effects else True,
        sources=cut.sources.complete,
        compensation=context.compensation if effects is not Effects.NONE else Compensation.NONE,
        needs=context.needs,
        more=_more(view, contract, verdict, context, effects),
        replay=safe_replay(view, contract, verdict, cut.as_of),
        authority=context.authority,
        observe="observe" in context.verbs,
        proceed="continue" in context.verbs,
        counteract="compensate" in context.verbs,
        preconditions=context.preconditions,
        compensator=context.compensator,
        attempts_left=len(view.released) < contract.attempts,
        breaker_open=context.breaker_until is not None,
    )


def _closure(found: Sequence[Violation]) -> Closure:
    breaches = {item.breach for item in found}
    if Breach.MISMATCH in breaches:
        return Closure.MISMATCH
    return Closure.CAUSE_MISSING if Breach.MISSING in breaches else Closure.CLOSED


def _effects(verdict: Verdict, found: Sequence[Violation]) -> Effects:
    if not verdict.effects:
        return Effects.NONE
    if any(item.breach is Breach.DENIED for item in found):
        return Effects.DENIED
    return Effects.ONE if len(verdict.effects) == 1 else Effects.SURPLUS


def _more(
    view: View, contract: Contract, verdict: Verdict, context: Context, effects: Effects
) -> bool:
    """Is there more to be had within the budget? (DESIGN 7: outcome, preconditions, needs,
    compensation and an open breaker alike.)"""
    look = context.observable and verdict.next_look is not None
    if effects is not Effects.NONE and context.compensation is Compensation.OPEN:
        return True
    if verdict.finding is Finding.NOT_APPLIED:
        if context.breaker_until is not None or context.needs is Needs.OPEN:
            return True
        since = view.last_release.position if view.last_release is not None else 0
        asked = [
            entry
            for entry in view.preconditions
            if entry.position > since and entry.record.holds == "unverified"
        ]
        return len(asked) < contract.observation.looks
    if verdict.finding is Finding.UNKNOWN:
        seal = "compensate" in context.verbs and can_seal(view, context)
        return look or seal or context.breaker_until is not None
    return look


def can_seal(view: View, context: Context) -> bool:
    """Would a seal settle every attempt? Each must be conditional on the one fence.

    The capability that a seal asks for is not looked at here.
    """
    fences = {entry.record.fence for entry in view.released.values()}
    return context.sealable and not view.seals and len(fences) <= 1 and None not in fences


def safe_replay(view: View, contract: Contract, verdict: Verdict, as_of: int) -> bool:
    """May the same key and bytes be sent again while the outcome is unknown? (DESIGN 7)

    The contract promises the first result, no effect is proved, and what is left of the
    key's retention, from the first release on, exceeds in-flight bound, skew and the
    pause of every earlier executor.
    """
    if not view.released or verdict.effects:
        return False
    if contract.convergent:
        return True
    key = contract.key
    if not key.first_result or key.retention is None:
        return False
    if not one_key(view):
        return False
    if key.retention >= FOR_EVER:
        return True
    bound = contract.in_flight.after_release
    last = [lands_by(view, contract, number) for number in view.released]
    if bound is None or None in last:
        return False
    quiet = all(quiet_at(view, contract, number) is not None for number in view.released)
    pause = 0 if quiet else contract.in_flight.longest_pause or 0
    known = [time for time in last if time is not None]
    ends = first_release(view) + key.retention - contract.skew
    return ends > max(as_of + bound + pause, *known)


def needs_of(findings: Sequence[tuple[Finding, Compensation, str]]) -> Needs:
    """What the needed actions come to. Each: (finding, compensation, asked "until").

    Met: applied as far as asked, neither reversed nor compensated, with nothing open.
    Broken: refused, reversed or compensated (DESIGN 4, step 5).
    """
    result = Needs.MET
    for finding, compensation, until in findings:
        if finding in (Finding.REJECTED, Finding.APPLIED_REVERSED, Finding.NOT_APPLIED_SEALED):
            return Needs.BROKEN
        if compensation is Compensation.APPLIED:
            return Needs.BROKEN
        applied = finding is Finding.APPLIED_FINAL or (
            finding is Finding.APPLIED_PROVISIONAL and until == "accepted"
        )
        if not applied or compensation is not Compensation.NONE:
            result = Needs.OPEN
    return result
