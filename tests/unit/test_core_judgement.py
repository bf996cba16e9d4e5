"""From a cut to facts and a decision: each fact, and whole histories through to the row."""

from __future__ import annotations

from typing import Any

import pytest

from ascertain.core.contract import SECOND, Contract, InFlight, Key, Scope, Seal
from ascertain.core.cut import View
from ascertain.core.facts import (
    Closure,
    Compensation,
    Decision,
    Effects,
    Finding,
    Needs,
    Preconditions,
)
from ascertain.core.judgement import Context, can_seal, judge, needs_of, safe_replay
from tests.lineages import ACTION, BLIND, KEYED, LEDGER, T0, Lineage, but

F = Finding
E, A, V = Decision.EXECUTE, Decision.ADOPT, Decision.VERIFY
R, C, Q = Decision.REAUTHORISE, Decision.COMPENSATE, Decision.QUARANTINE

FENCED = but(BLIND, seal=Seal(reach="action", store="db"))
BLIND_KEYED = but(BLIND, key=KEYED.key)
NONE: frozenset[str] = frozenset()


def lost(contract: Contract = LEDGER, **changes: Any) -> Lineage:
    return Lineage(contract).release(at=10, **changes).lost(at=12)


def told() -> Lineage:
    return Lineage().release(at=10).returned("replied", "http:429")


def twice() -> Lineage:
    return Lineage().release().lost().release().lost().seen("EXT-1").seen("EXT-2")


def tried(times: int) -> Lineage:
    line = Lineage()
    for _ in range(times):
        line.release().returned("not_sent")
    return line


