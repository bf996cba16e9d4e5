"""What the evidence proves: the outcome rules (DESIGN 6).

`outcome` is pure. A verdict names the attempts that it covers. Absence is claimed
only with an argument: *never released*, *told*, *sealed*, or *gone and seen*. An
expired lease, an empty read on its own and an error while reading prove nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import NamedTuple

from .contract import FOR_EVER, LEVELS, Consistency, Contract
from .cut import Cut, View
from .facts import Finding
from .records import AttemptReleased, AttemptReturned, Entry


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


class Absence(Enum):
    """The four kinds of argument for absence."""

    NEVER_RELEASED = "never released"
    TOLD = "told"
    SEALED = "sealed"
    GONE_AND_SEEN = "gone and seen"


class Argument(NamedTuple):
    """Why it did not happen: the kind, one sentence, and the records that carry it."""

    kind: Absence
    text: str
    evidence: tuple[str, ...]


class Proved(NamedTuple):
    """One effect that the evidence proves. ``reference`` is "" where the provider gives none."""

    reference: str
    level: int
    matches: bool | None
    reversed: bool
    domains: frozenset[str]
    seen: bool


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


_LEVEL = {name: rank for rank, name in enumerate(LEVELS)}


def _effects(view: View) -> tuple[Proved, ...]:
    """Distinct effects, merged by reference; one without any joins the only named one."""
    found: dict[str, Proved] = {}
    undone: set[str] = set()
    for entry in view.effects:
        record = entry.record
        reference = record.reference or ""
        if record.state == "rejected":
            continue
        if record.state == "reversed":
            undone.add(reference)
        seen = record.source != "reply"
        level = _LEVEL.get(record.state, 0)
        _merge(found, Proved(reference, level, record.matches, False, frozenset(), seen))
    for entry in view.attested:
        record = entry.record
        if record.claim in ("applied", "reversed"):
            reference = record.reference or ""
            if record.claim == "reversed":
                undone.add(reference)
            domains = frozenset((record.domain,))
            # A person vouches for the match: that is what the attestation says.
            _merge(found, Proved(reference, len(LEVELS) - 1, True, False, domains, True))
    if "" in found and len(found) == 2:
        nameless = found.pop("")
        (reference,) = found
        _merge(found, nameless._replace(reference=reference))
        undone = {reference if item == "" else item for item in undone}
    domains = _domains(view)
    only = len(found) == 1
    return tuple(
        item._replace(
            reversed=reference in undone,
            domains=item.domains
            | domains.get(reference, frozenset())
            | (domains.get("", frozenset()) if only else frozenset()),
        )
        for reference, item in found.items()
    )


def _merge(found: dict[str, Proved], new: Proved) -> None:
    old = found.get(new.reference)
    if old is None:
        found[new.reference] = new
        return
    matches = False if False in (old.matches, new.matches) else old.matches or new.matches
    found[new.reference] = Proved(
        new.reference,
        max(old.level, new.level),
        matches,
        old.reversed or new.reversed,
        old.domains | new.domains,
        old.seen or new.seen,
    )


def _domains(view: View) -> dict[str, frozenset[str]]:
    """Which control domains vouch for each reference."""
    domains: dict[str, frozenset[str]] = {}
    for entry in view.receipts:
        record = entry.record
        if record.claim in _LEVEL:
            reference = record.reference or ""
            domains[reference] = domains.get(reference, frozenset()) | {record.domain}
    return domains


def _told(view: View, contract: Contract, number: int) -> str:
    """What attempt ``number``'s own return proves: "none", "refused", "effect" or ""."""
    entry = view.returned.get(number)
    if entry is None:
        return ""
    record: AttemptReturned = entry.record
    if record.transport in ("not_sent", "rolled_back"):
        return "none"
    flight = contract.in_flight
    if not record.single or flight.doubles or flight.client_retries:
        keyed = contract.key.first_result and record.reply in contract.reaches
        return "effect" if keyed else ""
    replies = contract.replies
    if record.reply in replies.no_effect:
        return "none"
    if record.reply in replies.refusals:
        return "refused"
    return "effect" if record.reply in contract.reaches else ""


