"""Everything that is known of one action, gathered once: what `show` and `explain` tell of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ascertain.action import REFUSED_HERE
from ascertain.cli.wording import DECISION_WORDS, Place, plain_words, utc
from ascertain.core.contract import LEVELS, Contract
from ascertain.core.cut import Cut, View, chain_violations
from ascertain.core.decision import ROWS, Row
from ascertain.core.facts import Decision, Finding
from ascertain.core.judgement import Judgement, judge
from ascertain.core.limitations import limitations
from ascertain.core.records import Entry, RecoveryDecided, Stream
from ascertain.core.written import written_facts
from ascertain.errors import InputRefused
from ascertain.journal import ActionRow, StoredCertificate
from ascertain.presented import check_id
from ascertain.runtime import compensation_of, needs_now, standing

if TYPE_CHECKING:
    from ascertain.opened import Ascertain


@dataclass(frozen=True, slots=True)
class Account:
    """One action as the journal tells it.

    ``decided``: the newest recorded decision, if no evidence came after it; else the
    decision is what recovery would come to if everything were allowed. ``others``: the
    rows of the other actions of its lineage.
    """

    row: ActionRow
    cut: Cut
    view: View
    contract: Contract
    judgement: Judgement
    decided: RecoveryDecided | None
    others: tuple[ActionRow, ...]
    certificates: tuple[StoredCertificate, ...]

    @property
    def now(self) -> int:
        """When the account was taken."""
        return self.cut.as_of

    @property
    def finding(self) -> Finding:
        """What is known."""
        return self.judgement.verdict.finding

    @property
    def entries(self) -> list[Entry]:
        """The action's own records."""
        return [entry for entry in self.cut.entries if entry.record.action_id == self.row.action_id]

    @property
    def decision(self) -> Row:
        """The row of the table: as it was decided, or as it would be."""
        decided = self.decided
        known = None if decided is None else ROWS.get(decided.row)
        return self.judgement.row if known is None else known

    @property
    def refused_here(self) -> bool:
        """It was refused before it was released, and nothing has happened since."""
        return self.row.decision == REFUSED_HERE

    @property
    def driven_by(self) -> str | None:
        """Who drives it now, as far as the lease says."""
        return self.row.holder if self.row.holder and self.row.lease_until > self.now else None

    @property
    def next_look(self) -> int | None:
        """When it is looked at again; None if nothing will look."""
        return self.row.next_at if self.row.open else None

    @property
    def needs_person(self) -> bool:
        """Nothing goes on without a person."""
        return needs_person(self.decision) and not (self.refused_here or self.driven_by)


def needs_person(row: Row | None) -> bool:
    """Does a row of the table wait for a person? A seal is an end, and waits for nobody."""
    return (
        row is not None
        and row.decision in (Decision.QUARANTINE, Decision.REAUTHORISE)
        and row.name != "not-applied/sealed"
    )


def find(opened: Ascertain, action_id: str) -> ActionRow:
    """The row of an action. Raises InputRefused for a malformed or unknown id."""
    row = opened.journal.action(check_id(action_id))
    if row is None:
        raise InputRefused(
            f"the journal does not know action {action_id!r}",
            fix="`ascertain actions` lists what it knows.",
        )
    return row


def account(opened: Ascertain, action_id: str) -> Account:
    """Gather what is known of an action. Raises InputRefused, JournalError kinds."""
    runtime, journal = opened.runtime, opened.journal
    row = find(opened, action_id)
    entries = journal.entries(row.root_id)
    cut = runtime.cut(entries, runtime.ports.clock.now())
    view = cut.views.get(row.action_id) or View(row.action_id)
    contract = runtime.contract(row.contract)
    needs = view.intent.needs if view.intent is not None else ()
    context = standing(contract)._replace(
        needs=needs_now(journal, needs), compensation=compensation_of(journal, view)
    )
    return Account(
        row,
        cut,
        view,
        contract,
        judge(cut, row.action_id, contract, context),
        _decided(view),
        tuple(item for item in journal.lineage(row.root_id) if item.action_id != row.action_id),
        tuple(journal.certificates(row.action_id)),
    )


def _decided(view: View) -> RecoveryDecided | None:
    """The newest decision, if no evidence came later."""
    if not view.recoveries:
        return None
    entry = view.recoveries[-1]
    later = (
        *view.intents, *view.decisions, *view.revoked, *view.preconditions,
        *view.released.values(), *view.returned.values(), *view.unmatched, *view.effects,
        *view.gone.values(), *view.seals, *view.compensations, *view.receipts, *view.checks,
        *view.attested,
    )  # fmt: skip
    if any(item.position > entry.position for item in later):
        return None
    record: RecoveryDecided = entry.record
    return record


def refusal(account: Account) -> str:
    """Why nothing was released, as far as the records say."""
    decisions = account.view.decisions
    if decisions and decisions[-1].record.outcome != "allow":
        return f"denied: {decisions[-1].record.reason or 'no reason is recorded'}"
    for entry in reversed(account.view.preconditions):
        if entry.record.holds != "hold":
            word = "did not hold" if entry.record.holds == "broken" else "could not be verified"
            return f"{entry.record.predicate} of {entry.record.resource} {word}"
    intent = account.view.intent
    if intent is not None and intent.needs:
        return "an action that it needs was not verified"
    return "the decision was not valid for it"


def next_commands(account: Account, place: Place) -> list[str]:
    """What a person would type next; empty where nothing is to be done."""
    if account.refused_here:
        return []
    return commands_for(account.row.action_id, account.finding, account.decision, place)


