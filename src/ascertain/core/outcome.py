"""What the evidence proves: the outcome rules (DESIGN 6).

`outcome` is pure. A verdict names the attempts that it covers. Absence is claimed
only with an argument (:mod:`ascertain.core.absence`): *never released*, *told*,
*sealed*, or *gone and seen*. Where the rules leave a choice, the safe reading is taken.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from .absence import (
    Absence,
    Absent,
    Argument,
    absent,
    denials,
    latest_quiet,
    misses_nothing_before,
    multiplied,
    one_key,
    quiet_at,
    remembered,
    seals_of,
    told,
    whole,
)
from .contract import LEVELS, Contract
from .cut import Cut, View
from .effects import LEVEL, Proved, claims, proved
from .facts import Finding
from .records import Entry

__all__ = [
    "OUTCOME_OF",
    "Absence",
    "Argument",
    "Outcome",
    "Proved",
    "Verdict",
    "outcome",
    "quiet_at",
]


class Outcome(Enum):
    """What the evidence proves (DESIGN 1)."""

    VERIFIED_APPLIED = "VERIFIED_APPLIED"
    VERIFIED_REJECTED = "VERIFIED_REJECTED"
    NOT_APPLIED = "NOT_APPLIED"
    CONFLICT = "CONFLICT"
    UNKNOWN = "UNKNOWN"


OUTCOME_OF: dict[Finding, Outcome] = {
    Finding.APPLIED_FINAL: Outcome.VERIFIED_APPLIED,
    Finding.APPLIED_SHORT: Outcome.VERIFIED_APPLIED,
    Finding.APPLIED_PROVISIONAL: Outcome.VERIFIED_APPLIED,
    Finding.APPLIED_REVERSED: Outcome.VERIFIED_APPLIED,
    Finding.REJECTED: Outcome.VERIFIED_REJECTED,
    Finding.NOT_APPLIED: Outcome.NOT_APPLIED,
    Finding.NOT_APPLIED_SEALED: Outcome.NOT_APPLIED,
    Finding.CONFLICT: Outcome.CONFLICT,
    Finding.UNKNOWN: Outcome.UNKNOWN,
}


class Verdict(NamedTuple):
    """What is proved, about which attempts, and what would prove more.

    ``open``: attempts that can still land. ``quiet_at``: when the last of them can land
    no more, None if that is not known. ``looks``: observations since the last release;
    ``next_look``: when to look again, None where looking is over.
    """

    finding: Finding
    covers: tuple[int, ...]
    effects: tuple[Proved, ...] = ()
    argument: Argument | None = None
    reason: str = ""
    missing: tuple[str, ...] = ()
    open: tuple[int, ...] = ()
    quiet_at: int | None = None
    looks: int = 0
    next_look: int | None = None
    reversed_by: str = ""

    @property
    def outcome(self) -> Outcome:
        """The outcome in the five words."""
        return OUTCOME_OF[self.finding]


def _schedule(view: View, contract: Contract, quiet: int | None) -> tuple[int, int | None]:
    """(looks since the last release, when to look again or None when looking is over)."""
    plan = contract.observation
    last = view.last_release
    since = last.position if last is not None else 0
    looks = [
        entry.record.observed_at
        for entry in view.receipts
        if entry.position > since and entry.record.evidence in ("readback", "absence", "unreadable")
    ]
    start = looks[-1] if looks else (last.record.at if last is not None else 0)
    if len(looks) < plan.looks:
        return len(looks), start + min(plan.first << len(looks), plan.longest)
    due = None if quiet is None else quiet + (contract.readback.lag or 0)
    if due is not None and start < due:
        return len(looks), due
    return len(looks), None


def outcome(cut: Cut, action_id: str, contract: Contract) -> Verdict:
    """The verdict on one action of the cut. Pure and total.

    Rules: DESIGN 6. Nothing later erases an attempt that is unresolved; evidence that
    disagrees about the same attempts is CONFLICT.
    """
    view = cut.views.get(action_id) or View(action_id)
    effects = proved(view)
    gone = absent(view, contract)
    quiet = latest_quiet(view, contract, gone.open)
    looks, next_look = _schedule(view, contract, quiet)
    verdict = Verdict(
        Finding.UNKNOWN,
        tuple(sorted(view.released)),
        effects,
        open=gone.open,
        quiet_at=quiet,
        looks=looks,
        next_look=next_look,
    )
    if effects:
        return _with_effects(verdict, view, contract, gone)
    return _without_effects(verdict, view, cut, contract, gone)


def _conflict(verdict: Verdict, reason: str) -> Verdict:
    return verdict._replace(finding=Finding.CONFLICT, reason=reason)


def _with_effects(verdict: Verdict, view: View, contract: Contract, gone: Absent) -> Verdict:
    still = _unsettled(view, contract, gone, len(verdict.effects))
    verdict = verdict._replace(open=still)
    if len(verdict.effects) > 1:
        names = ", ".join(sorted(item.reference or "(no reference)" for item in verdict.effects))
        return _conflict(verdict, f"{len(verdict.effects)} effects for one action: {names}")
    (effect,) = verdict.effects
    if effect.matches is False:
        return _conflict(verdict, "the effect differs from the intent")
    against = _against(view, contract, gone, effect)
    if against is not None:
        return _conflict(verdict, against)
    if effect.reversed:
        undone = [item.record.undone_by for item in view.effects if item.record.undone_by]
        return verdict._replace(
            finding=Finding.APPLIED_REVERSED,
            reason="it happened, and was undone later",
            reversed_by=undone[-1] if undone else "",
        )
    if effect.level < LEVEL[contract.governed]:
        return verdict._replace(
            finding=Finding.APPLIED_PROVISIONAL,
            reason=f"it is {LEVELS[effect.level]}; what counts is {contract.governed}",
            missing=(f"evidence that it is {contract.governed}",),
        )
    missing = _missing(effect, contract, still)
    if missing:
        return verdict._replace(
            finding=Finding.APPLIED_SHORT,
            reason="it happened; the evidence asked for is not complete",
            missing=missing,
        )
    return verdict._replace(finding=Finding.APPLIED_FINAL, reason="it happened once, as intended")


def _missing(effect: Proved, contract: Contract, still: tuple[int, ...]) -> tuple[str, ...]:
    missing: list[str] = []
    if len(effect.domains) < contract.witnesses:
        missing.append(
            f"{contract.witnesses} witnesses from distinct control domains, "
            f"{len(effect.domains)} so far"
        )
    if effect.matches is None:
        missing.append("a comparison of the effect with the intent")
    missing.extend(f"proof that attempt {number} can land no more" for number in still)
    return tuple(missing)


def _against(view: View, contract: Contract, gone: Absent, effect: Proved) -> str | None:
    """Evidence about the same attempts that says otherwise, in words, or None."""
    if view.released and not gone.open:
        return "an effect is seen, and every attempt is refused, sealed or proved to have none"
    for entry in view.effects:
        number = entry.record.number
        if entry.record.state != "rejected" and (number in gone.none or number in gone.refused):
            return f"an effect of attempt {number} is seen, which is proved to have none"
    if any(entry.record.holds is False for entry in view.checks):
        return "the effect is there and its postcondition does not hold"
    if effect.reversed:
        return None
    denial = _latest_denial(view, contract)
    if denial is not None and not _seen_after(view, denial):
        return "one source says that it happened, a stronger one later that it did not"
    return None


def _latest_denial(view: View, contract: Contract) -> Entry | None:
    """The newest word that nothing is there, from a source that cannot have missed the effect."""
    claimed = list(claims(view))
    for entry in reversed(view.receipts):
        if entry.record.evidence == "absence":
            seen = misses_nothing_before(view, entry, contract)
            if seen is not None and any(seen >= claim.at for claim in claimed):
                return entry
    for entry in reversed(view.attested):
        if entry.record.claim == "not_applied" and any(
            claim.entry.position < entry.position for claim in claimed
        ):
            return entry
    return None


def _seen_after(view: View, denial: Entry) -> bool:
    return any(
        entry.position > denial.position
        and entry.record.evidence in ("readback", "fence")
        and entry.record.claim in LEVEL
        for entry in view.receipts
    )


def _unsettled(view: View, contract: Contract, gone: Absent, effects: int) -> tuple[int, ...]:
    """Attempts that could still make a further effect beside the ``effects`` known."""
    keyed = contract.key.first_result and one_key(view) and remembered(view, contract)
    fences = {entry.record.fence for entry in view.released.values()}
    fenced = len(fences) == 1 and None not in fences
    if effects == 1 and (keyed or fenced):
        return ()
    doubling = any(multiplied(view, contract, number) for number in gone.open)
    if not doubling and len(gone.open) <= effects:
        return ()  # each open attempt is one request, and these are their effects
    quiet = latest_quiet(view, contract, gone.open)
    if quiet is not None and _read_at(view, contract) >= quiet:
        return ()
    if doubling:
        return gone.open
    claimed = [number for number in gone.open if told(view, contract, number) == "effect"]
    named = {entry.record.number for entry in view.effects if entry.record.reference}
    # Two replies without a reference may speak of two effects.
    known = {number for number in claimed if len(claimed) == 1 or number in named}
    return tuple(number for number in gone.open if number not in known)


def _read_at(view: View, contract: Contract) -> int:
    """Up to when a readback that shows the effect cannot have missed another."""
    times = [
        misses_nothing_before(view, entry, contract)
        for entry in view.receipts
        if entry.record.evidence == "readback" and entry.record.claim in LEVEL
    ]
    return max((time for time in times if time is not None), default=-1)


def _without_effects(
    verdict: Verdict, view: View, cut: Cut, contract: Contract, gone: Absent
) -> Verdict:
    if view.unmatched:
        return verdict._replace(
            reason="a record speaks of an attempt whose release is not recorded",
            missing=("the release of that attempt", "evidence from the provider"),
        )
    if not view.released:
        return _unreleased(verdict, view, cut, contract)
    if gone.open:
        return verdict._replace(
            reason=_why_unknown(view, gone.open),
            missing=_would_resolve(view, contract, gone.open),
        )
    if gone.refused:
        entry = view.returned.get(min(gone.refused))
        word = entry.record.detail or entry.record.reply if entry is not None else ""
        return verdict._replace(
            finding=Finding.REJECTED,
            reason=f"the provider refused it for good{': ' + word if word else ''}",
        )
    seals = seals_of(view)
    sealed = any(entry.record.fence in seals for entry in view.released.values())
    vouched = all(denials(view, contract, number) for number in view.released)
    if not (whole(view, cut.sources) or vouched or (sealed and contract.seal.reach == "action")):
        return verdict._replace(
            reason="every attempt that is recorded had no effect, in a journal that may have "
            "lost one",
            missing=("evidence from the provider", "an operator's attestation"),
        )
    kinds = {kind for kind, _ in gone.none.values()}
    evidence = tuple(digest for _, digest in gone.none.values())
    kind = next(
        kind for kind in (Absence.SEALED, Absence.GONE_AND_SEEN, Absence.TOLD) if kind in kinds
    )
    text = _TEXTS[kind]
    if any(entry.digest in evidence for entry in view.attested):
        text = "a person attests that it did not happen and cannot any more"
    return verdict._replace(
        finding=Finding.NOT_APPLIED_SEALED if sealed else Finding.NOT_APPLIED,
        argument=Argument(kind, text, evidence),
        reason=text,
    )


_TEXTS = {
    Absence.SEALED: "its fence is sealed, and every attempt was conditional on that fence",
    Absence.GONE_AND_SEEN: "nothing of it can still land, and a read that could not have "
    "missed it found nothing",
    Absence.TOLD: "every attempt was told, or found out here, that it had no effect",
}


def _unreleased(verdict: Verdict, view: View, cut: Cut, contract: Contract) -> Verdict:
    known = whole(view, cut.sources)
    seals = tuple(seals_of(view).values())
    if seals and (known or contract.seal.reach == "action"):
        text = "its fence is sealed, and it was never released"
        argument = Argument(Absence.SEALED, text, (seals[-1].digest,))
        return verdict._replace(finding=Finding.NOT_APPLIED_SEALED, argument=argument, reason=text)
    refusals = [entry for entry in view.effects if entry.record.state == "rejected"]
    if refusals or any(entry.record.claim == "rejected" for entry in view.attested):
        return verdict._replace(
            reason="a refusal is known of an action whose release is not recorded",
            missing=("the release of its attempt", "evidence from the provider"),
        )
    words = [entry for entry in view.attested if entry.record.claim == "not_applied"]
    if words and not known:
        text = "a person attests that it did not happen and cannot any more"
        argument = Argument(Absence.GONE_AND_SEEN, text, (words[-1].digest,))
        return verdict._replace(finding=Finding.NOT_APPLIED, argument=argument, reason=text)
    if known:
        text = "it was never released, and the journal that says so is whole"
        argument = Argument(Absence.NEVER_RELEASED, text, (view.intents[-1].digest,))
        return verdict._replace(finding=Finding.NOT_APPLIED, argument=argument, reason=text)
    return verdict._replace(
        reason="no release is recorded, in a journal that may have lost one",
        missing=("evidence from the provider", "an operator's attestation"),
    )


def _why_unknown(view: View, numbers: tuple[int, ...]) -> str:
    words = {
        "timed_out": "no reply came in time",
        "lost": "the connection was lost after the request had left",
        "raised": "the reply is none that the contract names",
        "replied": "the reply is none that the contract names",
    }
    number = max(numbers)
    returned = view.returned.get(number)
    if returned is None:
        return f"attempt {number} was released and nothing is known of its return"
    return f"attempt {number}: {words.get(returned.record.transport, 'its return is open')}"


def _would_resolve(view: View, contract: Contract, numbers: tuple[int, ...]) -> tuple[str, ...]:
    ways: list[str] = []
    if contract.readback.by != "none":
        ways.append(f"a readback by {contract.readback.by} that shows the effect")
    if contract.seal.reach == "action" and all(
        view.released[n].record.fence is not None for n in numbers
    ):
        ways.append("a seal on its fence")
    if contract.key.first_result:
        ways.append("a replay under the same key")
    ways.append("an operator's attestation")
    return tuple(ways)