def quiet_at(view: View, contract: Contract, number: int) -> int | None:
    """When attempt ``number`` can land no more, or None: not known (DESIGN 6, *quiet*).

    Its connection is closed and no client library retries, or its executor is proved
    to be gone; and then the in-flight bound has passed.
    """
    flight = contract.in_flight
    if flight.after_release is None or flight.after_close is None:
        return None
    release: AttemptReleased = view.released[number].record
    returned = view.returned.get(number)
    gone = view.gone.get(release.executor)
    if returned is not None and returned.record.closed and not flight.client_retries:
        base: int = returned.record.at
    elif gone is not None:
        base = gone.record.at
    else:
        return None
    return max(release.at + flight.after_release, base + flight.after_close)


def _reads(view: View) -> Iterator[Entry]:
    """Absences, and a person's word that it did not happen, newest first."""
    for entry in reversed(view.receipts):
        if entry.record.evidence == "absence":
            yield entry


def _missed_nothing_before(entry: Entry, contract: Contract, first_release: int) -> int | None:
    """The time up to which an absent read cannot have missed an effect, None if it can."""
    readback, record = contract.readback, entry.record
    if record.as_of is None or not readback.keeps_records:
        return None
    retention = readback.retention
    if retention is None or record.as_of - first_release > retention:
        return None
    declared = Consistency(record.consistency)
    if declared is Consistency.LINEARIZABLE:
        return int(record.as_of)
    if declared is Consistency.BOUNDED and readback.lag is not None:
        return int(record.as_of) - readback.lag
    return None


class _Absent(NamedTuple):
    """For each attempt without an effect: why, and the records that show it."""

    none: dict[int, tuple[Absence, str]]
    refused: dict[int, str]
    open: tuple[int, ...]


def _absent(view: View, contract: Contract) -> _Absent:
    none: dict[int, tuple[Absence, str]] = {}
    refused: dict[int, str] = {}
    fences = {entry.record.fence: entry.digest for entry in view.seals}
    denied = [entry for entry in view.attested if entry.record.claim == "not_applied"]
    first = min((entry.record.at for entry in view.released.values()), default=0)
    for number, entry in view.released.items():
        told = _told(view, contract, number)
        record: AttemptReleased = entry.record
        seal = fences.get(record.fence) if record.fence is not None else None
        quiet = quiet_at(view, contract, number)
        read = _covering_read(view, contract, first, quiet)
        word = next((item for item in denied if item.position > entry.position), None)
        if told == "none":
            none[number] = (Absence.TOLD, view.returned[number].digest)
        elif told == "refused":
            refused[number] = view.returned[number].digest
        elif seal is not None:
            none[number] = (Absence.SEALED, seal)
        elif read is not None:
            none[number] = (Absence.GONE_AND_SEEN, read)
        elif word is not None:
            none[number] = (Absence.GONE_AND_SEEN, word.digest)
    _spread_refusals(view, contract, none, refused)
    rest = tuple(n for n in view.released if n not in none and n not in refused)
    return _Absent(none, refused, rest)


def _covering_read(view: View, contract: Contract, first: int, quiet: int | None) -> str | None:
    if quiet is None:
        return None
    for entry in _reads(view):
        seen = _missed_nothing_before(entry, contract, first)
        if seen is not None and seen >= quiet:
            return entry.digest
    return None


