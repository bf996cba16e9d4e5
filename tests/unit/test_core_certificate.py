import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from ascertain.core.certificate import BUDGET, SKEW, Certified, certify
from ascertain.core.codec import digest, encode
from ascertain.core.contract import (
    DAY,
    FOR_EVER,
    HOUR,
    SECOND,
    Contract,
    InFlight,
    Key,
    Readback,
    Reversibility,
    Scope,
    Seal,
    Surface,
    validate,
)
from ascertain.core.decision import ROWS, decide
from ascertain.core.facts import DOMAINS, Compensation, Decision, Effects, Facts, Finding, Needs
from ascertain.core.judgement import ALL_VERBS, Context, Judgement, judge
from ascertain.core.limitations import span
from ascertain.core.records import (
    CapabilityGranted,
    CertificateIssued,
    CompensationLinked,
    Entry,
)
from ascertain.core.wording import instant, shorten
from ascertain.core.written import STATUS_OF, read_facts, table_digest, written_facts
from ascertain.errors import PredicateRefused
from ascertain.signing.consistency import consistency
from ascertain.signing.dsse import seal
from ascertain.signing.keys import SigningKey
from ascertain.signing.manifest import KeyManifest, Role, TrustedKey
from ascertain.signing.schema import problems
from ascertain.signing.statement import CERTIFICATE_TYPE, REPORT_TYPE, statement
from ascertain.signing.times import read_utc, write_utc
from ascertain.signing.verify import CERTIFICATES_AND_REPORTS, Verified, verify
from tests.lineages import (
    BANK,
    BLIND,
    EVENTUAL,
    KEYED,
    LAGGING,
    LEDGER,
    PARAMETERS,
    READ,
    T0,
    Lineage,
    but,
)

SCHEMA = json.loads((Path(__file__).parents[1] / "vectors" / "rcc.schema.json").read_text("utf-8"))
REFERENCE = jsonschema_rs.validator_for(SCHEMA, validate_formats=True)
ISSUER = SigningKey.from_seed(b"issuer" + bytes(26))
MANIFEST = KeyManifest((TrustedKey(Role.CERTIFICATE, "payments", ISSUER.public, 0),))
PAYLOAD = "c0" * 32
ISSUED = T0 + DAY

STRICT = but(evidence__witnesses=2)
SETTLED = but(governed="settled")
ASKING = but(preconditions=("account-open",))
FENCED = but(seal=Seal(reach="action", store="ledger"))
REPLAY = but(KEYED, readback=Readback(), in_flight=InFlight())
TIMED = but(
    readback=Readback(),
    key=Key(scope=Scope.PROVIDER, retention=10 * DAY, first_result=True),
    in_flight=InFlight(after_release=HOUR, after_close=HOUR, longest_pause=2 * HOUR),
)
CONVERGENT = but(BLIND, convergent=True)
CONTRACTS = [LEDGER, KEYED, BLIND, STRICT, SETTLED, ASKING, FENCED, REPLAY, TIMED, CONVERGENT]


class Told(Lineage):
    """A lineage whose payload hash has the form that the certificate's schema asks for."""

    def intent(self, **changes: Any) -> Entry:
        return super().intent(**({"payload_hash": PAYLOAD, "fingerprint": "k1:ab"} | changes))

    def release(self, at: float | None = None, *, causes: Any = None, **changes: Any) -> Lineage:
        return super().release(at, causes=causes, **({"payload_hash": PAYLOAD} | changes))

    def add(self, kind: type, at: float | None = None, **fields: Any) -> Entry:
        known = {"IntentRecorded": {"contract": self.contract.digest}}
        return super().add(kind, at, **(fields | known.get(kind.__name__, {})))


def certified(
    lineage: Lineage, judgement: Judgement | None = None, *, complete: bool = True, **said: Any
) -> Certified:
    where = lineage.cut(complete=complete)
    found = judgement or lineage.judge(complete=complete)
    given: dict[str, Any] = {
        "issued_at": ISSUED,
        "versions": {"ascertain": "0.1.0", "policy": "limits-4"},
        "previous": None,
    }
    return certify(where, lineage.action_id, lineage.contract, found, **(given | said))


def signed(result: Certified, action_id: str = "pay-1") -> bytes:
    kind = CERTIFICATE_TYPE if result.form == "certificate" else REPORT_TYPE
    said = statement(action_id, "3b" * 32, result.predicate, predicate_type=kind)
    assert len(said) < 64_000
    return seal(said, ISSUER)


