"""Which records carry a conclusion: decision, preconditions, receipts, evidence. Pure."""

from __future__ import annotations

from typing import Any, NamedTuple

from .contract import LEVELS, Contract
from .cut import View
from .decision import APPLIED
from .facts import Finding
from .outcome import Verdict
from .records import (
    EffectObserved,
    Entry,
    ExecutorGone,
    FenceSealed,
    OperatorAttested,
    PostconditionChecked,
    ReceiptRecorded,
)

READS = ("readback", "absence")
"""Evidence from a read: only there does a consistency mean something."""


class Piece(NamedTuple):
    """One piece of evidence. ``rank``: 0 for what the conclusion cites, upwards for the rest."""

    rank: int
    entry: Entry

    @property
    def position(self) -> int:
        """Its place in the lineage."""
        return self.entry.position

    def written(self) -> dict[str, Any]:
        """What it says, by the names of a certificate's evidence; None where it says nothing."""
        record = self.entry.record
        said: dict[str, Any] = {
            "digest": self.entry.digest,
            "position": self.entry.position,
            "observed_at": getattr(record, "observed_at", record.at),
        }
        if isinstance(record, ReceiptRecorded):
            return said | {
                "kind": record.evidence,
                "source": record.source,
                "control_domain": record.domain,
                "consistency": record.consistency if record.evidence in READS else None,
                "as_of": record.as_of,
                "claim": record.claim,
                "reference": record.reference,
                "pointer": record.pointer,
            }
        if isinstance(record, EffectObserved):
            return said | {
                "kind": "effect",
                "source": record.source,
                "claim": record.state,
                "reference": record.reference,
                "matches": record.matches,
                "undone_by": record.undone_by,
            }
        if isinstance(record, PostconditionChecked):
            words = {True: "holds", False: "does not hold", None: "could not be compared"}
            claim = f"{record.predicate} {record.version} {words[record.holds]}"
            return said | {"kind": "postcondition", "claim": claim}
        if isinstance(record, OperatorAttested):
            return said | {
                "kind": "attestation",
                "source": record.operator,
                "control_domain": record.domain,
                "claim": record.claim,
                "reference": record.reference,
            }
        if isinstance(record, FenceSealed):
            return said | {"kind": "seal", "source": record.fence, "claim": record.reach}
        assert isinstance(record, ExecutorGone)
        return said | {"kind": "executor-gone", "source": record.executor, "claim": record.proof}


class Grounds(NamedTuple):
    """The records that a conclusion about one action stands on.

    ``allow``: the decision under which the effective or last attempt was released, or, for
    an action that was never released, the last one; None with the reason in words.
    ``later``: the newest decision, where that is another one. ``preconditions``: what the
    attempt stood on; ``again``: what was looked at after it. ``receipt``, ``readback``: the newest
    ones that carry the finding. ``verified_at``: microseconds. ``evidence``: all of it, the
    most relevant first, the newest first among equals.
    """

    attempt: int | None
    allow: Entry | None
    without_allow: str
    later: Entry | None
    preconditions: tuple[Entry, ...]
    again: tuple[Entry, ...]
    receipt: Entry | None
    readback: Entry | None
    verified_at: int | None
    evidence: tuple[Piece, ...]

    @property
    def main(self) -> Entry | None:
        """The precondition that the certificate binds; None where none was asked for."""
        return self.preconditions[0] if self.preconditions else None

    @property
    def further(self) -> tuple[Entry, ...]:
        """The other preconditions."""
        return self.preconditions[1:]


def grounds_of(view: View, contract: Contract, verdict: Verdict) -> Grounds:
    """Find the records that carry the verdict. Nothing is concluded here."""
    number = _attempt(view, verdict)
    allow, without = _allow(view, number)
    carrying = _carrying(view, contract, verdict)
    newest = view.decisions[-1] if view.decisions else None
    receipts = [entry for entry in carrying if isinstance(entry.record, ReceiptRecorded)]
    read = [e for e in receipts if e.record.evidence in READS]
    positive = [e for e in carrying if e not in read and _is_positive(e)]
    return Grounds(
        number,
        allow,
        without,
        newest if newest is not allow else None,
        _preconditions(view, contract, number),
        _again(view, number),
        positive[-1] if positive else None,
        read[-1] if read else None,
        _observed(carrying[-1]) if carrying else None,
        _evidence(view, {entry.digest for entry in carrying}),
    )


