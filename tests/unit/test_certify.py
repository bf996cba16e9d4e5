import asyncio
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import ascertain
from ascertain import Done, NoEffect, Refusal
from ascertain.authority.limits import limits
from ascertain.certify import UNASKED, Issuer
from ascertain.core.codec import FingerprintKey, digest
from ascertain.core.contract import SECOND, Contract
from ascertain.core.facts import Finding
from ascertain.core.judgement import ALL_VERBS, Context
from ascertain.core.records import CertificateIssued, Chain, ReceiptRecorded
from ascertain.errors import (
    InputRefused,
    KeyNotTrusted,
    PositionTaken,
    RecoveryRefused,
    VerificationFailed,
)
from ascertain.journal import StoredCertificate
from ascertain.journal.memory import MemoryJournal
from ascertain.opened import Ascertain
from ascertain.opening import open_journal
from ascertain.ports import Direct, Ports
from ascertain.presented import Keys
from ascertain.runtime import Runtime, judged, standing
from ascertain.signing.manifest import KeyManifest
from ascertain.signing.verify import CERTIFICATES_AND_REPORTS, Verified, verify, verify_file
from tests.lineages import KEPT, PARAMETERS, T0, but
from tests.unit.test_core_certificate import REFERENCE

LEDGER = but(readback=KEPT)
KEY = FingerprintKey("k1", b"0123456789abcdef")
VERBS = tuple(sorted(ALL_VERBS))


class Clock:
    """Half a second passes with each look."""

    def __init__(self) -> None:
        self.at = T0

    def now(self) -> int:
        self.at += SECOND // 2
        return self.at


class Alone:
    """An executor in a test: nobody else is there."""

    name = "worker-1"

    def enter(self) -> Any:
        return threading.Lock()

    def gone(self, executor: str) -> str | None:
        return None

    def lock_fd(self) -> int:
        return -1


class World:
    """A journal in memory, one action type, and a provider that answers as it is told."""

    def __init__(self, folder: Path, contract: Contract = LEDGER, seam: Any = None) -> None:
        self.journal = MemoryJournal()
        self.clock = Clock()
        self.issuer = Issuer(folder)
        self.answer: Any = Done(reference="EXT-1")
        self.found: Any = ascertain.Absent()
        self.runtime = Runtime(
            self.journal,
            Ports(self.journal, clock=self.clock, seam=seam or Direct()),
            limits({"amount": 200_000}),
            Keys(KEY, {"k1": KEY.secret}),
            Alone(),
            issuer=self.issuer,
        )
        self.app = Ascertain(self.runtime)

        @self.app.action("supplier-payment", contract=contract)
        def pay(call: Any, *, payee: str, amount: int) -> Any:
            if isinstance(self.answer, Exception):
                raise self.answer
            return self.answer

        @pay.observer
        def look(question: Any) -> Any:
            return self.found

        self.pay = pay

    def perform(self, action_id: str = "pay-1", **more: Any) -> Any:
        return self.pay.perform(action_id, **(PARAMETERS | more))

    def issue(self, action_id: str = "pay-1", judgement: Any = None, **said: Any) -> Any:
        steps = self.issuer.issue_steps(self.runtime, action_id, judgement, **said)
        return self.runtime.ports.drive(steps)

    def check(self, kept: StoredCertificate, **expected: Any) -> Verified:
        """From the stored bytes and the manifest's bytes alone."""
        manifest = KeyManifest.parse(self.issuer.manifest_path.read_bytes())
        found = verify(
            kept.body,
            manifest,
            **(
                {
                    "expect_action": kept.action_id,
                    "expect_lineage": kept.root_id,
                    "expect_audience": None,
                    "at_us": self.clock.at,
                    "accept": CERTIFICATES_AND_REPORTS,
                }
                | expected
            ),
        )
        assert found.decided_again
        assert found.cautions == ()
        assert kept.digest == digest(kept.body) == found.digest
        if kept.form == "certificate":
            assert REFERENCE.is_valid(found.predicate)
        return found


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path / "keys")


# --- key and manifest -----------------------------------------------------------------------------


def test_the_key_is_made_on_first_use_and_never_again(world: World, tmp_path: Path) -> None:
    assert not world.issuer.key_path.exists()
    assert not world.issuer.created
    world.perform()
    world.issue()
    assert world.issuer.created
    assert os.stat(world.issuer.key_path).st_mode & 0o777 == 0o600
    second = Issuer(tmp_path / "keys")
    manifest = second.ready(world.clock.now())
    assert not second.created
    assert [key.control_domain for key in manifest.keys] == ["ascertain"]