def checked(raw: bytes, at: int = ISSUED) -> Verified:
    return verify(
        raw,
        MANIFEST,
        expect_action="pay-1",
        expect_lineage="root-1",
        expect_audience=None,
        at_us=at,
        accept=CERTIFICATES_AND_REPORTS,
    )


def assert_sound(result: Certified, at: int = ISSUED) -> Verified:
    """Valid and consistent where it is a certificate, and verified from its bytes alone."""
    if result.form == "certificate":
        assert REFERENCE.is_valid(result.predicate)
        assert problems(result.predicate) == []
        assert consistency(result.predicate) == []
        assert result.reasons == ()
    else:
        assert result.predicate["reasons"]
        assert "effect" not in result.predicate
    found = checked(signed(result), at)
    assert found.decided_again
    assert found.cautions == ()
    assert found.is_report == (result.form == "report")
    return found


# --- every finding and decision -------------------------------------------------------------------

LATER = 7200.0


def told(contract: Contract = LEDGER, **members: Any) -> Told:
    return Told(validate(contract), **members)


CASES: dict[str, tuple[Callable[[], Lineage], dict[str, Any]]] = {
    "applied/final": (lambda: told().release().replied(), {}),
    "applied/short": (lambda: told(STRICT).release().replied(), {}),
    "applied/short/unobserved": (
        lambda: told(STRICT).release().replied(),
        {"verbs": frozenset()},
    ),
    "applied/short/exhausted": (lambda: told(STRICT).release().replied(), {"observable": False}),
    "applied/provisional": (lambda: told(SETTLED).release().replied(), {}),
    "applied/reversed": (
        lambda: told().release().replied().seen(reversed_by="refund-1"),
        {},
    ),
    "rejected": (lambda: told().release().returned("replied", "declined"), {}),
    "not-applied/execute": (lambda: told().release().returned("replied", "no_effect"), {}),
    "not-applied/authority-lapsed": (lambda: told(), {"authority": False}),
    "not-applied/continue-lapsed": (lambda: told(), {"verbs": frozenset({"observe"})}),
    "not-applied/needs-open": (lambda: told(), {"needs": Needs.OPEN}),
    "not-applied/needs-broken": (lambda: told(), {"needs": Needs.BROKEN}),
    "not-applied/breaker-open": (lambda: told(), {"breaker_until": T0 + HOUR}),
    "not-applied/sealed": (
        lambda: told(FENCED).release(fence="fence-1").lost().sealed(),
        {},
    ),
    "unknown/verify": (lambda: told().release().lost(), {}),
    "unknown/verify/unobserved": (lambda: told().release().lost(), {"verbs": frozenset()}),
    "unknown/authority-lapsed": (
        lambda: told(BLIND).release().lost(),
        {"observable": False, "authority": False},
    ),
    "unknown/continue-lapsed": (
        lambda: told(BLIND).release().lost(),
        {"observable": False, "verbs": frozenset({"observe"})},
    ),
    "unknown/no-safe-replay": (lambda: told(BLIND).release().lost(), {"observable": False}),
    "unknown/replay": (lambda: told(REPLAY).release().lost(), {"observable": False}),
    "unknown/needs": (
        lambda: told(REPLAY).release().lost(),
        {"observable": False, "needs": Needs.OPEN},
    ),
    "compensation-open/applied": (
        lambda: told().release().replied(),
        {"compensation": Compensation.OPEN},
    ),
    "compensation-failed/applied": (
        lambda: told().release().replied(),
        {"compensation": Compensation.FAILED},
    ),
}


@pytest.mark.parametrize("row", CASES)
def test_every_finding_and_decision_that_can_be_certified(row: str) -> None:
    make, context = CASES[row]
    lineage = make()
    judgement = lineage.judge(**context)
    assert judgement.row.name == row
    result = certified(lineage, judgement)
    assert result.form == "certificate"
    found = assert_sound(result)
    assert found.predicate["recovery_decision"] == ROWS[row].decision.value
    assert found.predicate["effect"]["status"] == STATUS_OF[judgement.facts.finding]
    assert found.predicate["outcome"]["word"] == judgement.verdict.outcome.value


