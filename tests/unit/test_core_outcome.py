"""The outcome rules of DESIGN 6, one table for each; and properties over any lineage."""

from __future__ import annotations

from typing import Any

import pytest

from ascertain.core.contract import (
    FOR_EVER,
    SECOND,
    Consequence,
    Consistency,
    Contract,
    Evidence,
    InFlight,
    Key,
    Observation,
    Scope,
    Seal,
)
from ascertain.core.effects import claims
from ascertain.core.evidence import Absent, Seen
from ascertain.core.facts import Finding
from ascertain.core.outcome import OUTCOME_OF, Absence, Outcome, Verdict
from tests.lineages import (
    ACTION,
    BANK,
    BLIND,
    EVENTUAL,
    KEYED,
    LAGGING,
    LEDGER,
    T0,
    Lineage,
    but,
)

F = Finding
FENCED = but(seal=Seal(reach="action", store="db"))
BOUNDED = but(readback__consistency=Consistency.BOUNDED, readback__lag=10 * SECOND)
STORED = but(KEYED, replies__refusals_stored=True)
DOUBLING = but(in_flight__doubles=True)
RETRYING = but(in_flight__client_retries=True)
# The key is kept for a minute, and an executor may stand still for ten seconds.
SHORT_KEY = but(
    key=Key(scope=Scope.PROVIDER, retention=60 * SECOND, first_result=True),
    in_flight=InFlight(
        after_release=20 * SECOND, after_close=5 * SECOND, longest_pause=10 * SECOND
    ),
)


def released(contract: Contract = LEDGER, **changes: Any) -> Lineage:
    """Released at 10 s; its connection closes at 12 s. By LEDGER it is quiet from 40 s on."""
    return Lineage(contract).release(at=10, **changes)


def lost(contract: Contract = LEDGER, **changes: Any) -> Lineage:
    return released(contract, **changes).lost(at=12)


# --- absence: the four arguments ---------------------------------------------------------

ABSENT: dict[str, tuple[Lineage, F, Absence]] = {
    "never released": (Lineage(), F.NOT_APPLIED, Absence.NEVER_RELEASED),
    "never released, denied": (
        Lineage(decided="deny"),
        F.NOT_APPLIED,
        Absence.NEVER_RELEASED,
    ),
    "told: not sent": (released().returned("not_sent"), F.NOT_APPLIED, Absence.TOLD),
    "told: rolled back": (released().returned("rolled_back"), F.NOT_APPLIED, Absence.TOLD),
    "told: 429": (released().returned("replied", "http:429"), F.NOT_APPLIED, Absence.TOLD),
    "told: refused connection": (
        released().returned("lost", "no_effect"),
        F.NOT_APPLIED,
        Absence.TOLD,
    ),
    "told, by each of two": (
        released().returned("replied", "http:429").release().returned("not_sent"),
        F.NOT_APPLIED,
        Absence.TOLD,
    ),
    "told, and nothing is doubled before it leaves": (
        released(DOUBLING).returned("not_sent"),
        F.NOT_APPLIED,
        Absence.TOLD,
    ),
    "sealed, never released": (
        Lineage(FENCED).sealed(),
        F.NOT_APPLIED_SEALED,
        Absence.SEALED,
    ),
    "sealed": (
        lost(FENCED, fence="fence-1").sealed(),
        F.NOT_APPLIED_SEALED,
        Absence.SEALED,
    ),
    "sealed, two attempts on one fence": (
        lost(FENCED, fence="fence-1").release(fence="fence-1").sealed(),
        F.NOT_APPLIED_SEALED,
        Absence.SEALED,
    ),
    "told and sealed": (
        released(FENCED, fence="fence-1").returned("not_sent").sealed(),
        F.NOT_APPLIED_SEALED,
        Absence.TOLD,
    ),
    "gone and seen: closed": (lost().absent(at=40), F.NOT_APPLIED, Absence.GONE_AND_SEEN),
    "gone and seen: process gone": (
        released().gone(at=60).absent(at=65),
        F.NOT_APPLIED,
        Absence.GONE_AND_SEEN,
    ),
    "gone and seen: open connection, process gone": (
        released().lost(at=12, closed=False).gone(at=60).absent(at=65),
        F.NOT_APPLIED,
        Absence.GONE_AND_SEEN,
    ),
    "gone and seen: closed late": (
        released().lost(at=38).absent(at=43),
        F.NOT_APPLIED,
        Absence.GONE_AND_SEEN,
    ),
    "gone and seen: bounded, lag passed": (
        lost(BOUNDED).absent(at=50, source=LAGGING),
        F.NOT_APPLIED,
        Absence.GONE_AND_SEEN,
    ),
    "gone and seen: just within retention": (
        lost(but(readback__retention=60 * SECOND)).absent(at=70),
        F.NOT_APPLIED,
        Absence.GONE_AND_SEEN,
    ),
    "gone and seen: network doubles": (
        lost(DOUBLING).absent(at=40),
        F.NOT_APPLIED,
        Absence.GONE_AND_SEEN,
    ),
    "gone and seen: client retries, process gone": (
        released(RETRYING).lost(at=12).gone(at=60).absent(at=65),
        F.NOT_APPLIED,
        Absence.GONE_AND_SEEN,
    ),
    "gone and seen: the vouched time counts": (
        lost().absent(at=90, as_of=T0 + 40 * SECOND),
        F.NOT_APPLIED,
        Absence.GONE_AND_SEEN,
    ),
    "gone and seen: an unreadable look beside it": (
        lost().absent(at=40).unreadable(),
        F.NOT_APPLIED,
        Absence.GONE_AND_SEEN,
    ),
    "gone and seen, then told": (
        lost().absent(at=50).release(at=60).returned("replied", "http:429"),
        F.NOT_APPLIED,
        Absence.GONE_AND_SEEN,
    ),
    "attested after the bound": (
        released().attest("not_applied", at=40),
        F.NOT_APPLIED,
        Absence.GONE_AND_SEEN,
    ),
    "attested, no bound known": (
        lost(BLIND).attest("not_applied", at=13),
        F.NOT_APPLIED,
        Absence.GONE_AND_SEEN,
    ),
    "attested in the moment of the release, no bound known": (
        released(BLIND).attest("not_applied", at=10),
        F.NOT_APPLIED,
        Absence.GONE_AND_SEEN,
    ),
    "attested when quiet": (
        released().lost(at=50).attest("not_applied", at=55),
        F.NOT_APPLIED,
        Absence.GONE_AND_SEEN,
    ),
}


