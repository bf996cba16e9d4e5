"""Builds lineages for tests of the core: one method for each kind of record, with usual values.

Times are seconds after a fixed start; each record comes one second after the one before it,
unless ``at`` says otherwise.
"""

from __future__ import annotations

from typing import Any

import msgspec

from ascertain.core.contract import (
    FOR_EVER,
    SECOND,
    Consistency,
    Contract,
    InFlight,
    Key,
    Readback,
    Replies,
    Scope,
    Success,
)
from ascertain.core.cut import Cut, Sources, View, Violation, cut, violations
from ascertain.core.evidence import (
    Absent,
    Declined,
    Reading,
    Reply,
    Seen,
    Source,
    Unreadable,
    add_readings,
    add_reply,
)
from ascertain.core.judgement import ALL_VERBS, Context, Judgement, judge
from ascertain.core.outcome import Verdict, outcome
from ascertain.core.records import (
    AttemptReleased,
    AttemptReturned,
    AuthorityDecided,
    AuthorityRevoked,
    Chain,
    EffectObserved,
    Entry,
    ExecutorGone,
    FenceSealed,
    IntentRecorded,
    LeaseTaken,
    OperatorAttested,
    PostconditionChecked,
    PreconditionObserved,
    ReceiptRecorded,
    RecoveryDecided,
)

T0 = 1_900_000_000 * SECOND
ACTION = "pay-1"
JOURNAL = "journal-1"

KEPT = Readback(
    by="action_id",
    consistency=Consistency.LINEARIZABLE,
    keeps_records=True,
    retention=FOR_EVER,
)
BOUND = InFlight(after_release=30 * SECOND, after_close=5 * SECOND)
KEY = Key(scope=Scope.PROVIDER, carried_in="header", retention=FOR_EVER, first_result=True)

LEDGER = Contract(
    name="ledger",
    surface=(),
    replies=Replies(
        success=(Success(reply="returned"), Success(reply="queued", reaches="accepted")),
        refusals=("declined", "http:402"),
        no_effect=("no_effect", "http:429"),
    ),
    readback=KEPT,
    in_flight=BOUND,
)
"""Linearizable readback that keeps its records, known in-flight bound, no key, no seal."""


def but(contract: Contract = LEDGER, **changes: Any) -> Contract:
    """The contract with some parts replaced. ``key__retention=1`` reaches into a part."""
    parts: dict[str, dict[str, Any]] = {}
    whole: dict[str, Any] = {}
    for name, value in changes.items():
        part, _, field = name.partition("__")
        if field:
            parts.setdefault(part, {})[field] = value
        else:
            whole[name] = value
    for part, fields in parts.items():
        whole[part] = msgspec.structs.replace(getattr(contract, part), **fields)
    return msgspec.structs.replace(contract, **whole)


KEYED = but(key=KEY)
BLIND = but(readback=Readback(), in_flight=InFlight())
"""No readback, no key, no bound."""

READ = Source("ledger-index", "provider", Consistency.LINEARIZABLE)
LAGGING = Source("replica", "provider", Consistency.BOUNDED)
EVENTUAL = Source("search", "provider", Consistency.EVENTUAL)
BANK = Source("statement", "bank", Consistency.LINEARIZABLE)
PARAMETERS = {"payee": "Northwind", "amount": 125_000}