def test_the_cases_reach_every_finding_and_every_certifiable_decision() -> None:
    reached = [make().judge(**context) for make, context in CASES.values()]
    assert {item.facts.finding for item in reached} == set(Finding) - {Finding.CONFLICT}
    assert {item.row.decision for item in reached} == set(Decision) - {Decision.COMPENSATE}


def test_a_refusal_is_certified_as_rejected_and_a_conflict_has_no_word() -> None:
    assert set(STATUS_OF) == set(Finding) - {Finding.CONFLICT}


REPORTS: dict[str, tuple[Callable[[], Lineage], str]] = {
    "two effects": (lambda: told().release().replied().seen("EXT-2"), "2 effects"),
    "another payload": (
        lambda: told().release().lost().seen(fields=PARAMETERS | {"amount": 1}),
        "differs from the intent",
    ),
    "an orphan effect": (lambda: told().effect(), "no attempt of it is recorded"),
    "an attested orphan": (
        lambda: told().attest("applied", reference="EXT-1"),
        "no attempt of it is recorded",
    ),
    "denied": (lambda: told(decided="deny"), "is a deny"),
    "nobody decided": (lambda: told(decided=None), "no decision"),
    "released under a deny": (lambda: told(decided="deny").release(), "is a deny"),
    "no intent": (lambda: told(intent=False), "no intent"),
    "no precondition": (lambda: told(ASKING).release().replied(), "not closed: 1 violations"),
    "never released, no precondition": (lambda: told(ASKING), "asks for the precondition"),
    "nothing": (lambda: told(intent=False, decided=None), "no intent"),
}


@pytest.mark.parametrize("name", REPORTS)
def test_what_the_schema_cannot_say_is_a_report(name: str) -> None:
    make, reason = REPORTS[name]
    result = certified(make())
    assert result.form == "report"
    assert any(reason in text for text in result.reasons), result.reasons
    if name != "nothing":
        assert_sound(result)


def test_a_report_names_the_rule_and_the_records() -> None:
    lineage = told().effect()
    effect = lineage.chain.entries[-1].digest
    said = assert_sound(certified(lineage)).predicate
    [violation] = said["violations"]["items"]
    assert violation["rule"] == "orphan-effect"
    assert violation["records"] == [effect]
    assert said["violations"]["left_out"] == 0
    assert said["effects"]["items"][0]["reference"] == "EXT-1"
    assert said["authority_decisions"]["items"][0]["outcome"] == "allow"


def test_compensating_surplus_effects_is_reported_with_its_decision() -> None:
    lineage = told().release().replied().seen("EXT-2")
    judgement = lineage.judge(compensator=True)
    assert judgement.row.decision is Decision.COMPENSATE
    found = assert_sound(certified(lineage, judgement))
    assert found.predicate["recovery_decision"] == "compensate"


def test_a_broken_chain_is_reported() -> None:
    lineage = told().release().replied()
    judgement = lineage.judge()
    where = lineage.cut()
    where = where._replace(entries=where.entries[:2] + where.entries[3:])
    result = certify(
        where, "pay-1", LEDGER, judgement, issued_at=ISSUED, versions={}, previous=None
    )
    assert result.form == "report"
    assert result.predicate["violations"]["items"][0]["rule"] == "chain"


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"row": ROWS["unknown/verify"]}, "contradict"),
        ({"facts": Facts(finding=Finding.UNKNOWN)}, "contradict"),
        (
            {
                "facts": Facts(
                    finding=Finding.APPLIED_FINAL,
                    effects=Effects.ONE,
                    compensation=Compensation.APPLIED,
                ),
                "row": ROWS["contradiction/compensated-standing"],
            },
            "contradict",
        ),
    ],
)
def test_conclusions_that_do_not_belong_together_are_reported(
    changes: dict[str, Any], reason: str
) -> None:
    lineage = told().release().replied()
    result = certified(lineage, lineage.judge()._replace(**changes))
    assert result.form == "report"
    assert any(reason in text for text in result.reasons)


def test_what_is_dated_later_than_the_document_is_reported() -> None:
    lineage = told().release().replied()
    last = lineage.chain.entries[-1].record.observed_at
    assert certified(lineage, issued_at=last - SKEW).form == "certificate"
    result = certified(lineage, issued_at=last - SKEW - 1)
    assert result.reasons == ("the evidence is dated later than this document",)


# --- what is said ---------------------------------------------------------------------------------