def _spread_refusals(
    view: View,
    contract: Contract,
    none: dict[int, tuple[Absence, str]],
    refused: dict[int, str],
) -> None:
    """A refusal kept under the key covers every attempt with it; a seen one, its attempt."""
    for entry in (*view.effects, *view.attested):
        record = entry.record
        attested = getattr(record, "claim", None) == "rejected"
        if not attested and getattr(record, "state", None) != "rejected":
            continue
        number = getattr(record, "number", None)
        waiting = [n for n in view.released if n not in none and n not in refused]
        if number is not None and number in waiting:
            refused[number] = entry.digest
        elif attested or len(waiting) == 1:
            refused.update((n, entry.digest) for n in waiting)
    if not refused or not contract.replies.refusals_stored:
        return
    kept, digest = next(iter(refused.items()))
    stored = view.released[kept].record
    for number, entry in view.released.items():
        same = (entry.record.key, entry.record.payload_hash) == (stored.key, stored.payload_hash)
        if number not in none and number not in refused and same:
            refused[number] = digest


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
    if quiet is not None and start < quiet + (contract.readback.lag or 0):
        return len(looks), quiet + (contract.readback.lag or 0)
    return len(looks), None


def _latest_quiet(view: View, contract: Contract, numbers: tuple[int, ...]) -> int | None:
    """When all of ``numbers`` are quiet; None if one of them is not known to be."""
    times = [quiet_at(view, contract, number) for number in numbers]
    return None if not times or None in times else max(time for time in times if time is not None)


def outcome(cut: Cut, action_id: str, contract: Contract) -> Verdict:
    """The verdict on one action of the cut. Pure and total.

    Rules: DESIGN 6. Nothing later erases an attempt that is unresolved; evidence that
    disagrees about the same attempts is CONFLICT.
    """
    view = cut.views.get(action_id) or View(action_id)
    effects = _effects(view)
    absent = _absent(view, contract)
    covers = tuple(sorted(view.released))
    quiet = _latest_quiet(view, contract, absent.open)
    looks, next_look = _schedule(view, contract, quiet)
    verdict = Verdict(
        Finding.UNKNOWN, covers, effects, open=absent.open, quiet_at=quiet, looks=looks,
        next_look=next_look,
    )  # fmt: skip
    if effects:
        return _with_effects(verdict, view, contract, absent)
    return _without_effects(verdict, view, cut, contract, absent)


def _conflict(verdict: Verdict, reason: str) -> Verdict:
    return verdict._replace(finding=Finding.CONFLICT, reason=reason)


def _with_effects(verdict: Verdict, view: View, contract: Contract, absent: _Absent) -> Verdict:
    still = _unsettled(view, contract, absent, len(verdict.effects))
    verdict = verdict._replace(open=still)
    if len(verdict.effects) > 1:
        names = ", ".join(sorted(item.reference or "(no reference)" for item in verdict.effects))
        return _conflict(verdict, f"{len(verdict.effects)} effects for one action: {names}")
    (effect,) = verdict.effects
    if effect.matches is False:
        return _conflict(verdict, "the effect differs from the intent")
    against = _against(view, contract, absent, effect)
    if against:
        return _conflict(verdict, against)
    if effect.reversed:
        undone = [item.record.undone_by for item in view.effects if item.record.undone_by]
        return verdict._replace(
            finding=Finding.APPLIED_REVERSED,
            reason="it happened, and was undone later",
            reversed_by=undone[-1] if undone else "",
        )
    if effect.level < _LEVEL[contract.governed]:
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


def _against(view: View, contract: Contract, absent: _Absent, effect: Proved) -> str:
    """Evidence about the same attempts that says otherwise, in words, or ""."""
    if view.released and not absent.open:
        return "an effect is seen, and every attempt is refused, sealed or proved to have none"
    if effect.reversed:
        return ""
    denial = _latest_denial(view, contract)
    if denial is not None and not _seen_after(view, denial):
        return "the reply says that it happened, a stronger readback says that it did not"
    return ""


def _latest_denial(view: View, contract: Contract) -> Entry | None:
    """The newest absence that cannot have missed what a reply had already claimed."""
    claims = [e for e in view.receipts if e.record.evidence == "reply" and e.record.claim in _LEVEL]
    first = min((entry.record.at for entry in view.released.values()), default=0)
    for entry in _reads(view):
        seen = _missed_nothing_before(entry, contract, first)
        if seen is not None and any(seen >= claim.record.observed_at for claim in claims):
            return entry
    worded = [e for e in view.attested if e.record.claim == "not_applied"]
    return worded[-1] if worded else None