@pytest.mark.parametrize("name", ABSENT)
def test_absence_with_an_argument(name: str) -> None:
    line, finding, kind = ABSENT[name]
    verdict = line.verdict()
    assert verdict.finding is finding
    assert verdict.outcome is Outcome.NOT_APPLIED
    assert verdict.argument is not None
    assert verdict.argument.kind is kind
    assert verdict.argument.text == verdict.reason
    digests = [entry.digest for entry in line.chain.entries]
    assert set(verdict.argument.evidence) <= set(digests)
    assert len(verdict.argument.evidence) == max(1, line.number)
    assert verdict.covers == tuple(range(1, line.number + 1))
    assert verdict.open == ()
    assert verdict.effects == ()


# What must not be an argument. Where the design leaves a choice, the safe reading is written
# beside the case.
NO_ARGUMENT: dict[str, Lineage] = {
    "released and nothing else": released(),
    "the lease expired: a higher epoch is no proof of death": released().leased(epoch=2),
    "lost": lost(),
    "timed out": released().returned("timed_out"),
    # The contract refuses this name in its lists; a record that claims it proves nothing.
    "timed out under a no-effect name": released().returned("timed_out", "no_effect"),
    "a 500": released().returned("replied", ""),
    "an exception that nobody listed": released().returned("raised"),
    "an empty read on its own": released().absent(at=100),
    "an error while reading": lost().unreadable(at=100),
    "an eventual read": lost().absent(at=100, source=EVENTUAL),
    "a bounded read within its lag": lost(BOUNDED).absent(at=49.9, source=LAGGING),
    # The observer says bounded, the contract names no lag.
    "a bounded read without a lag": lost().absent(at=1000, source=LAGGING),
    "a read before the quiet point": lost().absent(at=39.9),
    "a read that vouches for an earlier time": lost().absent(at=90, as_of=T0 + 39 * SECOND),
    "a read that began before the connection closed for good": (
        released().lost(at=38).absent(at=42.9)
    ),
    "a read before the proof of death": released().absent(at=59).gone(at=60),
    "a read within the bound after the death": released().gone(at=60).absent(at=64.9),
    "connection still open": released().lost(at=12, closed=False).absent(at=1000),
    "gone, no in-flight bound": (
        released(but(in_flight=InFlight())).gone(at=60).absent(at=1000)
    ),
    "gone, no bound after release": (
        released(but(in_flight__after_release=None)).gone(at=60).absent(at=1000)
    ),
    "gone, no bound after close": (
        released(but(in_flight__after_close=None)).gone(at=60).absent(at=1000)
    ),
    "another executor gone": released().gone("worker-9", at=60).absent(at=1000),
    "gone before it released": (
        Lineage().gone("worker-1", at=5).release(at=10).absent(at=1000)
    ),
    "a client library may retry": lost(RETRYING).absent(at=1000),
    "a read of deletable state": (
        lost(but(readback__keeps_records=False)).absent(at=1000)
    ),
    "a read by nothing": lost(but(readback__by="none")).absent(at=1000),
    "retention unknown": lost(but(readback__retention=None)).absent(at=1000),
    "a read older than the retention": (
        lost(but(readback__retention=60 * SECOND)).absent(at=70.1)
    ),
    # Retention runs from the first release, whatever the newest one is.
    "retention over for the first attempt": (
        lost(but(readback__retention=60 * SECOND)).release(at=40).lost(at=41).absent(at=75)
    ),
    "a source that vouches for the future": (
        lost().receipt(
            "absence", at=39, as_of=T0 + 999 * SECOND, consistency="linearizable"
        )
    ),
    "an eventual source that vouches for a time": (
        lost(BOUNDED).receipt(
            "absence", at=99, as_of=T0 + 99 * SECOND, consistency="eventual"
        )
    ),
    "a consistency that nobody knows": (
        lost().receipt("absence", at=99, as_of=T0 + 99 * SECOND, consistency="perfect")
    ),
    "a 429 to a request that may have been doubled": (
        released(DOUBLING).returned("replied", "http:429")
    ),
    "a 429 behind a client library that retries": (
        released(RETRYING).returned("replied", "http:429")
    ),
    "a 429 to one of several requests": (
        released().returned("replied", "http:429", single=False)
    ),
    "a seal on another fence": lost(FENCED, fence="fence-1").sealed("fence-2"),
    "a seal, the attempt not conditional": lost(FENCED).sealed(),
    "a seal, one of two not conditional": (
        lost(FENCED, fence="fence-1").release(fence=None).lost().sealed()
    ),
    "a seal, one of two on another fence": (
        lost(FENCED, fence="fence-1").release(fence="fence-2").lost().sealed()
    ),
    # Epoch seals are refused at declaration for now; one that is recorded proves nothing yet.
    "an epoch's seal": lost(FENCED, fence="fence-1").sealed(reach="epoch", epoch=2),
    "an epoch's seal, an attempt of that epoch": (
        lost(FENCED, fence="fence-1", epoch=2).sealed(reach="epoch", epoch=2)
    ),
    "the second attempt open": (
        released().returned("replied", "http:429").release().lost()
    ),
    "the first attempt open": (
        lost().release().returned("replied", "http:429")
    ),
    "a read that covers only the first": (
        lost().absent(at=45).release(at=50).lost(at=51)
    ),
    "a second attempt under a number already used": (
        released().returned("not_sent").release(number=1)
    ),
    "a return whose release is not recorded": (
        released().returned("not_sent").returned("lost", number=2)
    ),
    "never released, and a return of it": Lineage().returned("lost", number=1),
    "told before it was released": Lineage().returned("not_sent", number=1).release(),
    # A refusal that the authority shows means that something was sent.
    "never released, and a refusal is seen": Lineage().refusal(),
    "never released, and a refusal is attested": Lineage().attest("rejected"),
    "a word that nobody knows": released().attest("perhaps", at=99),
    "attested at the same time, but before": (
        Lineage(BLIND).attest("not_applied", at=10).release(at=10).lost(at=10)
    ),
    "attested before it was released": Lineage().attest("not_applied", at=5).release(at=10),
    # A person cannot vouch for what the contract says may still land.
    "attested within the bound": released().attest("not_applied", at=39),
    "attested before it was quiet": released().lost(at=50).attest("not_applied", at=54),
    "attested, then released again": lost().attest("not_applied", at=50).release(at=60),
}  # fmt: skip