def test_a_plain_success_says_what_it_stands_on() -> None:
    lineage = told(KEYED).release().replied()
    entries = lineage.chain.entries
    said = assert_sound(certified(lineage, previous="9f" * 32, audience=None)).predicate
    assert said["recovery_decision"] == "adopt"
    assert said["effect"] == {
        "status": "committed",
        "state": "committed",
        "external_reference": "EXT-1",
        "effect_receipt_digest": entries[-1].digest,
        "verified_at": instant(entries[-1].record.observed_at),
    }
    assert said["authority_at_effect"]["decision_id"] == "d1"
    assert said["authority_at_effect"]["attempt"] == 1
    assert said["action"] == {
        "action_id": "pay-1",
        "type": "supplier-payment",
        "payload_hash": PAYLOAD,
        "idempotency_scope": "provider",
    }
    assert said["precondition"] == {
        "resource": "ledger",
        "version": "unversioned",
        "observed_at": instant(entries[0].record.at),
    }
    assert said["cut"]["position"] == len(entries)
    assert said["cut"]["digest"] == entries[-1].digest
    assert set(said["cut"]["streams"]) == {"intent", "authority", "state", "effect", "receipt"}
    assert said["previous"] == "9f" * 32
    assert said["contract"]["digest"] == KEYED.digest
    assert said["fingerprint"] == {"value": "k1:ab", "key_id": "k1"}
    assert said["versions"] == {"ascertain": "0.1.0", "policy": "limits-4"}
    assert said["decision"]["reason"] == ROWS["applied/final"].reason
    [attempt] = said["attempts"]["items"]
    assert (attempt["number"], attempt["transport"], attempt["reply"]) == (1, "replied", "returned")
    assert {item["kind"] for item in said["evidence"]["items"]} == {"reply", "effect"}


def test_an_effect_without_a_reference_carries_the_marker() -> None:
    lineage = told()
    lineage.release().replied(reference=None)
    said = assert_sound(certified(lineage)).predicate
    assert said["effect"]["external_reference"] == "action:pay-1"
    assert any("marker" in text for text in said["limitations"])


def test_a_readback_is_named_beside_the_receipt() -> None:
    lineage = told().release().replied().seen()
    receipts = [e for e in lineage.chain.entries if type(e.record).__name__ == "ReceiptRecorded"]
    effect = assert_sound(certified(lineage)).predicate["effect"]
    assert effect["effect_receipt_digest"] == receipts[0].digest
    assert effect["readback_digest"] == receipts[1].digest
    assert effect["verified_at"] == instant(receipts[1].record.observed_at)


def test_the_argument_for_absence_stands_in_the_certificate() -> None:
    lineage = told().release().lost(at=5).absent(at=LATER)
    judgement = lineage.judge()
    assert judgement.facts.finding is Finding.NOT_APPLIED
    said = assert_sound(certified(lineage, judgement)).predicate
    read = lineage.chain.entries[-1]
    assert said["absence"]["kind"] == "gone and seen"
    assert said["absence"]["evidence"]["items"] == [read.digest]
    assert said["effect"]["readback_digest"] == read.digest
    assert any("in 30 s after" in t or "30 s after its release" in t for t in said["limitations"])


def test_the_authority_is_that_of_the_effective_attempt() -> None:
    lineage = told()
    lineage.release().returned("replied", "no_effect")
    lineage.decided(decision_id="d2")
    lineage.release(decision_id="d2").replied()
    said = assert_sound(certified(lineage)).predicate
    assert said["authority_at_effect"]["decision_id"] == "d2"
    assert said["authority_at_effect"]["attempt"] == 2
    lineage.decided(decision_id="d3", outcome="deny")
    said = assert_sound(certified(lineage)).predicate
    assert said["authority_at_effect"]["decision_id"] == "d2"
    assert said["authority_at_recovery"]["outcome"] == "deny"


def test_preconditions_of_the_attempt_come_first_and_later_looks_beside_them() -> None:
    lineage = told(ASKING)
    other = lineage.precondition(predicate="payee-known")
    asked = lineage.precondition()
    assert lineage.wanted is not None
    assert lineage.allowed is not None
    causes = tuple(e.digest for e in (lineage.wanted, lineage.allowed, other, asked))
    lineage.release(causes=causes).returned("replied", "no_effect")
    again = lineage.precondition(holds="broken")
    said = assert_sound(certified(lineage)).predicate
    assert said["precondition"]["predicate"] == "account-open"
    assert said["precondition"]["digest"] == asked.digest
    assert [e["digest"] for e in said["further_preconditions"]["items"]] == [other.digest]
    [looked] = said["preconditions_looked_at_again"]["items"]
    assert (looked["digest"], looked["holds"]) == (again.digest, "broken")