def commands_for(action_id: str, finding: Finding, row: Row | None, place: Place) -> list[str]:
    """The commands that lead on from a finding and a decision."""
    if row is None:
        return []
    recover = place.acting("recover", action_id)
    attest = place.command(
        "attest", action_id, "--claim", "CLAIM", "--operator", "NAME", "--reason", "WHY",
        "--authority", "GROUNDS",
    )  # fmt: skip
    if row.decision is Decision.QUARANTINE and finding is Finding.UNKNOWN:
        return [attest, recover]
    if row.decision is Decision.QUARANTINE:
        return [place.command("explain", action_id)]
    if row.decision is Decision.ADOPT or row.name == "not-applied/sealed":
        return []
    return [recover]


# --- for programs ---------------------------------------------------------------------------


def shape(account: Account) -> dict[str, Any]:
    """The account as a JSON document; its members are documented in `reference/cli-json`."""
    row, cut = account.row, account.cut
    return {
        "action_id": row.action_id,
        "lineage": row.root_id,
        "type": row.type,
        "as_of": utc(account.now),
        "created_at": utc(row.created_at),
        "intent": _intent(account),
        "timeline": [_line(entry) for entry in account.entries],
        "cut": {
            "position": cut.position,
            "digest": cut.digest,
            "streams": cut.prefixes(),
            "complete": cut.sources.complete,
            "incarnation": cut.sources.incarnation,
            "closed": not account.judgement.violations,
            "chain": [item.text for item in chain_violations(cut.entries)],
        },
        "violations": [
            {"rule": item.rule, "breach": item.breach.value, "text": item.text,
             "records": [digest for digest in (item.first, item.second) if digest]}
            for item in account.judgement.violations
        ],
        "outcome": _outcome(account),
        "decision": _decision(account),
        "driven_by": account.driven_by,
        "epoch": row.epoch,
        "attempts": row.attempts,
        "compensation": row.compensation,
        "lineage_actions": [
            {"action_id": item.action_id, "type": item.type, "finding": item.finding}
            for item in account.others
        ],
        "certificates": [
            {"digest": item.digest, "form": item.form, "position": item.position}
            for item in account.certificates
        ],
        "limitations": limits(account),
    }  # fmt: skip


def limits(account: Account) -> list[str]:
    """What the outcome rests on, and what it does not cover."""
    verdict, facts = account.judgement.verdict, account.judgement.facts
    return limitations(account.cut, account.view, account.contract, verdict, facts)


def _intent(account: Account) -> dict[str, Any] | None:
    intent = account.view.intent
    if intent is None:
        return None
    return {
        "version": intent.version,
        "execution_id": intent.execution_id,
        "step_id": intent.step_id,
        "subject": intent.subject,
        "purpose": intent.purpose,
        "target": intent.target,
        "parameters": intent.parameters,
        "fingerprint": intent.fingerprint,
        "approver": intent.approver,
        "needs": [{"action_id": need.action_id, "until": need.until} for need in intent.needs],
        "compensates": intent.compensates,
        "contract": {
            "name": account.contract.name,
            "version": account.contract.version,
            "digest": intent.contract,
        },
    }


def _line(entry: Entry) -> dict[str, Any]:
    record = entry.record
    fields = {
        name: getattr(record, name)
        for name in record.__struct_fields__
        if name not in ("action_id", "at", "causes", "parameters")
    }
    return {
        "position": entry.position,
        "at": utc(record.at),
        "stream": record.stream.value,
        "kind": type(record).__name__,
        "digest": entry.digest,
        "causes": list(record.causes),
        "record": {name: _plain(name, value) for name, value in fields.items()},
    }


_INSTANTS = frozenset(
    ("as_of", "checked_at", "deadline", "next_observation", "observed_at", "valid_from",
     "valid_until")
)  # fmt: skip


def _plain(name: str, value: Any) -> Any:
    if name in _INSTANTS:
        return utc(value)
    if name == "needs":
        return [{"action_id": need.action_id, "until": need.until} for need in value]
    return value


def _outcome(account: Account) -> dict[str, Any]:
    verdict = account.judgement.verdict
    argument = verdict.argument
    return {
        "word": verdict.outcome.value,
        "finding": verdict.finding.value,
        "plain": plain_words(verdict.finding, account.decision.name),
        "reason": verdict.reason,
        "missing": list(verdict.missing),
        "attempts": list(verdict.covers),
        "open_attempts": list(verdict.open),
        "absence": None
        if argument is None
        else {
            "kind": argument.kind.value,
            "text": argument.text,
            "evidence": list(argument.evidence),
        },
        "effects": [
            {
                "reference": effect.reference or None,
                "level": LEVELS[effect.level],
                "matches": effect.matches,
                "reversed": effect.reversed,
                "domains": sorted(effect.domains),
            }
            for effect in verdict.effects
        ],
    }


def _decision(account: Account) -> dict[str, Any]:
    row, decided = account.decision, account.decided
    return {
        "word": row.decision.value,
        "row": row.name,
        "reason": row.reason,
        "plain": DECISION_WORDS[row.decision],
        "recorded": decided is not None,
        "decided_at": None if decided is None else utc(decided.at),
        "refused_here": refusal(account) if account.refused_here else None,
        "needs_person": account.needs_person,
        "next_look": utc(account.next_look),
        "facts": written_facts(account.judgement.facts) if decided is None else decided.facts,
    }


STREAMS = (Stream.INTENT, Stream.AUTHORITY, Stream.STATE, Stream.EFFECT, Stream.RECEIPT,
           Stream.RECOVERY)  # fmt: skip
"""The columns of the timeline."""
