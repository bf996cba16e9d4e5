"""Incidents that happened to others, replayed on the core.

Each line of incidents.jsonl is in exactly one of two tables: `CASES` builds the lineage of its
scenario and says what must be concluded and done; `ELSEWHERE` names the part of the system that
it is about, where records and contract alone cannot show it.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from ascertain.core.contract import (
    SECOND,
    Consistency,
    Contract,
    Evidence,
    InFlight,
    Key,
    Readback,
    Scope,
    validate,
)
from ascertain.core.evidence import Seen
from ascertain.core.facts import Decision, Finding, Preconditions
from ascertain.errors import DeclarationRefused
from tests.lineages import (
    BLIND,
    EVENTUAL,
    KEYED,
    LAGGING,
    LEDGER,
    PARAMETERS,
    Lineage,
    but,
)

INCIDENTS: dict[str, dict[str, str]] = {
    line["id"]: line
    for line in map(
        json.loads,
        (Path(__file__).parent / "incidents.jsonl").read_text(encoding="utf-8").splitlines(),
    )
}

F = Finding
E, A, V = Decision.EXECUTE, Decision.ADOPT, Decision.VERIFY
R, C, Q = Decision.REAUTHORISE, Decision.COMPENSATE, Decision.QUARANTINE


class Case(NamedTuple):
    """One moment of an incident: the lineage then, what it proves, and what may be done."""

    line: Lineage
    finding: F
    decision: Decision
    context: dict[str, Any] | None = None
    unlike: str = ""  # where the incident's own words are met in another way


ALONE = {"observable": False}
PAYMENT = but(KEYED, readback=Readback(by="client_reference", consistency=Consistency.EVENTUAL))
REPLAYED = but(BLIND, key=KEYED.key)
FORGETFUL = but(
    BLIND,
    key=Key(scope=Scope.PROVIDER, retention=600 * SECOND, first_result=True),
    in_flight=InFlight(
        after_release=30 * SECOND, after_close=5 * SECOND, longest_pause=60 * SECOND
    ),
)
MARKER = but(readback__by="marker")
MAIL = but(
    readback=Readback(
        by="client_reference",
        consistency=Consistency.BOUNDED,
        lag=60 * SECOND,
        keeps_records=True,
        retention=10**6 * SECOND,
    )
)
LAG = but(MAIL, readback__lag=20 * SECOND, readback__by="action_id")


def lost(contract: Contract = LEDGER, **changes: Any) -> Lineage:
    return Lineage(contract).release(at=10, **changes).lost(at=12)


def died(contract: Contract = LEDGER) -> Lineage:
    """Released, and never heard of again: the worker is proved dead at 60 s."""
    return Lineage(contract).release(at=10).gone(at=60)


CASES: dict[str, tuple[Case, ...]] = {
    "I01": (
        Case(lost(PAYMENT), F.UNKNOWN, V),
        Case(lost(REPLAYED), F.UNKNOWN, E, ALONE),
        Case(lost(REPLAYED).release(payload_hash="p2").lost(), F.UNKNOWN, Q, ALONE),
        Case(lost(REPLAYED).release().replied(), F.APPLIED_FINAL, A, ALONE),
    ),
    # Without proof that the key arrived the contract has no key: three effects, one action.
    "I03": (
        Case(
            Lineage().release().lost().release().lost().release().lost()
            .look(Seen("EXT-1"), Seen("EXT-2"), Seen("EXT-3")),
            F.CONFLICT, C, {"compensator": True},
        ),
        Case(lost(BLIND), F.UNKNOWN, Q, ALONE),
    ),
    "I05": (
        Case(Lineage(KEYED).release(at=0).returned("replied", "", at=40), F.UNKNOWN, V),
        Case(
            Lineage(KEYED).release().returned("timed_out").release().returned("replied", ""),
            F.UNKNOWN, V,
        ),
    ),
    "I07": (Case(Lineage().release().replied(), F.APPLIED_FINAL, A),),
    # The fence, in a transaction of its own, shows that it was sent.
    "I09": (
        Case(Lineage().release(), F.UNKNOWN, V),
        Case(Lineage().release().seen(), F.APPLIED_FINAL, A),
    ),
    "I11": (
        Case(lost(), F.UNKNOWN, V),
        Case(Lineage(action_id="refund-b"), F.NOT_APPLIED, E),
        Case(lost().seen(at=4000), F.APPLIED_FINAL, A),
    ),
    "I13": (Case(lost(), F.UNKNOWN, V),),
    "I15": (
        Case(
            lost(but(PAYMENT, key__retention=None)).release(at=9000).lost()
            .look(Seen("INV-1"), Seen("INV-2")),
            F.CONFLICT, Q,
        ),
        Case(lost(but(BLIND, key=Key(scope=Scope.PROVIDER))), F.UNKNOWN, Q, ALONE),
    ),
    "I17": (
        Case(Lineage().release().returned("replied", "http:429"), F.NOT_APPLIED, E),
        Case(Lineage(KEYED).release().returned("replied", ""), F.UNKNOWN, V),
    ),
    "I19": (
        Case(Lineage(MARKER).release().returned("raised"), F.UNKNOWN, V),
        Case(lost(MARKER).seen(None, fields=None, fingerprint="f1"), F.APPLIED_FINAL, A),
        Case(lost(MARKER).absent(at=50), F.NOT_APPLIED, E),
    ),
    "I21": (
        Case(Lineage(MARKER).release().returned("raised"), F.UNKNOWN, V),
        Case(lost(but(BLIND, convergent=True)), F.UNKNOWN, E, ALONE),
        Case(lost(BLIND), F.UNKNOWN, Q, ALONE),
    ),
    "I23": (
        Case(lost().release().returned("replied", "declined"), F.UNKNOWN, V),
        Case(lost().release().returned("replied", "declined").seen(), F.APPLIED_FINAL, A),
    ),
    "I25": (Case(lost(BLIND), F.UNKNOWN, Q, ALONE),),
    "I27": (
        Case(lost(but(BLIND, convergent=True)), F.UNKNOWN, E, ALONE),
        Case(
            lost(MARKER).release().returned("raised").seen(None, fields=None, fingerprint="f1"),
            F.APPLIED_SHORT, V,
            unlike="a duplicate key shows the effect; the second attempt must be quiet too",
        ),
        Case(
            lost(MARKER).release().returned("raised")
            .seen(None, at=60, fields=None, fingerprint="f1"),
            F.APPLIED_FINAL, A,
        ),
    ),
    "I29": (
        Case(Lineage(REPLAYED).release().returned("raised"), F.UNKNOWN, E, ALONE),
        Case(Lineage(but(REPLAYED, attempts=1)).release().returned("raised"), F.UNKNOWN, Q, ALONE),
        Case(Lineage(BLIND).release().returned("raised"), F.UNKNOWN, Q, ALONE),
    ),
    "I31": (
        Case(lost(MARKER).release().returned("replied", "no_effect"), F.UNKNOWN, V),
        Case(
            lost(MARKER).release().returned("replied", "no_effect")
            .seen(None, fields=None, fingerprint="f1"),
            F.APPLIED_FINAL, A,
        ),
    ),
    # Each recipient is an action: what was mailed is adopted, the rest may go on.
    "I33": (
        Case(Lineage(MAIL, action_id="mail-1").release().replied(), F.APPLIED_FINAL, A),
        Case(Lineage(MAIL, action_id="mail-9000"), F.NOT_APPLIED, E),
    ),
    "I35": (
        Case(Lineage(MARKER).release(), F.UNKNOWN, V),
        Case(
            Lineage(MARKER).release().seen(None, fields=None, fingerprint="f1"),
            F.APPLIED_FINAL, A,
        ),
    ),
    "I37": (
        Case(lost(FORGETFUL), F.UNKNOWN, E, ALONE),
        Case(lost(FORGETFUL), F.UNKNOWN, Q, {"as_of": 600, **ALONE}),
    ),
    "I45": (
        Case(Lineage(BLIND).release().leased(epoch=2), F.UNKNOWN, Q, ALONE),
        Case(Lineage().release().leased(epoch=2), F.UNKNOWN, V),
    ),
    "I51": (
        Case(lost(but(LAG, readback__lag=SECOND)).absent(at=40, source=LAGGING), F.UNKNOWN, V),
        Case(lost().absent(at=40, source=EVENTUAL), F.UNKNOWN, V),
        Case(lost(LAG).absent(at=13, source=LAGGING).seen(), F.APPLIED_FINAL, A),
    ),
    # One resource is one action: what was created is adopted, what was not may be created.
    "I53": (
        Case(died().seen(at=70), F.APPLIED_FINAL, A),
        Case(died().absent(at=70), F.NOT_APPLIED, E),
    ),
    "I55": (
        Case(lost(LAG).absent(at=13, source=LAGGING), F.UNKNOWN, V),
        Case(lost(LAG).absent(at=59.9, source=LAGGING), F.UNKNOWN, V),
        Case(lost(LAG).absent(at=60, source=LAGGING), F.NOT_APPLIED, E),
    ),
    "I57": (
        Case(lost(but(LAG, readback__by="client_reference")), F.UNKNOWN, V),
        Case(lost().release().returned("replied", "").seen(at=60), F.APPLIED_FINAL, A),
        Case(
            lost().seen(fields={"payee": "Northwind", "amount": 7}), F.CONFLICT, Q,
        ),
    ),
    "I59": (
        Case(Lineage().release().returned("timed_out"), F.UNKNOWN, V),
        Case(
            Lineage().release().returned("timed_out").release().lost()
            .look(Seen("c1"), Seen("c2")),
            F.CONFLICT, C, {"compensator": True},
        ),
    ),
    "I63": (
        Case(Lineage().release(), F.UNKNOWN, V),
        Case(died().seen(at=70), F.APPLIED_FINAL, A),
        Case(died().absent(at=70), F.NOT_APPLIED, E),
    ),
    "I65": (
        Case(lost().seen(fields=PARAMETERS | {"amount": 2}), F.CONFLICT, Q),
        Case(lost().seen(), F.APPLIED_FINAL, A),
    ),
    "I67": (
        Case(lost(MAIL), F.UNKNOWN, V),
        Case(lost(MAIL).seen("<m-1@example>", source=LAGGING), F.APPLIED_FINAL, A),
    ),
    # Guest and dates are clues: nothing that was found by them names this action.
    "I69": (
        Case(lost(BLIND), F.UNKNOWN, Q, ALONE),
        Case(lost(BLIND).attest("applied", reference="BK-1"), F.APPLIED_FINAL, A, ALONE),
    ),
    "I71": (
        Case(
            Lineage(decided="deny").seen("EVENT-2"), F.APPLIED_FINAL, C, {"compensator": True},
            unlike="the second booking was refused by us and its event is there",
        ),
        Case(Lineage(decided=None).seen("EVENT-2"), F.APPLIED_FINAL, Q, ALONE),
    ),
    "I73": (
        Case(Lineage().release().replied(), F.APPLIED_FINAL, A),
        Case(Lineage().release(), F.UNKNOWN, V),
    ),
    "I75": (
        Case(Lineage(), F.UNKNOWN, V, {"complete": False}),
        Case(Lineage(), F.NOT_APPLIED, E),
        Case(died(BLIND), F.UNKNOWN, Q, ALONE),
    ),
    "I77": (
        Case(Lineage().release().replied(reference="9").unreadable(), F.APPLIED_FINAL, A),
        Case(
            Lineage(but(evidence=Evidence(witnesses=2))).release().replied(reference="9")
            .unreadable(),
            F.APPLIED_SHORT, V,
        ),
    ),
    "E01": (
        Case(lost(), F.UNKNOWN, V),
        Case(lost().seen("RF-7"), F.APPLIED_FINAL, A),
        Case(Lineage(intent=False, decided=None), F.UNKNOWN, V),
    ),
    "E03": (Case(Lineage(action_id="inv-9").release().seen(), F.APPLIED_FINAL, A),),
    "E05": (Case(lost(), F.UNKNOWN, V),),
    "E07": (
        Case(Lineage(), F.NOT_APPLIED, E),
        Case(Lineage(), F.UNKNOWN, V, {"complete": False}),
        Case(Lineage().release(), F.UNKNOWN, V),
    ),
    "E09": (
        Case(
            Lineage(REPLAYED).release().gone().release().gone().release().gone(),
            F.UNKNOWN, Q, ALONE,
        ),
        Case(
            Lineage().release().returned("not_sent").release().returned("not_sent")
            .release().returned("not_sent"),
            F.NOT_APPLIED, Q,
        ),
    ),
    "E11": (
        Case(Lineage().release().release(number=1, executor="other"), F.UNKNOWN, Q),
        Case(Lineage().leased(epoch=2).release(), F.UNKNOWN, Q),
    ),
    "E13": (
        Case(lost().absent(at=13), F.UNKNOWN, V),
        Case(lost().absent(at=13).seen(at=21), F.APPLIED_FINAL, A),
        Case(lost().absent(at=40), F.NOT_APPLIED, E),
    ),
    # The approval was used: what it allowed is adopted, and nothing new follows from it.
    "E17": (
        Case(Lineage(action_id="t-1").release().replied(), F.APPLIED_FINAL, A),
        Case(Lineage(action_id="t-2"), F.NOT_APPLIED, R, {"authority": False}),
        Case(Lineage(action_id="t-2").release(decision_id="ap-2").lost(), F.UNKNOWN, Q),
    ),
    "E19": (Case(Lineage().release().leased(epoch=2), F.UNKNOWN, V),),
    "E21": (
        Case(Lineage().release().leased(epoch=2), F.UNKNOWN, V),
        Case(Lineage().release().leased(epoch=2).seen(), F.APPLIED_FINAL, A),
    ),
    "E23": (
        Case(Lineage().release().returned("timed_out"), F.UNKNOWN, V),
        Case(Lineage().release().returned("timed_out").seen("snap-1"), F.APPLIED_FINAL, A),
        Case(
            Lineage(decided="deny").release().returned("timed_out").seen("snap-1"),
            F.APPLIED_FINAL, C, {"compensator": True},
        ),
    ),
    "E25": (
        Case(Lineage(decided=None).seen("BK-1"), F.APPLIED_FINAL, Q, ALONE),
        Case(lost().seen("BK-1"), F.APPLIED_FINAL, A),
        Case(
            Lineage(decided="deny").seen("BK-1"), F.APPLIED_FINAL, C, {"compensator": True}
        ),
    ),
    "E27": (Case(died().leased(epoch=2).seen(at=70), F.APPLIED_FINAL, A),),
    "E29": (
        Case(
            lost(but(readback__retention=100 * SECOND, observation__looks=1)).absent(at=500),
            F.UNKNOWN, Q, {"preconditions": Preconditions.HOLD},
        ),
    ),
}  # fmt: skip

ELSEWHERE: dict[str, str] = {
    "I39": "the outbox relay holds at the oldest open transaction",
    "I41": "the outbox relay proves a gap aborted before it goes on",
    "I43": "the outbox row commits with the transition, in the journal",
    "I47": "the journal compares fingerprints of a repeated call",
    "I49": "the journal compares fingerprints before it returns a stored result",
    "I61": "task axes: the archive and the clean-up are judged on their own",
    "E15": "the journal refuses an id with another fingerprint: IntentConflict",
}


def test_every_incident_is_in_one_table() -> None:
    assert set(CASES) | set(ELSEWHERE) == set(INCIDENTS)
    assert not set(CASES) & set(ELSEWHERE)
    assert (len(CASES), len(ELSEWHERE)) == (47, 7)
    assert all(ELSEWHERE.values())


MOMENTS = [
    pytest.param(name, at, id=f"{name}-{at + 1}")
    for name, cases in CASES.items()
    for at in range(len(cases))
]


@pytest.mark.parametrize(("name", "at"), MOMENTS)
def test_an_incident_ends_as_it_should(name: str, at: int) -> None:
    case = CASES[name][at]
    found = case.line.judge(**(case.context or {}))
    told = f"{INCIDENTS[name]['symptom']}: {found.row.name}, {found.verdict.reason}"
    assert found.verdict.finding is case.finding, told
    assert found.row.decision is case.decision, told
    if case.decision in (E, C):
        assert found.facts.authority, told


def test_no_incident_is_answered_by_sending_again_in_the_dark() -> None:
    """Where the incident says UNKNOWN, nothing is sent again unless the replay is safe."""
    for name, cases in CASES.items():
        for case in cases:
            found = case.line.judge(**(case.context or {}))
            if found.row.decision is E and found.verdict.finding is F.UNKNOWN:
                assert found.facts.replay, name


def test_the_incidents_meet_every_decision() -> None:
    met = Counter(case.decision for cases in CASES.values() for case in cases)
    assert set(met) == set(Decision)


def test_the_contracts_of_the_incidents_may_be_declared() -> None:
    for contract in (PAYMENT, REPLAYED, FORGETFUL, MARKER, MAIL, LAG, LEDGER, BLIND, KEYED):
        assert validate(contract) is contract
    with pytest.raises(DeclarationRefused, match="retention"):
        validate(but(KEYED, key__retention=None))