BLOCKED = {"observable": False}
CASES: dict[str, tuple[Lineage, dict[str, Any], str, Decision]] = {
    "never released": (Lineage(), {}, "not-applied/execute", E),
    "never released, journal incomplete": (Lineage(), {"complete": False}, "unknown/verify", V),
    "a 429": (told(), {}, "not-applied/execute", E),
    "the last attempt is left": (tried(2), {}, "not-applied/execute", E),
    "no attempt is left": (tried(3), {}, "not-applied/attempts-used", Q),
    "no authority": (told(), {"authority": False}, "not-applied/authority-lapsed", R),
    "continue lapsed": (
        told(), {"verbs": frozenset({"observe"})}, "not-applied/continue-lapsed", R
    ),
    "only continue is held": (
        told(), {"verbs": frozenset({"continue"})}, "not-applied/execute", E
    ),
    "preconditions broken": (
        told(), {"preconditions": Preconditions.BROKEN}, "not-applied/precondition-broken", R
    ),
    "preconditions unverified": (
        told(), {"preconditions": Preconditions.UNVERIFIED},
        "not-applied/precondition-unverified", V,
    ),
    "preconditions unverified, nobody to ask": (
        told(), {"preconditions": Preconditions.UNVERIFIED, **BLOCKED},
        "not-applied/precondition-unverified", V,
    ),
    "a need is open": (told(), {"needs": Needs.OPEN}, "not-applied/needs-open", V),
    "a need is broken": (told(), {"needs": Needs.BROKEN}, "not-applied/needs-broken", R),
    "the breaker is open": (
        told(), {"breaker_until": T0 + 90 * SECOND}, "not-applied/breaker-open", V
    ),
    "lost": (lost(), {}, "unknown/verify", V),
    "lost, observing lapsed": (lost(), {"verbs": NONE}, "unknown/verify/unobserved", R),
    "lost, nobody to ask": (lost(BLIND), BLOCKED, "unknown/no-safe-replay", Q),
    "lost, nobody to ask, authority lapsed": (
        lost(BLIND), {"authority": False, **BLOCKED}, "unknown/authority-lapsed", R
    ),
    "lost, nobody to ask, continue lapsed": (
        lost(BLIND), {"verbs": frozenset({"observe"}), **BLOCKED}, "unknown/continue-lapsed", R
    ),
    "lost, keyed, nobody to ask": (lost(BLIND_KEYED), BLOCKED, "unknown/replay", E),
    "lost, keyed, somebody to ask: look first": (lost(KEYED), {}, "unknown/verify", V),
    "lost, keyed, preconditions moved": (
        lost(BLIND_KEYED), {"preconditions": Preconditions.BROKEN, **BLOCKED},
        "unknown/precondition", Q,
    ),
    "lost, keyed, a need is open": (
        lost(BLIND_KEYED), {"needs": Needs.OPEN, **BLOCKED}, "unknown/needs", Q
    ),
    "lost, keyed, no attempt left": (
        lost(but(BLIND_KEYED, attempts=1)), BLOCKED, "unknown/attempts-used", Q
    ),
    "lost, keyed, breaker open: wait for it": (
        lost(BLIND_KEYED), {"breaker_until": T0 + 90 * SECOND, **BLOCKED}, "unknown/verify", V
    ),
    "lost, sealable": (
        lost(FENCED, fence="f"), {"sealable": True, **BLOCKED}, "unknown/verify", V
    ),
    # A seal needs the compensate capability; without it there is nothing more to be had.
    "lost, sealable, compensate lapsed": (
        lost(FENCED, fence="f"),
        {"sealable": True, "verbs": frozenset({"observe", "continue"}), **BLOCKED},
        "unknown/no-safe-replay", Q,
    ),
    "lost, the seal would not settle it": (
        lost(FENCED), {"sealable": True, **BLOCKED}, "unknown/no-safe-replay", Q
    ),
    "sealed": (lost(FENCED, fence="f").sealed("f"), {}, "not-applied/sealed", R),
    "declined": (
        Lineage().release().returned("replied", "declined"), {}, "rejected", A
    ),
    "applied": (lost().seen(), {}, "applied/final", A),
    "applied, everything lapsed": (
        lost().seen(), {"authority": False, "verbs": NONE}, "applied/final", A
    ),
    "applied, journal incomplete": (lost().seen(), {"complete": False}, "applied/final", A),
    "applied, not compared": (lost().seen(fields=None), {}, "applied/short", V),
    "applied, not compared, nobody to ask": (
        lost().seen(fields=None), BLOCKED, "applied/short/exhausted", Q
    ),
    "provisional": (Lineage().release().replied("queued"), {}, "applied/provisional", V),
    "reversed": (lost().seen(reversed_by="REV-1"), {}, "applied/reversed", A),
    "compensated by us": (
        lost().seen(reversed_by="pay-1/c"), {"compensation": Compensation.APPLIED},
        "applied/reversed", A,
    ),
    "compensation under way": (
        lost().seen(), {"compensation": Compensation.OPEN, **BLOCKED},
        "compensation-open/applied", V,
    ),
    "compensation failed": (
        lost().seen(), {"compensation": Compensation.FAILED}, "compensation-failed/applied", Q
    ),
    # A compensation stands on an effect; where none is proved (any more) it is no fact.
    "compensation beside nothing": (
        lost(), {"compensation": Compensation.OPEN, **BLOCKED}, "unknown/no-safe-replay", Q
    ),
    "another amount": (
        lost().seen(fields={"payee": "Northwind", "amount": 1}), {}, "mismatch/conflict", Q
    ),
    "two effects": (twice(), {"compensator": True}, "surplus/compensate", C),
    "two effects, journal incomplete": (
        twice(), {"compensator": True, "complete": False}, "surplus/sources", Q
    ),
    "two effects, no compensator": (twice(), {}, "surplus/no-compensator", Q),
    "two effects, compensate lapsed": (
        twice(), {"compensator": True, "verbs": NONE}, "surplus/capability-lapsed", R
    ),
    "two effects, one without reference": (
        twice().seen(None), {"compensator": True}, "surplus/inexact", Q
    ),
    "two effects, a third may land": (
        twice().release().lost(), {"compensator": True}, "surplus/unsettled", V
    ),
    "two effects, compensated": (
        twice(), {"compensation": Compensation.APPLIED}, "compensated/surplus", A
    ),
    "an effect under a deny": (
        Lineage(decided="deny").seen(), {"compensator": True}, "denied/compensate", C
    ),
    "two effects under a deny": (
        Lineage(decided="deny").seen("EXT-1").seen("EXT-2"), {"compensator": True},
        "denied/compensate", C,
    ),
    "an attempt under a deny, unknown": (
        Lineage(decided="deny").release().lost(), {}, "unknown/verify", V
    ),
    "an orphan effect": (Lineage(decided=None).seen(), {}, "cause-missing/one", V),
    "an orphan effect, nobody to ask": (
        Lineage(decided=None).seen(), BLOCKED, "cause-missing/one/exhausted", Q
    ),
    "an effect of another's payload": (
        Lineage().release(payload_hash="p2").lost().seen(), {}, "mismatch/one", Q
    ),
    "a missing cause and a mismatch": (
        Lineage(decided=None).release(payload_hash="p2").lost().seen(), {}, "mismatch/one", Q
    ),
    "released under a stale epoch": (
        Lineage().leased(epoch=2).release().lost(), {}, "mismatch/none", Q
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_history_comes_to_its_row(name: str) -> None:
    line, context, row, decision = CASES[name]
    found = line.judge(**context)
    assert (found.row.name, found.row.decision) == (row, decision)
    assert found.row.matches(found.facts)
    assert found.verdict == line.verdict(complete=context.get("complete", True))
    assert list(found.violations) == line.violations()


def test_each_fact_says_what_it_means() -> None:
    facts = lost().judge().facts
    assert facts.closure is Closure.CLOSED
    assert (facts.finding, facts.effects) == (F.UNKNOWN, Effects.NONE)
    assert facts.exact
    assert facts.settled
    assert facts.sources
    assert facts.more
    assert not facts.replay
    assert facts.authority
    assert (facts.observe, facts.proceed, facts.counteract) == (True, True, True)
    assert not facts.compensator
    assert facts.attempts_left
    assert not facts.breaker_open
    assert facts.needs is Needs.MET
    assert facts.preconditions is Preconditions.HOLD


@pytest.mark.parametrize(
    ("verb", "name"),
    [("observe", "observe"), ("continue", "proceed"), ("compensate", "counteract")],
)
def test_each_verb_is_its_own_capability(verb: str, name: str) -> None:
    facts = lost().judge(verbs=frozenset({verb})).facts
    held = {"observe": facts.observe, "proceed": facts.proceed, "counteract": facts.counteract}
    assert held == {each: each == name for each in ("observe", "proceed", "counteract")}


def test_open_attempts_unsettle_effects_only() -> None:
    assert lost().judge().facts.settled
    assert not lost().release().lost().seen().judge().facts.settled
    assert lost().seen().judge().facts.settled


def test_a_context_starts_with_nothing() -> None:
    found = judge(lost().cut(), ACTION, LEDGER, Context())
    facts = found.facts
    assert (facts.authority, facts.observe, facts.proceed, facts.counteract) == (False,) * 4
    assert not facts.more
    assert not facts.compensator
    assert found.row.name == "unknown/authority-lapsed"
    assert not can_seal(View(ACTION), Context())


def test_an_action_that_is_not_in_the_cut() -> None:
    found = judge(lost().cut(), "nobody", LEDGER, Context(observable=True))
    assert found.verdict.finding is F.UNKNOWN
    assert found.row.name == "unknown/verify/unobserved"


def test_when_to_look_again() -> None:
    line = lost()
    assert line.judge().next_observation == line.verdict().next_look
    assert line.judge(breaker_until=7).next_observation == 7
    assert line.judge(breaker_until=7).facts.breaker_open


def test_looking_ends_with_the_budget() -> None:
    line = lost(but(BLIND, observation__looks=2))
    assert line.unreadable().judge().facts.more
    assert not line.unreadable().judge().facts.more


def test_preconditions_are_looked_at_as_often_as_the_budget_says() -> None:
    line = told()
    line.contract = but(observation__looks=2)
    unverified = {"preconditions": Preconditions.UNVERIFIED}
    line.precondition("hold")
    line.precondition("broken")
    line.precondition("unverified")
    assert line.judge(**unverified).facts.more
    line.precondition("unverified")
    assert not line.judge(**unverified).facts.more
    assert line.judge(**unverified).row.name == "not-applied/precondition-unverified/exhausted"
    assert line.judge(needs=Needs.OPEN).facts.more
    assert line.judge(breaker_until=9).facts.more
    assert line.judge(needs=Needs.BROKEN).row.decision is R
    line.release().returned("not_sent")
    assert line.judge(**unverified).facts.more


def test_preconditions_before_the_first_release_are_counted_too() -> None:
    line = Lineage(but(observation__looks=1))
    assert line.judge().facts.more
    line.precondition("unverified")
    assert not line.judge().facts.more
    first = Lineage(but(observation__looks=1), intent=False, decided=None)
    first.precondition("unverified")
    first.intent()
    first.decided()
    assert not first.judge().facts.more


def test_what_a_compensation_adds() -> None:
    exhausted = lost(but(BLIND, observation__looks=1)).seen()
    assert exhausted.judge(compensation=Compensation.OPEN).facts.more
    assert not exhausted.judge(compensation=Compensation.FAILED).facts.more
    assert not lost(BLIND).judge(compensation=Compensation.OPEN, observable=False).facts.more
    assert lost().judge(compensation=Compensation.OPEN).facts.compensation is Compensation.NONE
    applied = lost().seen().judge(compensation=Compensation.APPLIED).facts
    assert applied.compensation is Compensation.APPLIED


# --- seals -------------------------------------------------------------------------------


def test_a_seal_settles_attempts_on_the_one_fence() -> None:
    sealable = Context(sealable=True)
    assert can_seal(lost(fence="f").view, sealable)
    assert can_seal(lost(fence="f").release(fence="f").view, sealable)
    assert can_seal(Lineage().view, sealable)
    assert not can_seal(lost(fence="f").view, Context(sealable=False))
    assert not can_seal(lost().view, sealable)
    assert not can_seal(lost(fence="f").release().view, sealable)
    assert not can_seal(lost(fence="f").release(fence="g").view, sealable)
    assert not can_seal(lost(fence="f").sealed("f").view, sealable)


# --- safe replay -------------------------------------------------------------------------

MINUTE_KEY = but(
    BLIND,
    key=Key(scope=Scope.PROVIDER, retention=60 * SECOND, first_result=True),
    in_flight=InFlight(
        after_release=10 * SECOND, after_close=4 * SECOND, longest_pause=20 * SECOND
    ),
)
RETRYING = but(BLIND, convergent=True)


def replay(line: Lineage, as_of: float) -> bool:
    found = line.cut(as_of=as_of)
    answer = safe_replay(line.view, line.contract, line.verdict(), found.as_of)
    assert isinstance(answer, bool)
    return answer


def test_a_key_kept_for_ever_is_always_safe() -> None:
    assert replay(lost(BLIND_KEYED), 10**6)
    assert replay(Lineage(BLIND_KEYED).release(), 100)


@pytest.mark.parametrize(
    "line",
    [
        Lineage(BLIND_KEYED),
        lost(BLIND),
        lost(BLIND_KEYED).seen(),
        lost(but(BLIND_KEYED, key__first_result=False)),
        lost(but(BLIND_KEYED, key__retention=None)),
        lost(BLIND_KEYED).release(key="key-2"),
        lost(BLIND_KEYED).release(payload_hash="p2"),
        lost(but(MINUTE_KEY, in_flight__after_release=None)),
        Lineage(but(MINUTE_KEY, in_flight__longest_pause=None)).release(at=10),
        Lineage(RETRYING),
        lost(RETRYING).seen(),
    ],
)  # fmt: skip
def test_a_replay_that_is_not_safe(line: Lineage) -> None:
    assert not replay(line, 11)


def test_what_converges_may_always_be_sent_again() -> None:
    assert replay(lost(RETRYING), 10**6)
    assert replay(lost(RETRYING).release(key="key-2"), 10**6)


def test_what_is_left_of_the_keys_retention_exceeds_bound_and_skew() -> None:
    """Released at 10 s, kept until 70 s; less 5 s skew and 10 s bound: before 55 s."""
    assert replay(lost(MINUTE_KEY), 54.999999)
    assert not replay(lost(MINUTE_KEY), 55)


def test_what_is_left_exceeds_the_pause_of_an_executor_that_is_not_quiet() -> None:
    """20 s more, since nothing is known of the first executor: before 35 s."""
    line = Lineage(MINUTE_KEY).release(at=10)
    assert replay(line, 34.999999)
    assert not replay(line, 35)
    assert replay(line.gone(at=40), 54)
    second = lost(MINUTE_KEY).release(at=20)
    assert replay(second, 34.999999)
    assert not replay(second, 35)


def test_an_executor_whose_pause_is_unknown_is_safe_once_it_is_quiet() -> None:
    contract = but(MINUTE_KEY, in_flight__longest_pause=None)
    assert replay(lost(contract), 54)


def test_a_quiet_point_beyond_the_retention_is_not_safe() -> None:
    """A request that is closed late may land late."""
    contract = but(MINUTE_KEY, in_flight__after_close=50 * SECOND)
    assert replay(lost(contract), 20)
    assert replay(Lineage(contract).release(at=10).lost(at=14.999999), 20)
    assert not replay(Lineage(contract).release(at=10).lost(at=15), 20)


def test_retention_runs_from_the_first_release() -> None:
    line = lost(MINUTE_KEY).release(at=40).lost(at=41)
    assert replay(line, 54.999999)
    assert not replay(line, 55)


# --- needs -------------------------------------------------------------------------------

NONE_MADE = Compensation.NONE
NEEDS: list[tuple[list[tuple[Finding, Compensation, str]], Needs]] = [
    ([], Needs.MET),
    ([(F.APPLIED_FINAL, NONE_MADE, "committed")], Needs.MET),
    ([(F.APPLIED_FINAL, NONE_MADE, "final")], Needs.MET),
    ([(F.APPLIED_PROVISIONAL, NONE_MADE, "accepted")], Needs.MET),
    ([(F.APPLIED_PROVISIONAL, NONE_MADE, "committed")], Needs.OPEN),
    ([(F.APPLIED_PROVISIONAL, NONE_MADE, "final")], Needs.OPEN),
    ([(F.APPLIED_SHORT, NONE_MADE, "committed")], Needs.OPEN),
    ([(F.APPLIED_SHORT, NONE_MADE, "accepted")], Needs.OPEN),
    ([(F.UNKNOWN, NONE_MADE, "committed")], Needs.OPEN),
    ([(F.NOT_APPLIED, NONE_MADE, "committed")], Needs.OPEN),
    ([(F.CONFLICT, NONE_MADE, "committed")], Needs.OPEN),
    ([(F.REJECTED, NONE_MADE, "committed")], Needs.BROKEN),
    ([(F.NOT_APPLIED_SEALED, NONE_MADE, "committed")], Needs.BROKEN),
    ([(F.APPLIED_REVERSED, NONE_MADE, "committed")], Needs.BROKEN),
    ([(F.APPLIED_FINAL, Compensation.APPLIED, "committed")], Needs.BROKEN),
    ([(F.APPLIED_FINAL, Compensation.OPEN, "committed")], Needs.OPEN),
    ([(F.APPLIED_FINAL, Compensation.FAILED, "committed")], Needs.OPEN),
    # One valid effect may be left; which one is not said here, so the need counts as broken.
    ([(F.CONFLICT, Compensation.APPLIED, "committed")], Needs.BROKEN),
    (
        [(F.APPLIED_FINAL, NONE_MADE, "committed"), (F.UNKNOWN, NONE_MADE, "committed")],
        Needs.OPEN,
    ),
    (
        [(F.UNKNOWN, NONE_MADE, "committed"), (F.APPLIED_FINAL, NONE_MADE, "committed")],
        Needs.OPEN,
    ),
    ([(F.UNKNOWN, NONE_MADE, "committed"), (F.REJECTED, NONE_MADE, "committed")], Needs.BROKEN),
]


@pytest.mark.parametrize(("findings", "needs"), NEEDS)
def test_needs(findings: list[tuple[Finding, Compensation, str]], needs: Needs) -> None:
    assert needs_of(findings) is needs