@pytest.mark.parametrize(("verb", "form"), [("continue", "certificate"), ("observe", "report")])
def test_the_recovery_authority_permits_the_decision(verb: str, form: str) -> None:
    lineage = told().release().returned("replied", "no_effect")
    grant = lineage.add(
        CapabilityGranted,
        capability_id="cap-1",
        verb=verb,
        actor="recoverer",
        scope="pay-1",
        valid_until=ISSUED,
        policy_version="1",
    )
    result = certified(lineage, recovery=grant)
    assert result.form == form
    said = assert_sound(result).predicate
    assert said["recovery_authority"]["permits"] == verb
    assert said["recovery_authority"]["decision_id"] == "cap-1"


def test_compensations_and_needs_are_linked() -> None:
    lineage = told().release().replied()
    link = lineage.add(
        CompensationLinked,
        reference="EXT-1",
        compensator="pay-1/compensate/EXT-1",
        reversibility="business_offset",
    )
    said = assert_sound(certified(lineage, lineage.judge(compensation=Compensation.OPEN))).predicate
    assert said["compensations"]["items"][0]["digest"] == link.digest


# --- limitations ----------------------------------------------------------------------------------

LIMITS: dict[str, tuple[Callable[[], Lineage], str]] = {
    "pause": (lambda: told(TIMED).release(), "no executor stands still for longer than 2 h"),
    "in flight": (lambda: told().release().lost(), "is the contract's word"),
    "no bound": (lambda: told(BLIND).release().lost(), "is not known: that time passes"),
    "doubles": (
        lambda: told(but(in_flight__doubles=True)).release().replied(),
        "deliver one request twice",
    ),
    "retries": (
        lambda: told(but(in_flight__client_retries=True)).release().replied(),
        "retries unreported",
    ),
    "surface": (
        lambda: told(but(surface=(Surface(effect="receipt mail", inside=False),))).release(),
        "outside of this: receipt mail",
    ),
    "undeclared surface": (
        lambda: Told(but(surface=None)).release(),
        "further effects are not declared",
    ),
    "short": (lambda: told(STRICT).release().replied(), "2 witnesses from distinct"),
    "one witness": (lambda: told().release().replied(), "one control domain, provider"),
    "reconciled": (lambda: told(incarnation="journal-0").release().lost(), "another incarnation"),
    "no readback": (lambda: told(BLIND).release().replied(), "no readback"),
    "eventual": (
        lambda: told(but(readback=Readback(by="action_id"))).release().lost(),
        "the readback is eventual",
    ),
    "a person": (lambda: told().release().lost().attest("applied"), "ana attested"),
    "irreversible": (
        lambda: told(but(reversibility=Reversibility.IRREVERSIBLE)).release().replied(),
        "irreversible",
    ),
    "accepted": (
        lambda: (
            told(
                but(
                    BLIND,
                    reversibility=Reversibility.IRREVERSIBLE,
                    permanent_unknown_accepted_by="the board",
                )
            )
            .release()
            .lost()
        ),
        "accepted by the board",
    ),
    "no precondition": (lambda: told().release().replied(), "no precondition was asked for"),
    "provisional": (lambda: told(SETTLED).release().replied(), "not yet settled"),
    "unknown": (lambda: told().release().lost(), "What would resolve it"),
    "convergent": (lambda: told(CONVERGENT).release().lost(), "doing it twice"),
}


@pytest.mark.parametrize("name", LIMITS)
def test_what_a_certificate_cannot_say_is_said(name: str) -> None:
    make, words = LIMITS[name]
    said = assert_sound(certified(make())).predicate
    assert any(words in text for text in said["limitations"]), said["limitations"]


def test_sources_that_are_not_complete_and_further_limitations() -> None:
    lineage = told().release().lost()
    result = certified(lineage, complete=False, limitations=["as the auditor asked"])
    said = assert_sound(result).predicate
    assert "not complete" in said["limitations"][0]
    assert said["limitations"][-1] == "as the auditor asked"
    assert said["cut"]["complete"] is False


