"""What the flows work with: a journal, a policy, the ports, and the declared actions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import msgspec

from ascertain.authority import Authority
from ascertain.core.codec import digest as digest_of
from ascertain.core.codec import encode, encode_checked
from ascertain.core.contract import SECOND, Contract
from ascertain.core.cut import Cut, View, cut
from ascertain.core.facts import Compensation, Decision, Finding, Needs
from ascertain.core.judgement import ALL_VERBS, Context, Judgement, judge, needs_of
from ascertain.core.records import Entry, Need
from ascertain.declaration import ActionType
from ascertain.errors import RecoveryRefused
from ascertain.journal import ActionRow, Journal, Reader, Transaction
from ascertain.ports import Ports
from ascertain.presented import Keys

LEASE = 60 * SECOND
"""How long a claim or a recovery may drive an action before another may take over."""


class Executor(Protocol):
    """This process as an executor: its name, and the lock that proves when it is gone."""

    name: str

    def enter(self) -> Any:
        """A context for the time of an adapter's call: it watches for programs started."""

    def gone(self, executor: str) -> str | None:
        """Why that executor is proved to be gone, None if it is not."""

    def lock_fd(self) -> int:
        """The descriptor to pass to a program that an adapter starts."""


class Issuer(Protocol):
    """Issues certificates; `certify` has the one that signs with a key file."""

    def issue_steps(self, runtime: Runtime, action_id: str, judgement: Judgement | None) -> Any:
        """A flow that signs and keeps a certificate or report of the action."""


@dataclass(slots=True)
class Runtime:
    """Everything that a flow needs, and nothing that it decides."""

    journal: Journal
    ports: Ports
    policy: Authority
    keys: Keys
    executor: Executor
    types: dict[str, ActionType] = field(default_factory=dict)
    contracts: dict[str, Contract] = field(default_factory=dict)
    kept: set[str] = field(default_factory=set)
    ended: dict[str, Callable[[], bool | None]] = field(default_factory=dict)
    issuer: Issuer | None = None
    lease: int = LEASE

    def keep_contract(self, contract: Contract) -> None:
        """Store the contract by its digest, once for this process."""
        if contract.digest not in self.kept:
            self.journal.keep_contract(contract.digest, encode(contract.plain))
            self.kept.add(contract.digest)
            self.contracts[contract.digest] = contract

    def contract(self, digest: str) -> Contract:
        """The contract that an action was released under. Raises RecoveryRefused."""
        known = self.contracts.get(digest)
        if known is None:
            known = self.contracts[digest] = stored_contract(self.journal, digest)
        return known

    def cut(self, entries: list[Entry], as_of: int) -> Cut:
        """The cut of a lineage as this journal holds it."""
        return cut(entries, as_of=as_of, sources=self.journal.sources)


def stored_contract(journal: Journal, digest: str) -> Contract:
    """A contract as the journal keeps it. Raises RecoveryRefused if it does not."""
    raw = journal.contract(digest)
    if raw is None or digest_of(raw) != digest:
        word = "not in the journal" if raw is None else "altered in the journal"
        raise RecoveryRefused(
            f"contract {digest[:12]} is {word}",
            fix="Run `ascertain journal check`; without its contract an outcome is not judged.",
        )
    return msgspec.json.decode(raw, type=Contract)


def needs_now(reader: Reader, needs: tuple[Need, ...]) -> Needs:
    """What the needed actions come to, as the journal holds them in this transaction."""
    found: list[tuple[Finding, Compensation, str]] = []
    for need in needs:
        row = reader.action(need.action_id)
        if row is None:
            return Needs.OPEN
        finding = Finding(row.finding)
        if finding is Finding.APPLIED_PROVISIONAL and need.until == "committed" and row.level >= 1:
            finding = Finding.APPLIED_FINAL
        found.append((finding, Compensation(row.compensation), need.until))
    return needs_of(found)


_standing: dict[str, Context] = {}


def standing(contract: Contract) -> Context:
    """The context in which a row is projected: all that the contract alone allows.

    The projection says what recovery will have to look at; recovery decides afresh.
    """
    known = _standing.get(contract.digest)
    if known is None:
        known = _standing[contract.digest] = _stands(contract)
    return known


def _stands(contract: Contract) -> Context:
    return Context(
        observable=contract.readback.by != "none",
        sealable=contract.seal.reach == "action",
        authority=True,
        verbs=ALL_VERBS,
        compensator=True,
    )


_UNRESOLVED = (Finding.UNKNOWN, Finding.APPLIED_SHORT, Finding.APPLIED_PROVISIONAL)


def project(row: ActionRow, judgement: Judgement, now: int) -> None:
    """Set what the row shows of a judgement: finding, decision, whether and when it is due."""
    finding, decision = judgement.facts.finding, judgement.row.decision
    row.finding = finding.value
    row.decision = judgement.row.name
    row.level = max((effect.level for effect in judgement.verdict.effects), default=-1)
    row.changed_at = now
    lapsed = decision is Decision.REAUTHORISE and finding in _UNRESOLVED
    row.open = lapsed or decision in (Decision.EXECUTE, Decision.VERIFY, Decision.COMPENSATE)
    row.next_at = judgement.next_observation or now


def compensation_of(reader: Reader, view: View) -> Compensation:
    """What became of the compensations that are linked to an action."""
    if not view.compensations:
        return Compensation.NONE
    findings = []
    for entry in view.compensations:
        row = reader.action(entry.record.compensator)
        findings.append(Finding.UNKNOWN if row is None else Finding(row.finding))
        if row is not None and not row.open and findings[-1] is not Finding.APPLIED_FINAL:
            return Compensation.FAILED  # denied, used up or given up: a person must decide
    if any(item in (Finding.REJECTED, Finding.CONFLICT, Finding.APPLIED_REVERSED,
                    Finding.NOT_APPLIED_SEALED) for item in findings):  # fmt: skip
        return Compensation.FAILED
    if all(item is Finding.APPLIED_FINAL for item in findings):
        return Compensation.APPLIED
    return Compensation.OPEN


def judged(runtime: Runtime, cut: Cut, action_id: str, context: Context) -> Judgement:
    """Judge one action of a cut under the contract that it was recorded with."""
    view = cut.views[action_id]
    intent = view.intent
    if intent is None:
        raise RecoveryRefused(
            f"action {action_id!r} has no intent in the journal",
            fix="Run `ascertain journal check`.",
        )
    return judge(cut, action_id, runtime.contract(intent.contract), context)


def announce(tx: Transaction, row: ActionRow, position: int) -> None:
    """The outbox row of a transition, in the transition's own transaction."""
    body = encode_checked({"action_id": row.action_id, "finding": row.finding, "type": row.type})
    tx.emit(row, position, f"outcome.{row.finding}", body.decode())