@pytest.mark.parametrize("name", NO_ARGUMENT)
def test_absence_without_an_argument_is_unknown(name: str) -> None:
    verdict = NO_ARGUMENT[name].verdict()
    assert verdict.finding is F.UNKNOWN
    assert verdict.outcome is Outcome.UNKNOWN
    assert verdict.argument is None
    assert verdict.reason
    assert verdict.missing


PLACES: dict[str, dict[str, Any]] = {
    "incomplete": {"complete": False},
    "another incarnation": {"incarnation": "journal-2"},
}


@pytest.mark.parametrize("where", PLACES)
@pytest.mark.parametrize(
    "name", ["never released", "told: not sent", "gone and seen: closed", "told: 429"]
)
def test_a_journal_that_may_have_lost_an_attempt_proves_no_absence(name: str, where: str) -> None:
    """Also not for the attempts that it still has: the action could be released again."""
    line, _, _ = ABSENT[name]
    verdict = line.verdict(**PLACES[where])
    assert verdict.finding is F.UNKNOWN
    assert "lost one" in verdict.reason
    assert verdict.missing == ("evidence from the provider", "an operator's attestation")


@pytest.mark.parametrize("where", PLACES)
def test_what_covers_a_lost_attempt_too(where: str) -> None:
    """A seal where the contract makes each request conditional, and a person's word."""
    for name in ("sealed", "sealed, never released", "attested after the bound"):
        line, finding, _ = ABSENT[name]
        assert line.verdict(**PLACES[where]).finding is finding, name
    word = Lineage().attest("not_applied")
    assert word.verdict(**PLACES[where]).finding is F.NOT_APPLIED
    assert word.verdict(**PLACES[where]).argument.kind is Absence.GONE_AND_SEEN
    assert word.verdict().argument.kind is Absence.NEVER_RELEASED
    refused = released().returned("replied", "declined")
    assert refused.verdict(**PLACES[where]).finding is F.REJECTED


@pytest.mark.parametrize("where", PLACES)
def test_a_seal_covers_a_lost_attempt_only_where_the_contract_says_so(where: str) -> None:
    for line in (Lineage().sealed(), lost(fence="fence-1").sealed()):
        assert line.verdict().finding is F.NOT_APPLIED_SEALED
        assert line.verdict(**PLACES[where]).finding is F.UNKNOWN
    line = released(FENCED, fence="fence-1").returned("not_sent").sealed("fence-2")
    assert line.verdict().finding is F.NOT_APPLIED
    assert line.verdict(**PLACES[where]).finding is F.UNKNOWN


def test_one_vouched_attempt_does_not_vouch_for_a_lost_one() -> None:
    line = lost().attest("not_applied", at=50).release(at=60).returned("not_sent")
    assert line.verdict().finding is F.NOT_APPLIED
    assert line.verdict(complete=False).finding is F.UNKNOWN


def test_an_epochs_seal_does_not_seal_what_was_never_released() -> None:
    line = Lineage(FENCED).sealed(reach="epoch")
    assert line.verdict().argument.kind is Absence.NEVER_RELEASED
    assert line.verdict(complete=False).finding is F.UNKNOWN


def test_records_of_two_incarnations_are_not_whole() -> None:
    line = Lineage(incarnation="journal-0")
    line.incarnation = "journal-1"
    line.intent(version=4)
    assert line.verdict().finding is F.UNKNOWN
    line = released(incarnation="journal-0").returned("not_sent")
    assert line.verdict().finding is F.UNKNOWN
    assert Lineage(intent=False, decided=None).verdict().finding is F.UNKNOWN


# --- refusals ----------------------------------------------------------------------------

REJECTED: dict[str, Lineage] = {
    "declined": released().returned("replied", "declined"),
    "declined after a 429": (
        released().returned("replied", "http:429").release().returned("replied", "http:402")
    ),
    "a 429 after the refusal": (
        released().returned("replied", "declined").release().returned("replied", "http:429")
    ),
    "refused, the other gone and seen": (
        lost().absent(at=40).release().returned("replied", "declined")
    ),
    "stored under the key: covers the earlier one": (
        lost(STORED).release().returned("replied", "declined")
    ),
    "stored under the key: covers the later one": (
        released(STORED).returned("replied", "declined").release().lost()
    ),
    "stored under the key: covers doubles": (
        released(but(STORED, in_flight__doubles=True)).returned("replied", "declined")
    ),
    "stored under the key: covers a client's retries": (
        released(but(STORED, in_flight__client_retries=True)).returned("replied", "declined")
    ),
    "seen at the authority": lost().refusal(),
    "seen at the authority, by the attempt's number": (
        lost().release().returned("not_sent").effect("rejected", number=1)
    ),
    "seen at the authority, the other told": (
        released().returned("replied", "http:429").release().lost().refusal()
    ),
    "seen at the authority, the other refused": (
        released().returned("replied", "declined").release().lost().refusal()
    ),
    "seen at the authority, each by its number": (
        lost().release().lost().effect("rejected", number=2).effect("rejected", number=1)
    ),
    "seen at the authority, stored, two attempts": lost(STORED).release().lost().refusal(),
    "seen at the authority, stored, doubled": (
        lost(but(STORED, in_flight__doubles=True)).refusal()
    ),
    "attested": lost().attest("rejected"),
    "attested, two attempts": lost().release().lost().attest("rejected"),
}


@pytest.mark.parametrize("name", REJECTED)
def test_refused_for_good(name: str) -> None:
    verdict = REJECTED[name].verdict()
    assert verdict.finding is F.REJECTED
    assert verdict.outcome is Outcome.VERIFIED_REJECTED
    assert verdict.argument is None
    assert verdict.reason.startswith("the provider refused it for good")