@pytest.mark.parametrize(
    ("duration", "words"),
    [
        (90 * SECOND, "90 s"),
        (2 * DAY, "2 d"),
        (HOUR, "1 h"),
        (5, "5 µs"),
        (0, "0 µs"),
        (FOR_EVER, "no end"),
    ],
)
def test_spans_read_as_people_say_them(duration: int, words: str) -> None:
    assert span(duration) == words


# --- bounds ---------------------------------------------------------------------------------------


def test_a_lineage_of_three_thousand_looks_stays_small() -> None:
    lineage = told(LEDGER)
    lineage.release().lost()
    for _ in range(2_999):
        lineage.absent(source=EVENTUAL)
    lineage.seen()
    result = certified(lineage)
    found = assert_sound(result)
    assert len(found.statement) < 64_000
    evidence = found.predicate["evidence"]
    assert evidence["left_out"] == 3_002 - len(evidence["items"])
    kinds = [item["kind"] for item in evidence["items"]]
    assert {"effect", "readback", "postcondition", "absence"} <= set(kinds)
    positions = [item["position"] for item in evidence["items"]]
    assert positions == sorted(positions)


def test_long_words_are_shortened_with_the_digest_of_the_whole() -> None:
    long = "é" * 5_000
    lineage = Told(intent=False, decided=None)
    lineage.intent(subject=long, purpose=long, target=long, execution_id=long)
    lineage.decided(subject=long, purpose=long, decision_id=long, policy_version=long)
    lineage.release(decision_id=long, executor=long).replied(reference=long)
    for number in range(200):
        lineage.add(
            CompensationLinked,
            reference=long,
            compensator=f"{number}{long}",
            reversibility="business_offset",
        )
    found = assert_sound(certified(lineage))
    assert len(encode(found.predicate)) <= BUDGET
    assert digest(long.encode()) in found.predicate["effect"]["external_reference"]


def test_shortened_text_keeps_what_fits() -> None:
    assert shorten("abc", 3) == "abc"
    cut_off = shorten("a" * 501, 500)
    assert cut_off.startswith("a" * 400)
    assert digest(b"a" * 501) in cut_off


@given(st.integers(-(2**60), 2**60))
def test_instants_are_written_as_the_verifier_reads_them(at: int) -> None:
    text = instant(at)
    read = read_utc(text)
    assert read is not None
    inside = -62_135_596_800 * SECOND <= at < 253_402_300_800 * SECOND
    assert (read == at) == inside
    if inside:
        assert text == write_utc(at)


# --- any lineage ----------------------------------------------------------------------------------

TIMES = st.sampled_from([None, None, None, None, 0.0, 100.0, 90_000.0, 2e9])
SOURCES = st.sampled_from([READ, LAGGING, EVENTUAL, BANK])
REFERENCES = st.sampled_from(["EXT-1", "EXT-1", "EXT-1", "EXT-2", None])
NUMBERS = st.sampled_from([None, 1, 2, 9])
OUTCOMES = st.sampled_from(["allow", "allow", "deny"])


def _release(draw: Any, lineage: Lineage) -> None:
    known = [entry.digest for entry in lineage.chain.entries]
    causes = draw(st.sampled_from([None, None, None, tuple(known), ()]))
    fence = draw(st.sampled_from([None, "fence-1"]))
    epoch = draw(st.sampled_from([1, 1, 2]))
    lineage.release(draw(TIMES), causes=causes, fence=fence, epoch=epoch)


def _reply(draw: Any, lineage: Lineage) -> None:
    if lineage.wanted is not None and lineage.last is not None:
        named = draw(st.sampled_from(["returned", "queued", "declined", "no_effect", ""]))
        lineage.replied(named, draw(REFERENCES), draw(TIMES))


def _look(draw: Any, lineage: Lineage) -> None:
    if lineage.wanted is None:
        return
    source, at = draw(SOURCES), draw(TIMES)
    match draw(st.sampled_from(["seen", "undone", "other", "absent", "unreadable", "refusal"])):
        case "seen":
            lineage.seen(draw(REFERENCES), at, source)
        case "undone":
            lineage.seen(draw(REFERENCES), at, source, reversed_by="refund-1")
        case "other":
            lineage.seen(draw(REFERENCES), at, source, fields=PARAMETERS | {"amount": 1})
        case "absent":
            lineage.absent(at, source)
        case "unreadable":
            lineage.unreadable(at)
        case _:
            lineage.refusal(at)