def test_nothing_of_the_private_key_is_in_what_is_kept(world: World) -> None:
    world.perform()
    kept = world.issue()
    secret = world.issuer.key_path.read_bytes().split(b"\n")[1]
    for shown in (kept.body, world.issuer.manifest_path.read_bytes(), repr(world.issuer).encode()):
        assert secret not in shown


def test_a_domain_of_its_own(tmp_path: Path) -> None:
    issuer = Issuer(tmp_path / "deep" / "keys", domain="payments")
    [entry] = issuer.ready(T0).keys
    assert entry.control_domain == "payments"
    assert entry.objection(T0 - 299 * SECOND) is None


def test_errors_of_the_key_are_clear(world: World, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(InputRefused, match="cannot be made"):
        Issuer(tmp_path / "file").ready(T0)
    world.perform()
    world.issue()
    world.issuer.manifest_path.unlink()
    world.perform("pay-2")
    with pytest.raises(InputRefused, match="cannot be read"):
        world.issue("pay-2")
    world.issuer.key_path.write_text("not a key")
    with pytest.raises(InputRefused):
        Issuer(tmp_path / "keys").ready(T0)


def test_what_nobody_could_verify_is_not_kept(world: World) -> None:
    world.perform()
    manifest = world.issuer.ready(T0)
    [key] = manifest.keys
    manifest.retire(key.key_id, at_us=T0).save(world.issuer.manifest_path)
    with pytest.raises(KeyNotTrusted, match="valid until"):
        world.issue()
    assert world.journal.certificates("pay-1") == []


# --- what is issued -------------------------------------------------------------------------------


def test_a_plain_success_is_adopted(world: World) -> None:
    world.perform()
    kept = world.issue()
    said = world.check(kept).predicate
    assert kept.form == "certificate"
    assert said["recovery_decision"] == "adopt"
    assert said["effect"]["external_reference"] == "EXT-1"
    assert said["intent"]["digest"] == world.journal.entries("pay-1")[0].digest
    assert said["versions"]["policy"].startswith("limits/")
    assert said["versions"]["ascertain"]
    assert said["limitations"][-1] == UNASKED


ANSWERS: dict[str, tuple[Any, str, str]] = {
    "applied": (Done(reference="EXT-1"), "certificate", "committed"),
    "refused": (Refusal("declined"), "certificate", "rejected"),
    "no effect": (NoEffect("busy"), "certificate", "not_started"),
    "lost": (ConnectionError("reset"), "certificate", "unknown"),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_every_kind_of_answer_is_certified(world: World, name: str) -> None:
    world.answer, form, status = ANSWERS[name]
    world.perform()
    kept = world.issue()
    assert kept.form == form
    assert world.check(kept).predicate["effect"]["status"] == status


def test_without_having_asked_nothing_counts_as_allowed(world: World) -> None:
    world.answer = NoEffect("busy")
    world.perform()
    said = world.check(world.issue()).predicate
    assert said["recovery_decision"] == "reauthorise"
    assert said["limitations"][-1] == UNASKED
    held = Context(observable=True, authority=True, verbs=ALL_VERBS)
    said = world.check(world.issue(context=held)).predicate
    assert said["recovery_decision"] == "execute"
    assert UNASKED not in said["limitations"]


def test_a_denied_action_gets_a_report(world: World) -> None:
    world.perform(amount=300_000)
    kept = world.issue()
    found = world.check(kept)
    assert kept.form == "report"
    assert found.is_report
    assert "is a deny" in found.predicate["reasons"][0]
    with pytest.raises(VerificationFailed, match="will not do here"):
        world.check(kept, accept=frozenset())


def test_two_effects_get_a_report(world: World) -> None:
    world.answer = ConnectionError("reset")
    world.perform()
    world.found = [
        ascertain.Seen("EXT-1", fields=PARAMETERS),
        ascertain.Seen("EXT-2", fields=PARAMETERS),
    ]
    world.perform()
    found = world.check(world.issue())
    assert found.is_report
    assert [item["reference"] for item in found.predicate["effects"]["items"]] == ["EXT-1", "EXT-2"]


def test_recovery_certifies_its_decision_under_its_authority(world: World) -> None:
    world.answer = NoEffect("busy")
    world.perform()
    recovered = world.app.recover("pay-1", act=False)
    [kept] = world.journal.certificates("pay-1")
    assert recovered.certificate == kept.digest
    said = world.check(kept).predicate
    assert said["recovery_decision"] == recovered.decision == "execute"
    assert said["recovery_authority"]["permits"] == "continue"
    assert said["authority_at_recovery"]["outcome"] == "allow"
    assert UNASKED not in said["limitations"]
    assert world.issue().digest == kept.digest


def test_a_recorded_decision_is_taken_while_no_evidence_came_later(world: World) -> None:
    world.answer = NoEffect("busy")
    world.perform()
    issuer, world.runtime.issuer = world.runtime.issuer, None
    world.app.recover("pay-1", act=False)
    world.runtime.issuer = issuer
    said = world.check(world.issue()).predicate
    assert said["recovery_decision"] == "execute"
    assert said["recovery_authority"]["permits"] == "continue"


def test_a_judgement_of_another_cut_is_not_taken(world: World) -> None:
    world.answer = NoEffect("busy")
    world.perform()
    row = world.journal.action("pay-1")
    assert row is not None
    cut = world.runtime.cut(world.journal.entries("pay-1"), T0)
    early = judged(world.runtime, cut, "pay-1", standing(LEDGER))
    assert early.facts.finding is Finding.NOT_APPLIED
    world.answer = Done(reference="EXT-1")
    world.perform()
    said = world.check(world.issue(judgement=early)).predicate
    assert said["recovery_decision"] == "adopt"
    assert said["outcome"]["finding"] == "applied_final"


# --- kept once ------------------------------------------------------------------------------------


def test_issuing_again_returns_the_same_until_something_is_recorded(world: World) -> None:
    world.answer = ConnectionError("reset")
    world.perform()
    first = world.issue()
    before = world.journal.entries("pay-1")
    assert world.issue() == first
    assert world.journal.entries("pay-1") == before
    assert isinstance(before[-1].record, CertificateIssued)
    assert before[-1].record.digest == first.digest
    assert before[-1].record.cut == before[-2].position
    world.found = ascertain.Seen("EXT-1", fields=PARAMETERS)
    world.perform()
    second = world.issue()
    assert second.digest != first.digest
    assert world.check(second).predicate["previous"] == first.digest
    assert world.journal.certificates("pay-1") == [first, second]


def test_another_audience_gets_a_document_of_its_own(world: World) -> None:
    world.perform()
    first = world.issue(audience="reviewer:finance")
    assert world.check(first, expect_audience="reviewer:finance").audience == "reviewer:finance"
    second = world.issue(audience="reviewer:risk", limitations=["as asked"])
    assert second.digest != first.digest
    said = world.check(second, expect_audience="reviewer:risk").predicate
    assert said["previous"] == first.digest
    assert "as asked" in said["limitations"]


def test_the_row_stays_as_it_was(world: World) -> None:
    world.answer = ConnectionError("reset")
    world.perform()
    before = world.journal.action("pay-1")
    world.issue()
    after = world.journal.action("pay-1")
    assert before is not None
    assert after is not None
    assert (after.finding, after.open, after.next_at, after.decision) == (
        before.finding,
        before.open,
        before.next_at,
        before.decision,
    )


def test_an_unknown_action_is_refused(world: World) -> None:
    with pytest.raises(RecoveryRefused, match="does not know"):
        world.issue("nothing")


class Meddling(Direct):
    """Does something between two steps, as another process might."""

    def __init__(self, times: int) -> None:
        self.times = times
        self.meddle: Any = None
        self.kinds: list[str] = []

    def op(self, kind: str, call: Any) -> Any:
        self.kinds.append(kind)
        result = call()
        if kind == "adapter.sign" and self.times > 0 and self.meddle is not None:
            self.times -= 1
            self.meddle()
        return result


def test_of_two_that_issue_at_once_both_return_the_same(tmp_path: Path) -> None:
    seam = Meddling(1)
    world = World(tmp_path, seam=seam)
    world.perform()
    others: list[Any] = []
    seam.meddle = lambda: others.append(world.issue())
    kept = world.issue()
    assert kept == others[0]
    assert world.journal.certificates("pay-1") == [kept]
    assert "adapter.sign" in seam.kinds
    assert "journal.certify" in seam.kinds


def test_evidence_between_signing_and_keeping_is_not_claimed(tmp_path: Path) -> None:
    seam = Meddling(1)
    world = World(tmp_path, seam=seam)
    world.perform()

    def add(tx: Any) -> None:
        row, known = tx.action("pay-1"), tx.entries("pay-1")
        chain = Chain("pay-1", known[-1].position, known[-1].digest)
        chain.add(
            ReceiptRecorded(
                action_id="pay-1",
                at=world.clock.at,
                evidence="unreadable",
                source="ledger",
                domain="provider",
                observed_at=world.clock.at,
            )
        )
        tx.append(chain, row)

    seam.meddle = lambda: world.journal.transact(add)
    kept = world.issue()
    issued = world.journal.entries("pay-1")[-1].record
    assert issued.cut == world.check(kept).predicate["cut"]["position"]
    assert issued.cut == world.journal.entries("pay-1")[-3].position
    assert world.issue().digest != kept.digest


def test_a_lineage_that_others_certify_for_ever_gives_up(tmp_path: Path) -> None:
    seam = Meddling(1_000)
    world = World(tmp_path, seam=seam)
    world.perform()
    audiences = iter(range(10_000))

    def other() -> None:
        seam.times, left = 0, seam.times
        world.issue(audience=f"reviewer-{next(audiences)}")
        seam.times = left

    seam.meddle = other
    with pytest.raises(PositionTaken, match="again and again"):
        world.issue()


def test_coroutines_issue_too(world: World) -> None:
    world.perform()
    steps = world.issuer.issue_steps(world.runtime, "pay-1")
    kept = asyncio.run(world.runtime.ports.drive_async(steps))
    world.check(kept)


# --- any history ----------------------------------------------------------------------------------

MOVES = ["perform", "recover", "decide", "issue", "attest", "wait"]
FOUND = [
    ascertain.Absent(),
    ascertain.Seen("EXT-1", fields=PARAMETERS),
    ascertain.Seen("EXT-1", fields=PARAMETERS, reversed_by="refund-1"),
    ascertain.Seen("EXT-2", fields=PARAMETERS | {"amount": 1}),
    ascertain.Declined("over limit"),
    ascertain.Unreadable("503"),
]


@given(st.lists(st.tuples(st.sampled_from(MOVES), st.sampled_from(list(ANSWERS)),
                          st.sampled_from(FOUND)), max_size=6))  # fmt: skip
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_happens_every_document_verifies(
    tmp_path_factory: pytest.TempPathFactory, moves: list[tuple[str, str, Any]]
) -> None:
    world = World(tmp_path_factory.mktemp("keys"))
    world.perform()
    for move, answer, found in moves:
        world.answer, world.found = ANSWERS[answer][0], found
        match move:
            case "perform":
                world.perform()
            case "recover":
                world.app.recover("pay-1")
            case "decide":
                world.app.recover("pay-1", act=False)
            case "attest":
                world.app.attest(
                    "pay-1", claim="not_applied", operator="ana", reason="x", authority="y"
                )
            case "wait":
                world.clock.at += 3_600 * SECOND
            case _:
                world.issue()
    world.issue()
    previous = None
    for kept in world.journal.certificates("pay-1"):
        said = world.check(kept).predicate
        assert said.get("previous") == previous
        previous = kept.digest


# --- a real journal -------------------------------------------------------------------------------


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Ascertain]:
    app = open_journal(tmp_path / "payments.db", policy=limits({"amount": 200_000}))
    yield app
    app.close()


def test_from_a_sqlite_journal_to_a_file_that_anybody_can_check(
    opened: Ascertain, tmp_path: Path
) -> None:
    @opened.action("supplier-payment", contract=LEDGER)
    def pay(call: Any, *, payee: str, amount: int) -> Any:
        return Done(reference="EXT-1")

    @pay.observer
    def look(question: Any) -> Any:
        return ascertain.Seen("EXT-1", fields=PARAMETERS)

    pay.perform("pay-1", **PARAMETERS)
    kept = opened.certificate("pay-1")
    assert opened.certificate("pay-1") == kept
    assert opened.journal.certificates("pay-1") == [kept]
    place = tmp_path / "pay-1.rcc.json"
    place.write_bytes(kept.body)
    issuer = opened.runtime.issuer
    assert isinstance(issuer, Issuer)
    found = verify_file(
        place,
        KeyManifest.load(issuer.manifest_path),
        expect_action="pay-1",
        expect_lineage="pay-1",
        expect_audience=None,
        at_us=None,
    )
    assert found.decided_again
    assert jsonschema_rs.is_valid({"const": "adopt"}, found.predicate["recovery_decision"])