class Lineage:
    """One action's records. Methods that add return the entry, or self for chained building."""

    def __init__(
        self,
        contract: Contract = LEDGER,
        *,
        action_id: str = ACTION,
        decided: str | None = "allow",
        intent: bool = True,
        incarnation: str = JOURNAL,
    ) -> None:
        self.contract = contract
        self.action_id = action_id
        self.incarnation = incarnation
        self.chain = Chain("root-1")
        self.now = 0
        self.number = 0
        self.wanted: Entry | None = self.intent() if intent else None
        self.allowed: Entry | None = self.decided(decided) if decided else None
        self.last: Entry | None = None

    # --- adding records

    def add(self, kind: type, at: float | None = None, **fields: Any) -> Entry:
        """Add one record of ``kind`` at ``at`` seconds."""
        self.now = int(at * SECOND) if at is not None else self.now + SECOND
        fields.setdefault("action_id", self.action_id)
        return self.chain.add(kind(at=T0 + self.now, **fields))

    def intent(self, **changes: Any) -> Entry:
        fields: dict[str, Any] = {
            "action_type": "supplier-payment",
            "execution_id": "run-190",
            "step_id": "pay",
            "version": 3,
            "subject": "acct-7",
            "purpose": "supplier-payment",
            "target": "ledger",
            "parameters": PARAMETERS,
            "fingerprint": "f1",
            "payload_hash": "p1",
            "key_id": "k1",
            "contract": self.contract.digest,
            "incarnation": self.incarnation,
        }
        self.wanted = self.add(IntentRecorded, **(fields | changes))
        return self.wanted

    def decided(self, outcome: str = "allow", **changes: Any) -> Entry:
        wanted = self.wanted
        fields: dict[str, Any] = {
            "decision_id": "d1",
            "outcome": outcome,
            "actor": "worker",
            "subject": "acct-7",
            "purpose": "supplier-payment",
            "action_type": "supplier-payment",
            "policy_version": "1",
            "checked_at": T0,
            "valid_from": T0,
            "valid_until": T0 + 3600 * SECOND,
            "intent_digest": wanted.digest if wanted is not None else "0" * 64,
            "limits": {"amount": 200_000},
        }
        self.allowed = self.add(AuthorityDecided, **(fields | changes))
        return self.allowed

    def revoke(self, decision_id: str = "d1") -> Entry:
        return self.add(AuthorityRevoked, decision_id=decision_id, by="risk", reason="stop")

    def precondition(self, holds: str = "hold", predicate: str = "account-open") -> Entry:
        return self.add(
            PreconditionObserved,
            resource="acct-7",
            predicate=predicate,
            version="41",
            source="ledger",
            observed_at=T0 + self.now,
            holds=holds,
        )

    def release(self, at: float | None = None, *, causes: Any = None, **changes: Any) -> Lineage:
        """Release the next attempt (or ``number=``), standing on intent and decision."""
        self.number = changes.pop("number", self.number + 1)
        known = tuple(entry.digest for entry in (self.wanted, self.allowed) if entry is not None)
        fields: dict[str, Any] = {
            "number": self.number,
            "epoch": 1,
            "executor": f"worker-{self.number}",
            "key": "key-1",
            "payload_hash": "p1",
            "decision_id": "d1",
            "incarnation": self.incarnation,
            "causes": known if causes is None else causes,
        }
        self.last = self.add(AttemptReleased, at, **(fields | changes))
        return self

    def returned(
        self, transport: str, reply: str = "", at: float | None = None, **changes: Any
    ) -> Lineage:
        """The bare return of an attempt, without what its reply proves."""
        fields: dict[str, Any] = {"number": self.number, "epoch": 1}
        self.add(AttemptReturned, at, transport=transport, reply=reply, **(fields | changes))
        return self

    def lost(self, at: float | None = None, **changes: Any) -> Lineage:
        return self.returned("lost", at=at, **changes)

    def replied(
        self, named: str = "returned", reference: str | None = "EXT-1", at: float | None = None
    ) -> Lineage:
        """The reply to the newest attempt, with the effect and receipt that it proves."""
        self.now = int(at * SECOND) if at is not None else self.now + SECOND
        assert self.last is not None
        assert self.wanted is not None
        add_reply(
            self.chain,
            release=self.last,
            intent=self.wanted,
            contract=self.contract,
            reply=Reply(transport="replied", named=named, reference=reference),
            at=T0 + self.now,
        )
        return self

    def look(self, *found: Reading, at: float | None = None, source: Source = READ) -> Lineage:
        """One look at authoritative state, half a second long."""
        self.now = int(at * SECOND) if at is not None else self.now + SECOND
        assert self.wanted is not None
        add_readings(
            self.chain,
            intent=self.wanted,
            contract=self.contract,
            fields=("payee", "amount"),
            source=source,
            readings=found,
            started=T0 + self.now,
            at=T0 + self.now + SECOND // 2,
        )
        return self

    def seen(
        self,
        reference: str | None = "EXT-1",
        at: float | None = None,
        source: Source = READ,
        **changes: Any,
    ) -> Lineage:
        changes.setdefault("fields", PARAMETERS)
        return self.look(Seen(reference, **changes), at=at, source=source)

    def absent(
        self, at: float | None = None, source: Source = READ, as_of: int | None = None
    ) -> Lineage:
        return self.look(Absent(as_of), at=at, source=source)

    def unreadable(self, at: float | None = None) -> Lineage:
        return self.look(Unreadable("503"), at=at)

    def refusal(self, at: float | None = None) -> Lineage:
        return self.look(Declined("over limit"), at=at)

    def effect(self, state: str = "committed", at: float | None = None, **changes: Any) -> Lineage:
        fields: dict[str, Any] = {"source": "ledger-index", "reference": "EXT-1", "matches": True}
        self.add(EffectObserved, at, state=state, **(fields | changes))
        return self

    def receipt(self, evidence: str, at: float | None = None, **changes: Any) -> Lineage:
        fields: dict[str, Any] = {"source": "x", "domain": "provider"}
        now = int(at * SECOND) if at is not None else self.now + SECOND
        fields["observed_at"] = T0 + now
        self.add(ReceiptRecorded, at, evidence=evidence, **(fields | changes))
        return self

    def checked(self, holds: bool | None) -> Lineage:
        self.add(PostconditionChecked, predicate="effect-attributed", version="1", holds=holds)
        return self

    def attest(self, claim: str, at: float | None = None, reference: str | None = None) -> Lineage:
        self.add(
            OperatorAttested,
            at,
            operator="ana",
            claim=claim,
            reason="looked in the console",
            authority="d9",
            reference=reference,
        )
        return self

    def gone(self, executor: str | None = None, at: float | None = None) -> Lineage:
        name = executor or f"worker-{self.number}"
        self.add(ExecutorGone, at, executor=name, proof="lock")
        return self

    def sealed(
        self, fence: str = "fence-1", reach: str = "action", epoch: int = 2, at: float | None = None
    ) -> Lineage:
        self.add(FenceSealed, at, fence=fence, reach=reach, epoch=epoch)
        return self

    def leased(self, epoch: int = 2, holder: str = "worker-b") -> Lineage:
        self.add(LeaseTaken, epoch=epoch, holder=holder)
        return self

    def recovered(self, epoch: int = 1) -> Lineage:
        self.add(
            RecoveryDecided,
            epoch=epoch,
            cut=1,
            outcome="UNKNOWN",
            decision="verify",
            row="unknown/verify",
            facts={},
        )
        return self

    # --- asking

    @property
    def view(self) -> View:
        return self.cut().views.get(self.action_id) or View(self.action_id)

    def cut(
        self, *, as_of: float | None = None, complete: bool = True, incarnation: str = JOURNAL
    ) -> Cut:
        now = int(as_of * SECOND) if as_of is not None else self.now + SECOND
        sources = Sources(complete, incarnation)
        return cut(self.chain.entries, as_of=T0 + now, sources=sources)

    def verdict(self, contract: Contract | None = None, **where: Any) -> Verdict:
        return outcome(self.cut(**where), self.action_id, contract or self.contract)

    def violations(self, contract: Contract | None = None) -> list[Violation]:
        return violations(self.view, contract or self.contract)

    def rules(self, contract: Contract | None = None) -> list[str]:
        return sorted(item.rule for item in self.violations(contract))

    def judge(
        self, *, as_of: float | None = None, complete: bool = True, **context: Any
    ) -> Judgement:
        """Judged with everything held and an observer to ask, unless ``context`` says else."""
        held: dict[str, Any] = {"observable": True, "authority": True, "verbs": ALL_VERBS}
        where = self.cut(as_of=as_of, complete=complete)
        return judge(where, self.action_id, self.contract, Context(**(held | context)))