def _observed(entry: Entry) -> int:
    return int(getattr(entry.record, "observed_at", entry.record.at))


def _attempt(view: View, verdict: Verdict) -> int | None:
    """The attempt that took effect as far as that is known, else the last one."""
    references = {item.reference for item in verdict.effects} | {""}
    numbers = [
        entry.record.number
        for entry in view.effects
        if entry.record.state != "rejected"
        and (entry.record.reference or "") in references
        and entry.record.number in view.released
    ]
    if numbers:
        return int(numbers[-1])
    return max(view.released) if view.released else None


def _allow(view: View, number: int | None) -> tuple[Entry | None, str]:
    if not view.decisions:
        return None, "no decision is recorded"
    if number is not None:
        causes = view.released[number].record.causes
        entry = next((item for item in view.decisions if item.digest in causes), None)
        if entry is None:
            return None, f"attempt {number} names no recorded decision"
    else:
        entry = view.decisions[-1]
    if entry.record.outcome != "allow":
        return None, "the decision on it is a deny: there is no authority that could be named"
    return entry, ""


def _preconditions(view: View, contract: Contract, number: int | None) -> tuple[Entry, ...]:
    """Those that the attempt stood on, else the newest of each; the contract's own first."""
    if number is not None:
        causes = view.released[number].record.causes
        found = [entry for entry in view.preconditions if entry.digest in causes]
    else:
        newest = {(e.record.resource, e.record.predicate): e for e in view.preconditions}
        found = list(newest.values())
    asked = {name: rank for rank, name in enumerate(contract.preconditions)}
    return tuple(sorted(found, key=lambda e: asked.get(e.record.predicate, len(asked))))


def _again(view: View, number: int | None) -> tuple[Entry, ...]:
    """The newest look at each precondition since the last release, by which recovery decides."""
    if number is None:
        return ()
    since = max(entry.position for entry in view.released.values())
    later = [entry for entry in view.preconditions if entry.position > since]
    return tuple({(e.record.resource, e.record.predicate): e for e in later}.values())


def _is_positive(entry: Entry) -> bool:
    record = entry.record
    if isinstance(record, OperatorAttested):
        return True
    return isinstance(record, ReceiptRecorded) and record.claim in (*LEVELS, "rejected")


def _carrying(view: View, contract: Contract, verdict: Verdict) -> list[Entry]:
    """The records that carry the finding, in order of position; none for UNKNOWN."""
    cited = set(verdict.argument.evidence) if verdict.argument is not None else set()
    claims: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    references: set[str] | None = None
    if verdict.finding in APPLIED:
        claims, words = (*LEVELS, "reversed"), ("applied", "reversed")
        references = {item.reference for item in verdict.effects} | {""}
    elif verdict.finding is Finding.REJECTED:
        claims, words = ("rejected",), ("rejected",)
        refusals = contract.replies.refusals
        cited = {e.digest for e in view.returned.values() if e.record.reply in refusals}
    carrying = [
        entry
        for entry in (*view.receipts, *view.attested, *view.returned.values(), *view.seals)
        if entry.digest in cited
        or (
            getattr(entry.record, "claim", None)
            in (words if isinstance(entry.record, OperatorAttested) else claims)
            and (references is None or (entry.record.reference or "") in references)
        )
    ]
    return sorted(carrying, key=lambda entry: entry.position)


def _evidence(view: View, cited: set[str]) -> tuple[Piece, ...]:
    pieces = [Piece(0 if e.digest in cited else 1, e) for e in (*view.attested, *view.seals)]
    pieces += [Piece(2, entry) for entry in (*view.effects, *view.checks)]
    pieces += [Piece(5, entry) for entry in view.gone.values()]
    for entry in view.receipts:
        record = entry.record
        plain = {"absence": 4, "unreadable": 6}.get(record.evidence, 3)
        pieces.append(Piece(0 if entry.digest in cited else plain, entry))
    return tuple(sorted(pieces, key=lambda item: (item.rank, -item.position)))