def _seen_after(view: View, denial: Entry) -> bool:
    return any(
        entry.position > denial.position
        and entry.record.evidence in ("readback", "fence")
        and entry.record.claim in _LEVEL
        for entry in view.receipts
    )


def _unsettled(view: View, contract: Contract, absent: _Absent, effects: int) -> tuple[int, ...]:
    """Attempts that could still make a further effect beside the ``effects`` known."""
    if contract.key.first_result and _one_key(view) and effects == 1:
        return ()
    fences = {view.released[n].record.fence for n in view.released}
    if len(fences) == 1 and None not in fences and effects == 1:
        return ()
    doubling = contract.in_flight.doubles or contract.in_flight.client_retries
    if not doubling and len(absent.open) <= effects:
        return ()  # each open attempt is one request, and these are their effects
    quiet = _latest_quiet(view, contract, absent.open)
    if quiet is not None and _read_at(view, contract) >= quiet:
        return ()
    if doubling:
        return absent.open
    return tuple(n for n in absent.open if _told(view, contract, n) != "effect")


def _one_key(view: View) -> bool:
    pairs = {(e.record.key, e.record.payload_hash) for e in view.released.values()}
    return len(pairs) == 1


def _read_at(view: View, contract: Contract) -> int:
    """Up to when the newest readback that shows the effect cannot have missed another."""
    for entry in reversed(view.receipts):
        record = entry.record
        if record.evidence == "readback" and record.as_of is not None:
            consistency = Consistency(record.consistency)
            if consistency is Consistency.LINEARIZABLE:
                return int(record.as_of)
            if consistency is Consistency.BOUNDED:
                return int(record.as_of) - (contract.readback.lag or FOR_EVER)
    return -1


def _without_effects(
    verdict: Verdict, view: View, cut: Cut, contract: Contract, absent: _Absent
) -> Verdict:
    if not view.released:
        return _unreleased(verdict, view, cut)
    if absent.open:
        return verdict._replace(
            reason=_why_unknown(view, absent.open),
            missing=_would_resolve(view, contract, absent.open),
        )
    if absent.refused:
        first = min(absent.refused)
        entry = view.returned.get(first)
        word = entry.record.detail or entry.record.reply if entry is not None else ""
        return verdict._replace(
            finding=Finding.REJECTED,
            reason=f"the provider refused it for good{': ' + word if word else ''}",
        )
    kinds = {kind for kind, _ in absent.none.values()}
    evidence = tuple(digest for _, digest in absent.none.values())
    sealed = bool(view.seals)
    kind = next(
        kind for kind in (Absence.SEALED, Absence.GONE_AND_SEEN, Absence.TOLD) if kind in kinds
    )
    texts = {
        Absence.SEALED: "its fence is sealed, and every attempt was conditional on that fence",
        Absence.GONE_AND_SEEN: "nothing of it can still land, and a read that could not have "
        "missed it found nothing",
        Absence.TOLD: "every attempt was told, or found out here, that it had no effect",
    }
    return verdict._replace(
        finding=Finding.NOT_APPLIED_SEALED if sealed else Finding.NOT_APPLIED,
        argument=Argument(kind, texts[kind], evidence),
        reason=texts[kind],
    )


def _unreleased(verdict: Verdict, view: View, cut: Cut) -> Verdict:
    if view.seals:
        text = "its fence is sealed, and it was never released"
        argument = Argument(Absence.SEALED, text, (view.seals[-1].digest,))
        return verdict._replace(finding=Finding.NOT_APPLIED_SEALED, argument=argument, reason=text)
    intent = view.intent
    known = intent is not None and intent.incarnation == cut.sources.incarnation
    if cut.sources.complete and known:
        text = "it was never released, and the journal that says so is whole"
        argument = Argument(Absence.NEVER_RELEASED, text, (view.intents[-1].digest,))
        return verdict._replace(finding=Finding.NOT_APPLIED, argument=argument, reason=text)
    return verdict._replace(
        reason="no release is recorded, in a journal that may have lost one",
        missing=("evidence from the provider",),
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
