"""The judgement of the plain history, without a cut: a speed-up, never another rule.

Nearly every action has one history: an intent, an allow, one release, and one reply
that says that it happened. For exactly that one, `judge_plainly` gives what `judge`
gives; for anything else, None. A property test holds the two together.
"""

from __future__ import annotations

from collections.abc import Sequence

from .contract import Contract
from .cut import Sources
from .decision import ROWS
from .effects import LEVEL, Proved
from .facts import Compensation, Effects, Facts, Finding
from .judgement import Context, Judgement
from .outcome import Verdict
from .records import (
    AttemptReleased,
    AttemptReturned,
    AuthorityDecided,
    EffectObserved,
    Entry,
    IntentRecorded,
    ReceiptRecorded,
)

_ROW = ROWS["applied/final"]
_KINDS = [
    IntentRecorded,
    AuthorityDecided,
    AttemptReleased,
    AttemptReturned,
    EffectObserved,
    ReceiptRecorded,
]


def judge_plainly(
    entries: Sequence[Entry], contract: Contract, context: Context, sources: Sources
) -> Judgement | None:
    """What `judge` concludes from this lineage, if it is the plain one; else None. Pure."""
    if [type(entry.record) for entry in entries] != _KINDS or not _simple(contract):
        return None
    intent, allow, release, returned, effect, receipt = [entry.record for entry in entries]
    if not _allowed(intent, allow, release, entries) or not _said(
        contract, release, returned, effect, receipt
    ):
        return None
    level = max(LEVEL[effect.state], LEVEL[receipt.claim])
    settled = context.breaker_until is None and context.compensation is Compensation.NONE
    if level < LEVEL[contract.governed] or not settled:
        return None
    plan, flight = contract.observation, contract.in_flight
    look = release.at + min(plan.first, plan.longest)
    bounds = flight.after_release, flight.after_close
    quiet = None
    if bounds[0] is not None and bounds[1] is not None and returned.closed:
        quiet = max(release.at + bounds[0], returned.at + bounds[1])
    name = effect.reference or ""
    verdict = Verdict(
        Finding.APPLIED_FINAL,
        (1,),
        (Proved(name, level, True, False, frozenset((receipt.domain,)), False),),
        reason="it happened once, as intended",
        quiet_at=quiet,
        next_look=look,
    )
    facts = Facts(
        finding=Finding.APPLIED_FINAL,
        effects=Effects.ONE,
        exact=name != "",
        sources=sources.complete,
        needs=context.needs,
        more=context.observable,
        authority=context.authority,
        observe="observe" in context.verbs,
        proceed="continue" in context.verbs,
        counteract="compensate" in context.verbs,
        preconditions=context.preconditions,
        compensator=context.compensator,
        attempts_left=contract.attempts > 1,
    )
    return Judgement(verdict, (), facts, _ROW, look)


def _simple(contract: Contract) -> bool:
    """Does one reply about one request say all that the contract asks for?"""
    flight = contract.in_flight
    return (
        contract.witnesses == 1
        and not contract.preconditions
        and not flight.doubles
        and not flight.client_retries
    )


def _allowed(
    intent: IntentRecorded, allow: AuthorityDecided, release: AttemptReleased, at: Sequence[Entry]
) -> bool:
    """The first attempt of this intent, under this decision, within all that it says."""
    given = intent.parameters
    return (
        intent.action_id == allow.action_id == release.action_id
        and release.number == 1
        and release.causes == (at[0].digest, at[1].digest)
        and release.payload_hash == intent.payload_hash
        and release.decision_id == allow.decision_id
        and allow.outcome == "allow"
        and allow.intent_digest == at[0].digest
        and allow.valid_from <= release.at <= allow.valid_until
        and allow.subject == intent.subject
        and allow.purpose == intent.purpose
        and allow.action_type == intent.action_type
        and not [
            name
            for name, most in allow.limits.items()
            if type(given.get(name)) is not int or given[name] > most
        ]
    )


def _said(
    contract: Contract,
    release: AttemptReleased,
    returned: AttemptReturned,
    effect: EffectObserved,
    receipt: ReceiptRecorded,
) -> bool:
    """One reply that the contract lists as a success, and its receipt."""
    return (
        release.action_id == returned.action_id == effect.action_id == receipt.action_id
        and returned.number == effect.number == receipt.number == 1
        and returned.transport == "replied"
        and returned.single
        and returned.reply in contract.reaches
        and effect.state in LEVEL
        and effect.source == "reply"
        and effect.matches is True
        and effect.undone_by is None
        and receipt.evidence == "reply"
        and receipt.claim in LEVEL
        and receipt.about is None
        and (receipt.reference or "") == (effect.reference or "")
        and receipt.observed_at >= release.at - contract.skew
    )