NOT_REJECTED: dict[str, Lineage] = {
    "a later refusal does not erase an earlier attempt": (
        lost().release().returned("replied", "declined")
    ),
    "a refusal, and a later attempt": released().returned("replied", "declined").release().lost(),
    "stored, under another key": (
        lost(STORED).release(key="key-2").returned("replied", "declined")
    ),
    "stored, with another payload": (
        lost(STORED, payload_hash="p2").release().returned("replied", "declined")
    ),
    # The key was forgotten between the two attempts, or may have been.
    "stored, the key forgotten": (
        lost(but(STORED, key__retention=60 * SECOND))
        .release(at=100)
        .returned("replied", "declined")
    ),
    "stored, retention unknown": (
        lost(but(STORED, key__retention=None)).release().returned("replied", "declined")
    ),
    "a refusal of a request that may have been doubled": (
        released(DOUBLING).returned("replied", "declined")
    ),
    "a refusal of a doubled request, kept for ever but not promised": (
        released(but(KEYED, in_flight__doubles=True)).returned("replied", "declined")
    ),
    "a refusal of a doubled request, stored for an unknown time": (
        released(but(STORED, in_flight__doubles=True, key__retention=None)).returned(
            "replied", "declined"
        )
    ),
    "seen at the authority, one of several requests": (
        released().lost(single=False).refusal()
    ),
    "a refusal of one of several requests": (
        released().returned("replied", "declined", single=False)
    ),
    "a refusal behind a client library that retries": (
        released(RETRYING).returned("replied", "declined")
    ),
    "seen at the authority, two attempts": lost().release().lost().refusal(),
    "seen at the authority, the network doubles": lost(DOUBLING).refusal(),
    "seen at the authority, a client retries": lost(RETRYING).refusal(),
    "seen before the attempt": Lineage().refusal().release(),
    "seen before the second attempt": (
        released().returned("not_sent").refusal().release().lost()
    ),
    "seen, of an attempt that is not recorded": lost().effect("rejected", number=2),
    "seen at the authority, two attempts, one key": lost(KEYED).release().lost().refusal(),
    "seen at the authority, stored, the key forgotten": (
        lost(but(STORED, key__retention=None)).release().lost().refusal()
    ),
    "seen, of another attempt": lost().release().lost().effect("rejected", number=2),
    "seen, stored, under two keys": (
        lost(STORED).release(key="key-2").lost().refusal()
    ),
    "attested before the attempt": lost().attest("rejected").release().lost(),
    "timed out under a refusal's name": released().returned("timed_out", "declined"),
    "a refusal whose release is not recorded": (
        released().returned("replied", "declined").returned("lost", number=2)
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", NOT_REJECTED)
def test_not_refused_for_good(name: str) -> None:
    verdict = NOT_REJECTED[name].verdict()
    assert verdict.finding is F.UNKNOWN
    assert verdict.reason
    assert verdict.missing


def test_the_word_of_the_refusal_is_kept() -> None:
    line = released().returned("replied", "declined", detail="insufficient funds")
    assert line.verdict().reason == "the provider refused it for good: insufficient funds"
    line = released().returned("replied", "declined")
    assert line.verdict().reason == "the provider refused it for good: declined"
    assert lost().refusal().verdict().reason == "the provider refused it for good"
    line = released().gone().attest("rejected")
    assert line.verdict().reason == "the provider refused it for good"


def test_a_refusal_kept_under_the_key_while_it_is_remembered() -> None:
    """Both attempts land, by the contract, while the key is known; or not."""
    contract = but(SHORT_KEY, replies__refusals_stored=True)
    line = lost(contract).release(at=20).returned("replied", "declined", at=22)
    assert line.verdict().finding is F.REJECTED
    # Quiet at 69.9 s; the key is known, less the skew, until 65 s after the first release.
    late = lost(contract).release(at=45).returned("replied", "declined", at=46)
    assert late.verdict().finding is F.UNKNOWN
    edge = lost(contract).release(at=44.999999).returned("replied", "declined", at=46)
    assert edge.verdict().finding is F.REJECTED


# --- applied -----------------------------------------------------------------------------

TWO = Evidence(witnesses=2)

APPLIED: dict[str, tuple[Lineage, F]] = {
    "the reply": (released().replied(), F.APPLIED_FINAL),
    "the reply, without a reference": (released().replied(reference=None), F.APPLIED_FINAL),
    "a readback after a lost reply": (lost().seen(), F.APPLIED_FINAL),
    "a readback, executor still there": (released().seen(), F.APPLIED_FINAL),
    "attested": (lost().attest("applied"), F.APPLIED_FINAL),
    "late evidence under a stale epoch": (
        released().leased(epoch=2).lost().replied(), F.APPLIED_FINAL
    ),
    "late evidence after a takeover that saw nothing": (
        lost().leased(epoch=2).absent(at=20).replied(), F.APPLIED_FINAL
    ),
    "an eventual readback proves presence": (lost().seen(source=EVENTUAL), F.APPLIED_FINAL),
    "the effect of an authority that was denied later": (
        released().replied(), F.APPLIED_FINAL
    ),
    "an orphan effect": (Lineage().seen(), F.APPLIED_FINAL),
    "a marker first, the provider's reference later": (
        lost().seen(None).seen("EXT-1"), F.APPLIED_FINAL
    ),
    "a reply without reference, a readback with one": (
        released().replied(reference=None).seen("EXT-1"), F.APPLIED_FINAL
    ),
    "compared by fingerprint": (
        lost().seen(fields=None, fingerprint="f1"), F.APPLIED_FINAL
    ),
    "not compared": (lost().seen(fields=None), F.APPLIED_SHORT),
    "not wholly compared": (lost().seen(fields={"amount": 125_000}), F.APPLIED_SHORT),
    "compared by another look": (
        lost().seen(fields=None).seen(), F.APPLIED_FINAL
    ),
    "only accepted": (released().replied("queued"), F.APPLIED_PROVISIONAL),
    "accepted, then committed": (released().replied("queued").seen(), F.APPLIED_FINAL),
    "committed, settled asked for": (
        released(but(governed="settled")).replied(), F.APPLIED_PROVISIONAL
    ),
    "settled": (
        released(but(governed="settled")).replied().seen(reaches="settled"), F.APPLIED_FINAL
    ),
    "settled where a commit is enough": (lost().seen(reaches="settled"), F.APPLIED_FINAL),
    "accepted is what counts": (
        released(but(governed="accepted")).replied("queued"), F.APPLIED_FINAL
    ),
    "one system is one witness": (
        released(but(evidence=TWO)).replied().seen(), F.APPLIED_SHORT
    ),
    "two domains are two witnesses": (
        released(but(evidence=TWO)).replied().seen(source=BANK), F.APPLIED_FINAL
    ),
    "a person is a witness": (
        released(but(evidence=TWO)).replied().attest("applied"), F.APPLIED_FINAL
    ),
    "two domains, one of them without reference": (
        released(but(evidence=TWO)).replied(reference=None).seen(source=BANK), F.APPLIED_FINAL
    ),
    "high consequence asks for two": (
        released(but(consequence=Consequence.HIGH)).replied(), F.APPLIED_SHORT
    ),
    "a receipt alone is not compared": (
        lost().receipt("readback", claim="committed", reference="EXT-1"), F.APPLIED_SHORT
    ),
    "a 429 first": (
        released().returned("replied", "http:429").release().replied(), F.APPLIED_FINAL
    ),
    "a refusal first": (
        released().returned("replied", "declined").release().replied(), F.APPLIED_FINAL
    ),
    "an empty read that may have missed it": (
        released().replied().absent(at=100, source=EVENTUAL), F.APPLIED_FINAL
    ),
    "an empty read of before": (
        lost().absent(at=14).seen(at=20), F.APPLIED_FINAL
    ),
    "an empty read that vouches for before": (
        released().replied(at=20).absent(at=30, as_of=T0 + 19 * SECOND), F.APPLIED_FINAL
    ),
    "denied by a read and seen again": (
        released().replied(at=12).absent(at=13).seen(at=14), F.APPLIED_FINAL
    ),
    "a person's no, before the attempt": (
        lost(BLIND).attest("not_applied", at=13).release(at=20).replied(), F.APPLIED_FINAL
    ),
    "reversed by the provider": (
        lost().seen(reversed_by="REV-1"), F.APPLIED_REVERSED
    ),
    "reversed, nothing else known of it": (lost().effect("reversed"), F.APPLIED_REVERSED),
    "reversed, then read as gone": (
        lost().seen(reversed_by="REV-1").absent(at=20), F.APPLIED_REVERSED
    ),
    "reversal attested": (released().replied().attest("reversed"), F.APPLIED_REVERSED),
    "reversal of the only one, without reference": (
        released().replied().effect("reversed", reference=None), F.APPLIED_REVERSED
    ),
    "reversed where only accepted": (
        released().replied("queued").effect("reversed"), F.APPLIED_REVERSED
    ),
    "reversal claimed by a receipt": (
        released().replied().receipt("readback", claim="reversed", reference="EXT-1"),
        F.APPLIED_REVERSED,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", APPLIED)
def test_it_happened(name: str) -> None:
    line, finding = APPLIED[name]
    verdict = line.verdict()
    assert verdict.finding is finding
    assert verdict.outcome is Outcome.VERIFIED_APPLIED
    assert len(verdict.effects) == 1
    assert verdict.argument is None
    assert bool(verdict.missing) == (finding in (F.APPLIED_SHORT, F.APPLIED_PROVISIONAL))
    assert verdict.effects[0].reversed == (finding is F.APPLIED_REVERSED)


def test_what_is_short_is_said() -> None:
    line = released(but(evidence=TWO)).replied()
    assert line.verdict().missing == ("2 witnesses from distinct control domains, 1 so far",)
    line = lost().seen(fields=None)
    assert line.verdict().missing == ("a comparison of the effect with the intent",)
    line = lost().release().replied()
    assert line.verdict().missing == ("proof that attempt 1 can land no more",)
    line = released().replied("queued")
    assert line.verdict().missing == ("evidence that it is committed",)
    assert "accepted" in line.verdict().reason


def test_what_undid_it_is_named() -> None:
    line = lost().seen(reversed_by="REV-1")
    assert line.verdict().reversed_by == "REV-1"
    line.effect("reversed", undone_by="REV-2")
    assert line.verdict().reversed_by == "REV-2"
    assert lost().effect("reversed").verdict().reversed_by == ""


def test_an_effect_is_described() -> None:
    (effect,) = released().replied().verdict().effects
    assert effect.reference == "EXT-1"
    assert (effect.level, effect.matches, effect.seen) == (1, True, False)
    assert effect.domains == {"provider"}
    (effect,) = released().replied().seen(source=BANK, reaches="settled").verdict().effects
    assert (effect.level, effect.seen, effect.domains) == (2, True, {"provider", "bank"})
    (effect,) = lost().attest("applied", reference="EXT-9").verdict().effects
    assert effect == ("EXT-9", 2, True, False, {"operator"}, True)
    (effect,) = lost().effect("reversed").verdict().effects
    assert (effect.level, effect.reversed) == (0, True)


def test_a_reply_alone_is_not_seen_and_a_receipt_of_it_neither() -> None:
    (effect,) = lost().receipt("reply", claim="committed").verdict().effects
    assert not effect.seen
    (effect,) = lost().receipt("fence", claim="committed").verdict().effects
    assert effect.seen
    (effect,) = lost().effect(source="reply").verdict().effects
    assert not effect.seen


# --- attempts that can still land beside the effect ---------------------------------------

SETTLED: dict[str, Lineage] = {
    "one request, one effect": lost().seen(),
    "the other was told": lost().release().returned("replied", "http:429").seen(),
    "one key for ever": lost(KEYED).release().replied(),
    "one key, network doubles": released(but(KEYED, in_flight__doubles=True)).replied(),
    "one fence": lost(FENCED, fence="fence-1").release(fence="fence-1").replied(),
    "quiet, and a read after it shows only one": lost().release().replied().seen(at=60),
    "a read at the quiet point itself": (lost().release(at=13).replied(at=14).seen(at=43)),
    "a read before the quiet point and one after it": (
        lost().release().replied().seen(at=20).seen(at=60).seen(at=61, source=EVENTUAL)
    ),
    "bounded, lag passed": (lost(BOUNDED).release().replied().seen(at=60, source=LAGGING)),
    "two replies, the same reference": released().replied().release().replied(),
    "two replies of which one had no reference, one lost request": (
        released().replied(reference=None).release().returned("not_sent")
    ),
    "the key still remembered": lost(SHORT_KEY).release(at=20).replied(at=21),
    "both seen": lost().release().lost().seen("EXT-1").seen("EXT-2"),
}
UNSETTLED: dict[str, tuple[Lineage, tuple[int, ...]]] = {
    "an earlier request is open": (lost().release().replied(), (1,)),
    "both requests are open": (lost().release().lost().seen(), (1, 2)),
    "the network doubles": (released(DOUBLING).replied(), (1,)),
    "one of several requests": (
        released().returned("replied", "returned", single=False).seen(), (1,)
    ),
    "several requests, none of which replied": (
        released().lost(single=False).seen(), (1,)
    ),
    "the client retries": (released(RETRYING).replied(), (1,)),
    "an earlier request is open, the reply has no reference": (
        lost().release().replied(reference=None), (1,)
    ),
    "a key that promises no first result": (
        lost(but(KEYED, key__first_result=False)).release().replied(), (1,)
    ),
    "a reply is no read": (
        lost().release().replied().receipt(
            "reply", at=99, claim="committed", reference="EXT-1", as_of=T0 + 99 * SECOND,
            consistency="linearizable",
        ), (1,)
    ),
    "two keys": (lost(KEYED).release(key="key-2").replied(), (1,)),
    "two payloads": (lost(KEYED, payload_hash="p2").release().replied(), (1,)),
    "two fences": (lost(FENCED, fence="fence-1").release(fence="fence-2").replied(), (1,)),
    "one without a fence": (lost(FENCED).release(fence="fence-1").replied(), (1,)),
    "neither with a fence": (lost(FENCED).release().replied(), (1,)),
    "the key may be forgotten": (lost(SHORT_KEY).release(at=55).replied(at=56), (1,)),
    "a read before the quiet point": (lost().release().replied().seen(at=39), (1,)),
    "a read of deletable state": (
        lost(but(readback__keeps_records=False)).release().replied().seen(at=99), (1,)
    ),
    "an eventual read": (lost().release().replied().seen(at=99, source=EVENTUAL), (1,)),
    "bounded, within its lag": (
        lost(BOUNDED).release().replied().seen(at=45, source=LAGGING), (1,)
    ),
    "no bound": (
        lost(but(in_flight=InFlight())).release().replied().seen(at=99), (1,)
    ),
    "two replies without reference may be two effects": (
        released().replied(reference=None).release().replied(reference=None), (1, 2)
    ),
    "two replies, one of them without reference": (
        released().replied(reference=None).release().replied(), (1,)
    ),
    "a refusal read at the authority is no read of the effect": (
        lost().release().replied().receipt(
            "readback", at=99, claim="rejected", as_of=T0 + 99 * SECOND,
            consistency="linearizable",
        ), (1,)
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SETTLED)
def test_no_further_effect_can_land(name: str) -> None:
    verdict = SETTLED[name].verdict()
    assert verdict.open == ()
    assert verdict.effects


@pytest.mark.parametrize("name", UNSETTLED)
def test_a_further_effect_can_land(name: str) -> None:
    line, still = UNSETTLED[name]
    verdict = line.verdict()
    assert verdict.open == still
    assert verdict.finding is F.APPLIED_SHORT
    assert len(verdict.missing) == len(still)


def test_a_key_is_known_only_as_long_as_it_is_kept() -> None:
    """60 s from the first release, less the skew of 5 s; quiet 20 s after the second."""
    edge = lost(SHORT_KEY).release(at=44.999999).replied(at=45)
    assert edge.verdict().open == ()
    assert lost(SHORT_KEY).release(at=45).replied(at=46).verdict().open == (1,)
    # The first executor never returned: its pause is counted.
    paused = released(but(SHORT_KEY, key__retention=35 * SECOND)).release(at=11).replied(at=12)
    assert paused.verdict().open == (1,)
    paused = released(but(SHORT_KEY, key__retention=36 * SECOND)).release(at=11).replied(at=12)
    assert paused.verdict().open == ()
    unknown = but(SHORT_KEY, in_flight__longest_pause=None)
    assert released(unknown).release(at=11).replied(at=12).verdict().open == (1,)
    unknown = but(SHORT_KEY, in_flight__after_release=None)
    assert released(unknown).release(at=11).replied(at=12).verdict().open == (1,)


def test_a_key_does_not_excuse_two_effects() -> None:
    line = lost(KEYED).release().lost().release().lost().seen("EXT-1").seen("EXT-2")
    assert line.verdict().open == (1, 2, 3)
    fenced = lost(FENCED, fence="fence-1").release(fence="fence-1").release(fence="fence-1")
    assert fenced.seen("EXT-1").seen("EXT-2").verdict().open == (1, 2, 3)


# --- conflict ----------------------------------------------------------------------------

CONFLICT: dict[str, tuple[Lineage, str]] = {
    "two effects": (lost().seen("EXT-1").seen("EXT-2"), "2 effects for one action: EXT-1, EXT-2"),
    "two effects, one without a reference among three": (
        lost().seen("EXT-1").seen("EXT-2").seen(None), "(no reference)"
    ),
    "a receipt for a second effect": (
        released().replied().receipt("readback", claim="committed", reference="EXT-2"),
        "2 effects",
    ),
    "another amount": (
        lost().seen(fields={"payee": "Northwind", "amount": 1}), "differs from the intent"
    ),
    "another amount, attested as right": (
        lost().seen(fields={"amount": 1}).attest("applied", reference="EXT-1"), "differs"
    ),
    "the record names another action": (lost().seen(action_id="pay-2"), "differs"),
    "another fingerprint": (lost().seen(fingerprint="f2"), "differs"),
    "a marker with another amount, joined to the provider's": (
        lost().seen(None, fields={"amount": 1}).seen("EXT-1"), "differs"
    ),
    "acknowledged before a commit that rolled back": (
        released(but(in_flight=InFlight())).replied(at=12).absent(at=13), "stronger one later"
    ),
    "acknowledged and read as absent at the same time": (
        released(but(in_flight=InFlight())).replied(at=12).absent(at=12),
        "stronger one later",
    ),
    "a person says no between two words that say yes": (
        released().replied(at=12).attest("not_applied", at=13).effect(source="reply"),
        "stronger one later",
    ),
    "acknowledged, then gone and seen": (
        released().replied(at=12).absent(at=40), "every attempt is refused"
    ),
    "read back, then read as never there": (
        lost(but(in_flight=InFlight())).seen(at=20).absent(at=30), "stronger one later"
    ),
    "refused, and there": (
        released().returned("replied", "declined").seen(), "every attempt is refused"
    ),
    "not sent, and there": (released().returned("not_sent").seen(), "every attempt is refused"),
    "sealed, and there": (
        lost(FENCED, fence="fence-1").sealed().seen(), "every attempt is refused"
    ),
    "sealed, and reversed": (
        lost(FENCED, fence="fence-1").sealed().effect("reversed"), "every attempt is refused"
    ),
    "the attempt that had none has one": (
        released().returned("not_sent").release().lost().effect(number=1),
        "an effect of attempt 1",
    ),
    "the attempt that was refused has one": (
        released().returned("replied", "declined").release().lost().effect(number=1),
        "an effect of attempt 1",
    ),
    "a person says no after the reply": (
        released().replied(at=12).attest("not_applied", at=13), "stronger one later"
    ),
    "a person says yes and another no": (
        released().attest("applied", at=12).attest("not_applied", at=13), "stronger one later"
    ),
    "the postcondition does not hold": (
        released().replied().checked(False), "postcondition"
    ),
    "the postcondition of what was reversed does not hold": (
        lost().seen(reversed_by="REV-1").checked(False), "postcondition"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CONFLICT)
def test_the_evidence_disagrees(name: str) -> None:
    line, words = CONFLICT[name]
    verdict = line.verdict()
    assert verdict.finding is F.CONFLICT
    assert verdict.outcome is Outcome.CONFLICT
    assert words in verdict.reason
    assert verdict.argument is None


NO_CONFLICT: dict[str, Lineage] = {
    "a postcondition that holds": released().replied().checked(True),
    "a refusal seen of an attempt that was refused": (
        released().returned("replied", "declined").effect("rejected", number=1)
        .release().replied()
    ),
    "a receipt about another action is none of ours": (
        released().replied().receipt(
            "readback", claim="committed", reference="EXT-2", about="pay-2"
        )
    ),
    "a person says no, then it is read": (
        released().replied(at=12).attest("not_applied", at=13).seen(at=14)
    ),
    "a fence shows it after a no": (
        released().replied(at=12).absent(at=13).receipt(
            "fence", claim="committed", reference="EXT-1"
        )
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", NO_CONFLICT)
def test_the_evidence_agrees(name: str) -> None:
    assert NO_CONFLICT[name].verdict().finding is F.APPLIED_FINAL


def test_a_no_is_only_lifted_by_a_later_yes() -> None:
    conflicting = released(but(in_flight=InFlight())).replied(at=12).seen(at=13).absent(at=14)
    assert conflicting.verdict().finding is F.CONFLICT
    conflicting.absent(at=15, source=EVENTUAL).unreadable()
    assert conflicting.verdict().finding is F.CONFLICT
    conflicting.receipt("reply", claim="committed", reference="EXT-1")
    assert conflicting.verdict().finding is F.CONFLICT
    assert conflicting.seen().verdict().finding is F.APPLIED_FINAL


# --- when to look again ------------------------------------------------------------------


def after_release(verdict: Verdict) -> float | None:
    return None if verdict.next_look is None else (verdict.next_look - T0) / SECOND


def test_looks_back_off_up_to_the_longest_delay() -> None:
    plan = Observation(first=2 * SECOND, longest=10 * SECOND, looks=4)
    line = lost(but(observation=plan))
    expected = [(0, 12), (1, 24.5), (2, 38.5), (3, 60.5)]
    for looks, due in expected:
        verdict = line.verdict()
        assert (verdict.looks, after_release(verdict)) == (looks, due)
        line.unreadable(at=[20, 30, 50, 70][looks])
    # The budget is used and it was quiet before the last look.
    assert (line.verdict().looks, line.verdict().next_look) == (4, None)


def test_the_last_look_is_at_the_quiet_point() -> None:
    line = lost(but(BOUNDED, observation__looks=1))
    assert after_release(line.verdict()) == 11
    assert after_release(line.unreadable(at=20).verdict()) == 50
    assert after_release(line.unreadable(at=49).verdict()) == 50
    assert line.unreadable(at=49.5).verdict().next_look is None
    assert line.verdict().quiet_at == T0 + 40 * SECOND


def test_without_a_known_quiet_point_looking_ends_with_the_budget() -> None:
    line = released(but(observation__looks=1)).unreadable(at=20)
    assert line.verdict().next_look is None
    assert line.verdict().quiet_at is None


def test_looks_are_counted_from_the_newest_release_on() -> None:
    line = lost().absent(at=20).unreadable(at=21).seen(at=22).release(at=30)
    assert line.verdict().looks == 0
    assert after_release(line.verdict()) == 31
    line.absent(at=40).receipt("reply").receipt("fence").seen(at=50).unreadable(at=60)
    assert line.verdict().looks == 3
    assert after_release(line.verdict()) == 68.5


def test_many_looks_wait_no_longer_than_the_longest_delay() -> None:
    line = lost(but(observation=Observation(first=1, longest=FOR_EVER, looks=200)))
    for _ in range(70):
        line.unreadable()
    assert line.verdict().next_look == T0 + line.now + SECOND // 2 + FOR_EVER


def test_what_was_never_released_is_looked_at_soon() -> None:
    verdict = Lineage().verdict(complete=False)
    assert (verdict.looks, verdict.next_look, verdict.quiet_at) == (0, SECOND, None)


def test_quiet_is_known_of_all_or_of_none() -> None:
    line = lost().release(at=20).lost(at=58)
    assert line.verdict().quiet_at == T0 + 63 * SECOND
    assert line.release(at=60).verdict().quiet_at is None


# --- words -------------------------------------------------------------------------------


def test_why_it_is_unknown() -> None:
    reasons = {
        "timed_out": "attempt 1: no reply came in time",
        "lost": "attempt 1: the connection was lost after the request had left",
        "raised": "attempt 1: the reply is none that the contract names",
        "replied": "attempt 1: the reply is none that the contract names",
        "odd": "attempt 1: its return is open",
    }
    for transport, reason in reasons.items():
        assert released().returned(transport).verdict().reason == reason
    line = lost().release()
    assert line.verdict().reason == "attempt 2 was released and nothing is known of its return"


def test_what_would_resolve_it() -> None:
    person = "an operator's attestation"
    read = "a readback by action_id that shows the effect"
    assert lost(BLIND).verdict().missing == (person,)
    assert lost().verdict().missing == (read, person)
    assert lost(KEYED).verdict().missing == (read, "a replay under the same key", person)
    seal = "a seal on its fence"
    assert lost(FENCED, fence="fence-1").verdict().missing == (read, seal, person)
    assert lost(FENCED).verdict().missing == (read, person)
    assert lost(FENCED, fence="fence-1").release().verdict().missing == (read, person)
    assert lost(fence="fence-1").verdict().missing == (read, person)


def test_every_finding_has_an_outcome() -> None:
    assert {finding: outcome.value for finding, outcome in OUTCOME_OF.items()} == {
        F.APPLIED_FINAL: "VERIFIED_APPLIED",
        F.APPLIED_SHORT: "VERIFIED_APPLIED",
        F.APPLIED_PROVISIONAL: "VERIFIED_APPLIED",
        F.APPLIED_REVERSED: "VERIFIED_APPLIED",
        F.REJECTED: "VERIFIED_REJECTED",
        F.NOT_APPLIED: "NOT_APPLIED",
        F.NOT_APPLIED_SEALED: "NOT_APPLIED",
        F.CONFLICT: "CONFLICT",
        F.UNKNOWN: "UNKNOWN",
    }
    assert set(OUTCOME_OF) == set(F)


def test_an_action_that_nobody_recorded() -> None:
    line = Lineage(action_id="other")
    line.action_id = ACTION
    verdict = line.verdict()
    assert (verdict.finding, verdict.covers, verdict.effects) == (F.UNKNOWN, (), ())


def test_a_look_may_find_several() -> None:
    line = lost().look(Seen("EXT-1"), Seen("EXT-2"), Absent())
    assert len(line.verdict().effects) == 2


# --- small things that a change would break ----------------------------------------------


def test_a_verdict_starts_with_nothing() -> None:
    verdict = Verdict(F.UNKNOWN, ())
    assert verdict[2:] == ((), None, "", (), (), None, 0, None, "")


def test_a_look_at_what_was_never_released_counts() -> None:
    line = Lineage(intent=False, decided=None).receipt("absence")
    assert line.verdict().looks == 1
    assert Lineage().absent().unreadable().verdict().looks == 2


def test_the_last_look_without_a_lag_is_at_the_quiet_point_itself() -> None:
    line = lost(but(observation__looks=1)).unreadable(at=20)
    assert line.verdict().next_look == T0 + 40 * SECOND


def test_attempts_and_effects_are_named_in_order() -> None:
    line = Lineage().release(number=2).release(number=1).seen("EXT-2").seen("EXT-1")
    assert line.verdict().covers == (1, 2)
    assert line.verdict().reason == "2 effects for one action: EXT-1, EXT-2"


def test_the_first_refusal_is_quoted() -> None:
    line = released().returned("replied", "declined", detail="insufficient funds")
    line.release().returned("replied", "declined", detail="card stolen")
    assert line.verdict().reason == "the provider refused it for good: insufficient funds"


def test_one_sealed_fence_seals_the_action() -> None:
    line = released(FENCED).returned("not_sent").release(fence="fence-1").lost().sealed()
    assert line.verdict().finding is F.NOT_APPLIED_SEALED
    line = released(FENCED).returned("not_sent").sealed()
    assert line.verdict().finding is F.NOT_APPLIED


def test_each_argument_has_its_sentence() -> None:
    person = "a person attests that it did not happen and cannot any more"
    sentences = {
        "never released": "it was never released, and the journal that says so is whole",
        "told: 429": "every attempt was told, or found out here, that it had no effect",
        "sealed": "its fence is sealed, and every attempt was conditional on that fence",
        "sealed, never released": "its fence is sealed, and it was never released",
        "gone and seen: closed": "nothing of it can still land, and a read that could not have "
        "missed it found nothing",
        "attested after the bound": person,
    }
    for name, sentence in sentences.items():
        assert ABSENT[name][0].verdict().reason == sentence
    # A word that came too early, one that counts, and one about something else.
    line = released().attest("not_applied", at=13).attest("not_applied", at=40).attest("perhaps")
    assert line.verdict().reason == person
    line = lost().attest("not_applied", at=13).absent(at=40)
    assert line.verdict().reason == sentences["gone and seen: closed"]
    assert Lineage().attest("not_applied").verdict(complete=False).reason == person


def test_every_record_that_says_yes_is_a_claim() -> None:
    line = lost()
    line.effect(at=20).effect("reversed", at=21).effect("rejected", at=22)
    line.receipt("reply", at=30, claim="committed", observed_at=T0)
    line.receipt("readback", at=31, claim="reversed", about=ACTION)
    line.receipt("readback", at=32, claim="committed", about="pay-2")
    line.receipt("readback", at=33, claim="rejected").receipt("absence", at=34)
    line.attest("applied", at=40).attest("reversed", at=41).attest("rejected", at=42)
    found = [(claim.entry.position, (claim.at - T0) / SECOND) for claim in claims(line.view)]
    assert found == [(5, 20), (6, 21), (8, 0), (9, 31), (13, 40), (14, 41)]


def test_a_person_may_name_the_reversal_of_one_of_two() -> None:
    line = lost().seen("EXT-1").seen("EXT-2").attest("reversed", reference="EXT-2")
    assert [item.reversed for item in line.verdict().effects] == [False, True]
    line = lost().attest("reversed", reference="EXT-1")
    assert line.verdict().effects[0].level == 0


def test_a_receipt_that_names_our_action_is_a_witness_and_another_is_not() -> None:
    line = released(but(evidence=TWO)).replied()
    line.receipt("readback", claim="committed", reference="EXT-1", domain="bank", about="pay-2")
    assert line.verdict().finding is F.APPLIED_SHORT
    line.receipt("readback", claim="committed", reference="EXT-1", domain="bank", about=ACTION)
    assert line.verdict().finding is F.APPLIED_FINAL


def test_a_refusal_that_is_kept_is_quoted_and_not_what_was_told_before() -> None:
    line = released(STORED).returned("replied", "http:429")
    line.release().returned("replied", "declined", detail="card stolen")
    assert line.verdict().reason == "the provider refused it for good: card stolen"


def test_what_was_seen_once_is_seen() -> None:
    (effect,) = lost().effect().effect(source="reply").verdict().effects
    assert effect.seen


def test_a_refusal_that_is_read_lifts_no_denial() -> None:
    line = released(but(in_flight=InFlight())).replied(at=12).absent(at=13)
    line.receipt("readback", claim="rejected").receipt("readback")
    assert line.verdict().finding is F.CONFLICT


def test_one_attempt_of_several_requests_unsettles_all() -> None:
    line = released().lost(single=False).release().lost().seen("EXT-1").seen("EXT-2")
    assert line.verdict().open == (1, 2)