def _decide(draw: Any, lineage: Lineage) -> None:
    ends = draw(st.sampled_from([T0 + DAY, T0 + DAY, T0 - 1, 2**60]))
    lineage.decided(draw(OUTCOMES), valid_until=ends)


STEPS: list[Callable[[Any, Lineage], Any]] = [
    _release,
    _release,
    _reply,
    _reply,
    _look,
    _look,
    _decide,
    lambda draw, it: it.returned(
        draw(st.sampled_from(["lost", "timed_out", "not_sent", "replied"])), "declined", draw(TIMES)
    ),
    lambda draw, it: it.effect("committed", draw(TIMES), number=draw(NUMBERS)),
    lambda draw, it: it.effect("reversed", draw(TIMES), undone_by="pay-1/compensate/EXT-1"),
    lambda draw, it: it.receipt("fence", draw(TIMES), claim="committed", about="pay-2"),
    lambda draw, it: it.attest(
        draw(st.sampled_from(["applied", "not_applied", "rejected", "reversed"])),
        draw(TIMES),
        draw(REFERENCES),
    ),
    lambda draw, it: it.precondition(draw(st.sampled_from(["hold", "broken", "unverified"]))),
    lambda draw, it: it.intent(version=draw(st.sampled_from([0, 2, 2**60])), key_id="k" * 900),
    lambda draw, it: it.sealed(reach=draw(st.sampled_from(["action", "epoch"]))),
    lambda draw, it: it.gone(),
    lambda draw, it: it.leased(draw(st.sampled_from([2, 3]))),
    lambda draw, it: it.recovered(),
    lambda draw, it: it.revoke(),
    lambda draw, it: it.checked(draw(st.sampled_from([True, False, None]))),
    lambda draw, it: it.add(CertificateIssued, cut=1, digest="ab" * 32, form="certificate"),
]


def _tame_release(draw: Any, lineage: Lineage) -> None:
    known = {None if e is None else e.digest for e in (lineage.wanted, lineage.allowed)}
    asked = lineage.precondition()
    fence = draw(st.sampled_from([None, "fence-1"]))
    lineage.release(causes=(*sorted(d for d in known if d), asked.digest), fence=fence)


TAME: list[Callable[[Any, Lineage], Any]] = [
    _tame_release,
    _tame_release,
    lambda draw, it: it.last and it.replied(),
    lambda draw, it: it.last and it.returned(draw(st.sampled_from(["lost", "not_sent"]))),
    lambda draw, it: it.last and it.replied(draw(st.sampled_from(["declined", "no_effect"])), None),
    lambda draw, it: it.last and it.seen(source=draw(SOURCES)),
    lambda draw, it: it.absent(draw(st.sampled_from([None, 90_000.0])), draw(SOURCES)),
    lambda draw, it: it.unreadable(),
    lambda draw, it: it.gone(),
    lambda draw, it: it.attest(draw(st.sampled_from(["applied", "not_applied", "rejected"]))),
    lambda draw, it: it.sealed(),
]
"""Steps that keep the cut closed more often than not."""

CONTEXTS = st.builds(
    Context,
    observable=st.booleans(),
    sealable=st.booleans(),
    needs=st.sampled_from(Needs),
    authority=st.booleans(),
    verbs=st.sampled_from([ALL_VERBS, frozenset(), frozenset({"observe"})]),
    compensator=st.booleans(),
    compensation=st.sampled_from(Compensation),
    breaker_until=st.sampled_from([None, T0]),
)


@st.composite
def lineages(draw: Any) -> Lineage:
    if draw(st.booleans()):
        tame = Told(draw(st.sampled_from(CONTRACTS)))
        for _ in range(draw(st.integers(0, 6))):
            draw(st.sampled_from(TAME))(draw, tame)
        return tame
    lineage = Told(
        draw(st.sampled_from(CONTRACTS)),
        intent=draw(st.sampled_from([True, True, True, True, False])),
        decided=draw(st.sampled_from(["allow", "allow", "allow", "deny", None])),
        incarnation=draw(st.sampled_from(["journal-1", "journal-1", "journal-0"])),
    )
    for _ in range(draw(st.integers(0, 8))):
        draw(st.sampled_from(STEPS))(draw, lineage)
    return lineage


