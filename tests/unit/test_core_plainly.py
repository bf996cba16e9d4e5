"""The fast judgement of the plain history says what the rules say, or nothing."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from ascertain.core.contract import (
    Consequence,
    Contract,
    Evidence,
    InFlight,
    Key,
    Observation,
    Readback,
    Scope,
    Success,
)
from ascertain.core.contract import Replies as RepliesPart
from ascertain.core.cut import Sources, cut
from ascertain.core.evidence import Reply, add_reply
from ascertain.core.facts import Compensation, Needs, Preconditions
from ascertain.core.judgement import ALL_VERBS, Context, judge
from ascertain.core.plainly import judge_plainly
from ascertain.core.records import (
    AttemptReleased,
    AuthorityDecided,
    Chain,
    Entry,
    IntentRecorded,
)

SOURCES = Sources(True, "inc")


def history(contract: Contract, changes: dict[str, dict[str, Any]], reply: Reply) -> list[Entry]:
    """A plain history in which some fields of some records are changed."""
    chain = Chain("a")

    def changed(record: Any) -> Any:
        return msgspec.structs.replace(record, **changes.get(type(record).__name__, {}))

    intent = chain.add(
        changed(
            IntentRecorded(
                action_id="a",
                at=10,
                action_type="pay",
                execution_id="run",
                step_id="pay",
                version=1,
                subject="s",
                purpose="p",
                target="t",
                parameters={"amount": 5, "text": "x", "flag": True},
                fingerprint="k:f",
                payload_hash="b",
                key_id="k",
                contract=contract.digest,
                incarnation="inc",
            )
        )
    )
    allow = chain.add(
        changed(
            AuthorityDecided(
                action_id="a",
                at=11,
                causes=(intent.digest,),
                decision_id="d",
                outcome="allow",
                actor="me",
                subject="s",
                purpose="p",
                action_type="pay",
                policy_version="1",
                checked_at=11,
                valid_from=0,
                valid_until=100,
                intent_digest=intent.digest,
                limits={"amount": 5},
            )
        )
    )
    release = chain.add(
        changed(
            AttemptReleased(
                action_id="a",
                at=12,
                causes=(intent.digest, allow.digest),
                number=1,
                epoch=1,
                executor="e",
                key="a",
                payload_hash="b",
                decision_id="d",
                incarnation="inc",
            )
        )
    )
    after = Chain("a", chain.position, chain.digest)
    add_reply(after, release=release, intent=intent, contract=contract, reply=reply, at=20)
    for entry in after.entries:
        chain.add(changed(entry.record))
    return chain.entries


CHANGES: list[dict[str, dict[str, Any]]] = [
    {},
    {"IntentRecorded": {"action_id": "b"}},
    {"IntentRecorded": {"payload_hash": "other"}},
    {"IntentRecorded": {"subject": "other"}},
    {"IntentRecorded": {"purpose": "other"}},
    {"IntentRecorded": {"action_type": "other"}},
    {"IntentRecorded": {"incarnation": "other"}},
    {"AuthorityDecided": {"action_id": "b"}},
    {"AuthorityDecided": {"outcome": "deny"}},
    {"AuthorityDecided": {"valid_until": 11}},
    {"AuthorityDecided": {"valid_from": 13}},
    {"AuthorityDecided": {"intent_digest": "0" * 64}},
    {"AuthorityDecided": {"limits": {"amount": 4}}},
    {"AuthorityDecided": {"limits": {"text": 4}}},
    {"AuthorityDecided": {"limits": {"flag": 4}}},
    {"AuthorityDecided": {"limits": {"missing": 4}}},
    {"AuthorityDecided": {"limits": {}}},
    {"AuthorityDecided": {"decision_id": "other"}},
    {"AttemptReleased": {"action_id": "b"}},
    {"AttemptReleased": {"number": 2}},
    {"AttemptReleased": {"causes": ()}},
    {"AttemptReleased": {"payload_hash": "other"}},
    {"AttemptReleased": {"decision_id": "other"}},
    {"AttemptReleased": {"at": 40_000_000}},
    {"AttemptReleased": {"fence": "f"}},
    {"AttemptReleased": {"incarnation": "other"}},
    {"AttemptReturned": {"action_id": "b"}},
    {"AttemptReturned": {"number": 2}},
    {"AttemptReturned": {"transport": "timed_out"}},
    {"AttemptReturned": {"transport": "not_sent"}},
    {"AttemptReturned": {"reply": "other"}},
    {"AttemptReturned": {"single": False}},
    {"AttemptReturned": {"closed": False}},
    {"EffectObserved": {"action_id": "b"}},
    {"EffectObserved": {"state": "reversed"}},
    {"EffectObserved": {"state": "rejected"}},
    {"EffectObserved": {"state": "settled"}},
    {"EffectObserved": {"source": "elsewhere"}},
    {"EffectObserved": {"matches": False}},
    {"EffectObserved": {"matches": None}},
    {"EffectObserved": {"number": None}},
    {"EffectObserved": {"number": 2}},
    {"EffectObserved": {"reference": "other"}},
    {"EffectObserved": {"reference": None}},
    {"EffectObserved": {"undone_by": "x"}},
    {"ReceiptRecorded": {"action_id": "b"}},
    {"ReceiptRecorded": {"evidence": "absence"}},
    {"ReceiptRecorded": {"evidence": "readback", "as_of": 30, "consistency": "linearizable"}},
    {"ReceiptRecorded": {"claim": None}},
    {"ReceiptRecorded": {"claim": "settled"}},
    {"ReceiptRecorded": {"claim": "reversed"}},
    {"ReceiptRecorded": {"about": "b"}},
    {"ReceiptRecorded": {"about": "a"}},
    {"ReceiptRecorded": {"reference": "other"}},
    {"ReceiptRecorded": {"number": 2}},
    {"ReceiptRecorded": {"number": None}},
    {"ReceiptRecorded": {"observed_at": -6_000_000}},
    {"ReceiptRecorded": {"domain": "elsewhere"}},
]

contracts = st.builds(
    Contract,
    name=st.just("c"),
    governed=st.sampled_from(["accepted", "committed", "settled"]),
    consequence=st.sampled_from(list(Consequence)),
    preconditions=st.sampled_from([(), ("p",)]),
    attempts=st.integers(1, 3),
    replies=st.sampled_from(
        [RepliesPart(), RepliesPart(success=(Success(reply="returned", reaches="accepted"),))]
    ),
    evidence=st.sampled_from([Evidence(), Evidence(witnesses=1), Evidence(witnesses=2)]),
    key=st.sampled_from(
        [Key(), Key(scope=Scope.PROVIDER, first_result=True, retention=5), Key(retention=3)]
    ),
    readback=st.sampled_from([Readback(), Readback(by="action_id", keeps_records=True)]),
    in_flight=st.builds(
        InFlight,
        after_release=st.sampled_from([None, 0, 50]),
        after_close=st.sampled_from([None, 0, 50]),
        doubles=st.booleans(),
        client_retries=st.booleans(),
    ),
    observation=st.builds(
        Observation,
        first=st.integers(0, 50),
        longest=st.integers(0, 50),
        looks=st.integers(1, 3),
    ),
)
contexts = st.builds(
    Context,
    observable=st.booleans(),
    sealable=st.booleans(),
    needs=st.sampled_from(list(Needs)),
    authority=st.booleans(),
    verbs=st.sampled_from([frozenset(), ALL_VERBS, frozenset({"observe"})]),
    preconditions=st.sampled_from(list(Preconditions)),
    compensator=st.booleans(),
    compensation=st.sampled_from(list(Compensation)),
    breaker_until=st.sampled_from([None, 5]),
)
replies = st.builds(
    Reply,
    transport=st.sampled_from(["replied", "lost", "timed_out"]),
    named=st.sampled_from(["returned", "declined", "no_effect", ""]),
    reference=st.sampled_from([None, "pi_1"]),
    reaches=st.sampled_from([None, "accepted", "committed", "settled"]),
    result=st.sampled_from([None, {"id": "pi_1"}]),
    closed=st.booleans(),
)


@given(contracts, contexts, replies, st.lists(st.sampled_from(CHANGES), max_size=2), st.booleans())
def test_it_is_the_judgement_of_the_rules_or_none(
    contract: Contract,
    context: Context,
    reply: Reply,
    changes: list[dict[str, dict[str, Any]]],
    complete: bool,
) -> None:
    merged: dict[str, dict[str, Any]] = {}
    for change in changes:
        for kind, fields in change.items():
            merged[kind] = {**merged.get(kind, {}), **fields}
    entries = history(contract, merged, reply)
    sources = SOURCES._replace(complete=complete)
    found = judge_plainly(entries, contract, context, sources)
    if found is not None:
        ruled = judge(cut(entries, as_of=25, sources=sources), "a", contract, context)
        assert found == ruled


def test_each_change_of_the_plain_history_is_judged_as_the_rules_say() -> None:
    contract = Contract(name="c", surface=(), readback=Readback(by="action_id"))
    context = Context(observable=True, authority=True, verbs=ALL_VERBS)
    reply = Reply(transport="replied", named="returned", reference="pi_1")
    plain = 0
    for change in CHANGES:
        entries = history(contract, change, reply)
        found = judge_plainly(entries, contract, context, SOURCES)
        ruled = judge(cut(entries, as_of=25, sources=SOURCES), "a", contract, context)
        assert found in (None, ruled), change
        plain += found is not None
    assert 5 < plain < len(CHANGES) / 2, "the plain one is fast, and most changes are not plain"


def test_another_length_of_history_is_not_plain() -> None:
    contract = Contract(name="c", surface=())
    reply = Reply(transport="replied", named="returned", reference="pi_1")
    entries = history(contract, {}, reply)
    for part in ([], entries[:3], entries[:5], [*entries, entries[-1]]):
        assert judge_plainly(part, contract, Context(), SOURCES) is None
