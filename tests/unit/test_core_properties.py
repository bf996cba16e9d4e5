"""What holds for every lineage, absurd ones included."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ascertain.core.contract import SECOND, InFlight, Key, Scope, Seal
from ascertain.core.decision import ROWS, TABLE
from ascertain.core.facts import Compensation, Decision, Finding, Needs, Preconditions
from ascertain.core.judgement import ALL_VERBS, Context, judge
from ascertain.core.outcome import Outcome, outcome
from ascertain.core.records import GENESIS, Chain, read_entry
from tests.lineages import (
    ACTION,
    BANK,
    BLIND,
    BOUND,
    EVENTUAL,
    JOURNAL,
    KEYED,
    LAGGING,
    LEDGER,
    PARAMETERS,
    READ,
    Lineage,
    but,
)

F = Finding
ABSENT = (F.NOT_APPLIED, F.NOT_APPLIED_SEALED)

contracts = st.sampled_from(
    [
        LEDGER,
        BLIND,
        KEYED,
        but(KEYED, replies__refusals_stored=True),
        but(BLIND, in_flight=BOUND, key=KEYED.key),
        but(in_flight__doubles=True),
        but(KEYED, in_flight__client_retries=True, replies__refusals_stored=True),
        but(seal=Seal(reach="action", store="db")),
        but(governed="settled", evidence__witnesses=2),
        but(readback__lag=5 * SECOND, readback__keeps_records=True),
        but(readback__retention=50 * SECOND, observation__looks=2),
        but(
            key=Key(scope=Scope.PROVIDER, retention=60 * SECOND, first_result=True),
            in_flight=InFlight(
                after_release=9 * SECOND, after_close=3 * SECOND, longest_pause=20 * SECOND
            ),
        ),
        but(preconditions=("account-open",), attempts=1),
        but(BLIND, convergent=True),
    ]
)

Step = Callable[[Lineage], Any]
numbers = st.integers(1, 3)
references = st.sampled_from(["EXT-1", "EXT-2", None])
fences = st.sampled_from(["f", "g", None])
sources = st.sampled_from([READ, LAGGING, EVENTUAL, BANK])
transports = st.sampled_from(
    ["replied", "timed_out", "lost", "raised", "not_sent", "rolled_back", "odd"]
)
replies = st.sampled_from(
    ["", "returned", "queued", "declined", "no_effect", "http:429", "http:402", "http:500"]
)
words = st.sampled_from(["applied", "not_applied", "rejected", "reversed", "perhaps"])
states = st.sampled_from(["accepted", "committed", "settled", "reversed", "rejected", "odd"])
matches = st.sampled_from([True, False, None])


def step(method: str, **fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Step]:
    return st.fixed_dictionaries(fields).map(
        lambda chosen: lambda line: getattr(line, method)(**chosen)
    )


def wait(seconds: int) -> Step:
    def later(line: Lineage) -> None:
        line.now += seconds * SECOND

    return later


releases = step(
    "release",
    fence=fences,
    key=st.sampled_from(["key-1", "key-1", "key-2"]),
    payload_hash=st.sampled_from(["p1", "p1", "p2"]),
    epoch=numbers,
    executor=st.sampled_from(["w1", "w2"]),
)
again = step("release", number=numbers, fence=fences)
returns = step(
    "returned",
    transport=transports,
    reply=replies,
    number=numbers,
    closed=st.booleans(),
    single=st.booleans(),
)
looks = st.one_of(
    step("seen", reference=references, source=sources),
    step(
        "seen",
        reference=references,
        fields=st.sampled_from([None, PARAMETERS, {"amount": 1}]),
        reaches=st.sampled_from(["accepted", "committed", "settled"]),
        action_id=st.sampled_from([None, ACTION, "pay-2"]),
        reversed_by=st.sampled_from([None, "REV-1"]),
    ),
    step("absent", source=sources),
    step("unreadable"),
    step("refusal"),
)
bare = st.one_of(
    step("effect", state=states, reference=references, number=st.none() | numbers, matches=matches),
    step(
        "receipt",
        evidence=st.sampled_from(["reply", "readback", "absence", "unreadable", "fence", "odd"]),
        claim=st.none() | states,
        reference=references,
        number=st.none() | numbers,
        about=st.sampled_from([None, ACTION, "pay-2"]),
        as_of=st.none() | st.integers(0, 2**53 - 1),
        consistency=st.sampled_from(["linearizable", "bounded", "eventual", "perfect"]),
    ),
    step("checked", holds=matches),
    step("attest", claim=words, reference=references),
    step("gone", executor=st.sampled_from(["w1", "w2"])),
    step("sealed", fence=st.sampled_from(["f", "g"]), reach=st.sampled_from(["action", "epoch"])),
    step("leased", epoch=numbers),
    step("recovered", epoch=numbers),
    step("revoke"),
    step("intent", version=numbers, incarnation=st.sampled_from([JOURNAL, "other"])),
    step("decided", outcome=st.sampled_from(["allow", "deny"])),
    step("precondition", holds=st.sampled_from(["hold", "broken", "unverified"])),
    st.sampled_from([wait(5), wait(40), wait(500)]),
)
steps = st.lists(st.one_of(releases, returns, looks, bare, again), max_size=9)
usual = st.lists(st.one_of(releases, returns, looks, st.just(wait(40))), max_size=7)


@st.composite
def lineages(draw: st.DrawFn, of: st.SearchStrategy[list[Step]] = steps) -> Lineage:
    line = Lineage(
        draw(contracts),
        intent=True,
        decided=draw(st.sampled_from(["allow", "allow", "deny", None])),
    )
    for one in draw(of):
        one(line)
    return line


contexts = st.builds(
    Context,
    observable=st.booleans(),
    sealable=st.booleans(),
    needs=st.sampled_from(Needs),
    authority=st.booleans(),
    verbs=st.frozensets(st.sampled_from(sorted(ALL_VERBS))),
    preconditions=st.sampled_from(Preconditions),
    compensator=st.booleans(),
    compensation=st.sampled_from(Compensation),
    breaker_until=st.none() | st.integers(0, 9),
)


@given(lineages(), contexts, st.booleans(), st.sampled_from([JOURNAL, "other"]))
def test_every_lineage_is_judged(
    line: Lineage, context: Context, complete: bool, incarnation: str
) -> None:
    """Never an error, one row, and the same again from the stored bytes."""
    found = judge(
        line.cut(complete=complete, incarnation=incarnation), ACTION, line.contract, context
    )
    assert [row for row in TABLE if row.matches(found.facts)] == [found.row]
    assert ROWS[found.row.name] is found.row
    assert found.facts.finding is found.verdict.finding
    assert not found.row.name.startswith(
        ("contradiction/applied-uncounted", "contradiction/effect-denied")
    )
    assert bool(found.verdict.reason)
    digests = {entry.digest for entry in line.chain.entries}
    for item in found.violations:
        assert item.first in digests
        assert item.second in digests | {""}
    assert {read_entry(entry.raw).digest for entry in line.chain.entries} == digests


@given(lineages(), contexts)
def test_absence_always_carries_its_argument(line: Lineage, context: Context) -> None:
    verdict = line.judge(**context._asdict()).verdict
    digests = {entry.digest for entry in line.chain.entries}
    assert (verdict.finding in ABSENT) == (verdict.argument is not None)
    if verdict.argument is not None:
        assert verdict.effects == ()
        assert verdict.open == ()
        assert set(verdict.argument.evidence) <= digests
        assert verdict.argument.evidence
    if verdict.finding is F.REJECTED:
        assert verdict.effects == ()
        assert verdict.open == ()
    assert (verdict.outcome is Outcome.VERIFIED_APPLIED) <= (len(verdict.effects) == 1)
    assert bool(verdict.effects) == (
        verdict.outcome in (Outcome.VERIFIED_APPLIED, Outcome.CONFLICT)
    )


@given(lineages())
def test_the_outcome_depends_on_the_entries_alone(line: Lineage) -> None:
    again = Chain("root-1")
    for entry in line.chain.entries:
        again.add(read_entry(entry.raw).record)
    assert [entry.raw for entry in again.entries] == [e.raw for e in line.chain.entries]
    first = line.verdict()
    assert outcome(line.cut(as_of=10**6), ACTION, line.contract) == first
    line.chain = again
    assert line.verdict() == first


@given(lineages())
def test_an_unreadable_look_changes_no_finding(line: Lineage) -> None:
    before = line.verdict()
    after = line.unreadable().verdict()
    assert after.finding is before.finding
    assert (after.effects, after.argument, after.open) == (
        before.effects,
        before.argument,
        before.open,
    )


@given(lineages())
def test_an_eventual_absence_proves_nothing(line: Lineage) -> None:
    before = line.verdict()
    line.now += 10**6 * SECOND
    after = line.absent(source=EVENTUAL).verdict()
    assert after.finding is before.finding
    assert after.argument == before.argument


@given(lineages(usual), releases)
def test_a_new_release_resolves_no_earlier_attempt(line: Lineage, released: Step) -> None:
    before = line.verdict()
    released(line)
    after = line.verdict()
    assert set(before.open) <= set(after.open) | ({*after.covers} if after.effects else set())
    # Only a refusal that the provider keeps under the key covers what is sent later.
    if not before.effects and before.finding is not F.REJECTED:
        assert after.finding is F.UNKNOWN
    if before.finding is F.REJECTED and after.finding is F.REJECTED:
        assert line.contract.replies.refusals_stored


@given(lineages(usual), st.sampled_from(["declined", "http:402", "no_effect", "http:429"]))
def test_a_later_refusal_erases_no_earlier_attempt(line: Lineage, reply: str) -> None:
    """Except where the provider keeps refusals under the key."""
    line.contract = but(line.contract, replies__refusals_stored=False)
    line.now += 1000 * SECOND
    line.release().lost()
    line.release(key="key-1", payload_hash="p1").returned("replied", reply)
    verdict = line.verdict()
    assert verdict.finding is F.UNKNOWN or verdict.effects


@given(lineages(usual), contexts)
def test_nothing_is_sent_while_an_attempt_is_uncertain(line: Lineage, context: Context) -> None:
    """A fresh effect follows only from absence proved, or from a replay that is safe."""
    found = line.judge(**context._asdict())
    if found.row.decision is Decision.EXECUTE and found.verdict.open:
        assert found.facts.replay
        promised = line.contract.key.first_result or line.contract.convergent
        assert promised
    if found.row.decision is Decision.ADOPT:
        assert found.verdict.finding is not F.UNKNOWN


@given(lineages(usual), st.integers(1, 600))
def test_time_alone_proves_nothing(line: Lineage, seconds: int) -> None:
    assert line.verdict(as_of=line.now / SECOND + seconds) == line.verdict()


@given(lineages())
def test_a_journal_that_may_have_lost_something_proves_less(line: Lineage) -> None:
    whole, torn = line.verdict(), line.verdict(complete=False)
    if torn.finding is not whole.finding:
        assert whole.finding in ABSENT
        assert torn.finding in (F.UNKNOWN, F.NOT_APPLIED)


@given(lineages())
def test_seen_effects_stay_seen(line: Lineage) -> None:
    """Whatever else is learnt, an effect that was proved is not forgotten."""
    line.release().seen("EXT-9")
    for later in (line.absent, line.refusal, line.unreadable, line.lost, line.leased):
        later()
        assert any(item.reference == "EXT-9" for item in line.verdict().effects)


def test_prefixes_of_a_lineage_are_cut_alike() -> None:
    line = Lineage().release().replied().seen()
    entries = line.chain.entries
    for length in range(len(entries) + 1):
        line.chain.entries = entries[:length]
        found = line.cut()
        assert found.position == length
        assert found.digest == (entries[length - 1].digest if length else GENESIS)