@given(lineages(), CONTEXTS, st.booleans(), st.sampled_from([ISSUED, ISSUED, ISSUED, T0, 0]))
def test_whatever_was_recorded_is_certified_or_reported(
    lineage: Lineage, context: Context, complete: bool, issued_at: int
) -> None:
    where = lineage.cut(complete=complete)
    judgement = judge(where, "pay-1", lineage.contract, context)
    result = certify(
        where, "pay-1", lineage.contract, judgement, issued_at=issued_at, versions={}, previous=None
    )
    closed = judgement.facts.closure.value == "closed"
    event(f"{result.form} of {judgement.facts.finding.value}")
    if result.form == "certificate":
        assert closed
        assert judgement.facts.finding is not Finding.CONFLICT
        assert len(judgement.verdict.effects) <= 1
    if where.lineage:
        assert_sound(result, issued_at)


# --- deciding again -------------------------------------------------------------------------------


@given(st.builds(Facts, *map(st.sampled_from, DOMAINS.values())))
def test_facts_are_read_as_they_were_written(facts: Facts) -> None:
    assert read_facts(written_facts(facts)) == facts


@pytest.mark.parametrize(
    "changed",
    [
        None,
        [],
        {},
        {"finding": "unknown"},
        written_facts(Facts()) | {"more": 1},
        written_facts(Facts()) | {"more": "true"},
        written_facts(Facts()) | {"finding": "perhaps"},
        written_facts(Facts()) | {"finding": None},
        written_facts(Facts()) | {"further": True},
    ],
)
def test_facts_that_are_not_closed_are_none(changed: Any) -> None:
    assert read_facts(changed) is None


def forged(change: Callable[[dict[str, Any]], None], lineage: Lineage | None = None) -> bytes:
    """Signed again by the issuer's own key after a change: only the verifier's table is left."""
    result = certified(lineage or told().release().returned("replied", "no_effect"))
    predicate = copy.deepcopy(result.predicate)
    change(predicate)
    return signed(Certified(result.form, predicate))


def _set(*path_and_value: Any) -> Callable[[dict[str, Any]], None]:
    *path, name, value = path_and_value

    def change(predicate: dict[str, Any]) -> None:
        for step in path:
            predicate = predicate[step]
        predicate[name] = value

    return change


@pytest.mark.parametrize(
    "change",
    [
        _set("decision", "facts", "authority", False),
        _set("decision", "facts", "preconditions", "broken"),
        _set("decision", "facts", "finding", "unknown"),
        _set("decision", "facts", "closure", "mismatch"),
        _set("decision", "facts", "finding", "likely"),
        _set("decision", "facts", {}),
        _set("decision", "row", "rejected"),
        _set("decision", "row", "no-such-row"),
        _set("decision", "row", 7),
        _set("decision", "table", None),
        _set("decision", "reason", "because"),
        _set("decision", "execute"),
        _set("decision", None),
        _set("recovery_decision", "reauthorise"),
        _set("recovery_decision", "quarantine"),
        _set("outcome", "word", "UNKNOWN"),
        _set("outcome", "finding", "unknown"),
        _set("effect", "status", "unknown"),
        lambda predicate: predicate.pop("absence"),
        lambda predicate: predicate.pop("outcome"),
    ],
)
def test_a_certificate_that_was_decided_otherwise_is_refused(change: Any) -> None:
    assert checked(forged(lambda predicate: None)).decided_again
    with pytest.raises(PredicateRefused, match="contradicts itself"):
        checked(forged(change))


def test_every_changed_fact_that_changes_the_row_is_refused() -> None:
    lineage = told().release().returned("replied", "no_effect")
    facts = lineage.judge().facts
    for name, value in written_facts(facts).items():
        if isinstance(value, bool):
            other = facts._replace(**{name: not value})
            if decide(other) is not decide(facts):
                with pytest.raises(PredicateRefused):
                    checked(forged(_set("decision", "facts", name, not value)))


def test_a_report_is_decided_again_too() -> None:
    lineage = told().release().replied().seen("EXT-2")
    with pytest.raises(PredicateRefused, match="contradicts itself"):
        checked(forged(_set("recovery_decision", "adopt"), lineage))


def test_another_decision_table_is_taken_with_a_caution() -> None:
    found = checked(forged(_set("decision", "table", "00" * 32)))
    assert not found.decided_again
    assert "another decision table" in found.cautions[0]


def test_a_document_without_facts_says_that_it_was_not_decided_again() -> None:
    def bare(predicate: dict[str, Any]) -> None:
        del predicate["decision"]

    assert not checked(forged(bare)).decided_again
    assert len(table_digest()) == 64
