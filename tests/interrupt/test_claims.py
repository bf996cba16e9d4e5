"""One id, one intent, one release: conflicts at any time, claims by many, authority, needs."""

from __future__ import annotations

import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import ascertain as a
from ascertain.errors import IntentConflict, RecoveryRefused
from tests.interrupt.forked import Child, value
from tests.interrupt.scene import Ledger, Scene, contract, word

# --- the same id with another amount -------------------------------------------------------------


@pytest.mark.parametrize("fate", ["commits", "lost", "dropped"])
def test_the_same_id_with_another_amount_is_a_conflict(tmp_path: Path, fate: str) -> None:
    scene = Scene(tmp_path, "readback", fate=fate)
    scene.perform("pay", 7)
    for _ in range(2):
        with pytest.raises(IntentConflict):
            scene.perform("pay", 8)
    scene.fate = "commits"
    scene.journal.recover("pay")
    with pytest.raises(IntentConflict):
        scene.perform("pay", 8)
    assert word(scene.perform("pay", 7)) == "Applied"
    assert len(scene.ledger.effects("pay")) == 1


def test_a_refused_action_keeps_its_intent(tmp_path: Path) -> None:
    scene = Scene(tmp_path, "readback", policy=a.limits({"amount": 5}))
    assert word(scene.perform("pay", 7)) == "NotApplied"
    with pytest.raises(IntentConflict):
        scene.perform("pay", 4)


def test_a_conflict_while_another_process_is_in_its_release(tmp_path: Path) -> None:
    def slow() -> str:
        scene = Scene(tmp_path, "readback")
        send = scene.send

        def waiting(call: Any, payee: str, amount: int) -> Any:
            (tmp_path / "sent").touch()
            until(tmp_path / "go")
            return send(call, payee, amount)

        scene.send = waiting  # type: ignore[method-assign]
        return word(scene.perform("pay", 7))

    worker = Child(slow)
    until(tmp_path / "sent")

    def other() -> list[Any]:
        scene = Scene(tmp_path, "readback")
        try:
            scene.perform("pay", 8)
            said = "went through"
        except IntentConflict:
            said = "conflict"
        return [said, word(scene.perform("pay", 7)), scene.sent]

    assert value(other) == ["conflict", "Unknown", 0]
    (tmp_path / "go").touch()
    assert worker.wait().value == "Applied"
    assert value(other) == ["conflict", "Applied", 0]


def until(path: Path) -> None:
    from tests.interrupt.test_stop import wait_for

    wait_for(path)


def test_what_is_sent_again_is_what_was_recorded(tmp_path: Path) -> None:
    """A field outside of the fingerprint may differ in a later call; the request does not."""
    journal = a.open(tmp_path / "journal.db", policy=a.limits())
    sent: list[str] = []

    @journal.action("pay", contract=contract("key"), fingerprint=("amount",))
    def pay(call: Any, *, amount: int, memo: str) -> Any:
        sent.append(memo)
        if len(sent) == 1:
            raise a.NoEffect("busy")
        return {"id": "e1"}

    assert word(pay.perform("pay", amount=7, memo="first")) == "NotApplied"
    assert word(pay.perform("pay", amount=7, memo="second")) == "Applied"
    assert sent == ["first", "first"]


# --- concurrent claims ---------------------------------------------------------------------------


@pytest.mark.parametrize("count", [2, 16])
def test_concurrent_threads_release_once(tmp_path: Path, count: int) -> None:
    scene = Scene(tmp_path, "neither")
    start = threading.Barrier(count)
    said: list[str] = []

    def claim() -> None:
        start.wait()
        said.append(word(scene.perform("pay")))

    threads = [threading.Thread(target=claim) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert scene.sent == 1
    assert len(said) == count
    assert Counter(said)["Applied"] >= 1
    assert set(said) <= {"Applied", "Unknown"}
    scene.verify("pay")


@pytest.mark.parametrize("count", [2, 16])
def test_concurrent_processes_release_once(tmp_path: Path, count: int) -> None:
    def claim() -> list[Any]:
        scene = Scene(tmp_path, "neither")
        until(tmp_path / "go")
        return [word(scene.perform("pay")), scene.sent]

    workers = [Child(claim) for _ in range(count)]
    (tmp_path / "go").touch()
    ended = [worker.wait() for worker in workers]
    assert [each.error for each in ended if each.error] == []
    assert sum(each.value[1] for each in ended) == 1
    assert {each.value[0] for each in ended} <= {"Applied", "Unknown"}
    assert len(Ledger(tmp_path / "ledger.jsonl").effects("pay")) == 1


@pytest.mark.parametrize("kind", ["key", "readback"])
def test_concurrent_recoveries_release_once_more_at_most(tmp_path: Path, kind: str) -> None:
    value(lambda: word(Scene(tmp_path, kind, fate="dropped").perform("pay")))

    def recover() -> list[Any]:
        scene = Scene(tmp_path, kind)
        until(tmp_path / "go")
        found = scene.journal.recover("pay")
        scene.verify("pay")
        return [found.busy, scene.sent]

    workers = [Child(recover) for _ in range(8)]
    (tmp_path / "go").touch()
    ended = [worker.wait() for worker in workers]
    assert [each.error for each in ended if each.error] == []
    assert sum(each.value[1] for each in ended) == 1, [each.value for each in ended]
    assert len(Ledger(tmp_path / "ledger.jsonl").effects("pay")) == 1


# --- authority ------------------------------------------------------------------------------------


class Policy:
    """An authority whose answers a test makes up. ``ruling`` changes the usual one."""

    def __init__(self, **changes: Any) -> None:
        self.plain = a.limits({"amount": 1000})
        self.changes = changes
        self.verbs: tuple[str, ...] | None = None

    def decide(self, request: a.Request) -> Any:
        import msgspec

        change = self.changes.get("decide")
        if change is not None:
            return change(request)
        return msgspec.structs.replace(self.plain.decide(request), **self.changes)

    def grants(self, request: a.Request) -> Any:
        found = self.plain.grants(request)
        return tuple(x for x in found if self.verbs is None or x.verb in self.verbs)


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.time = 1_700_000_000_000_000
        self.steps: list[int] = []

    def now(self) -> int:
        self.time += self.steps.pop(0) if self.steps else 1
        return self.time


def test_a_decision_that_expires_before_the_release_releases_nothing(tmp_path: Path) -> None:
    clock = Clock()
    scene = Scene(tmp_path, "readback", policy=a.limits(valid_for=100), clock=clock)
    clock.steps = [1, 1, 1_000_000]  # asked, drafted; the look before the release comes too late
    outcome = scene.perform("pay")
    assert (word(outcome), scene.sent) == ("NotApplied", 0)
    entries = scene.journal.journal.entries("pay")
    sent = [x.record for x in entries if type(x.record).__name__ == "AttemptReleased"]
    back = [x.record.transport for x in entries if type(x.record).__name__ == "AttemptReturned"]
    assert (len(sent), back) == (1, ["not_sent"])
    assert word(scene.perform("pay")) == "Applied"


def test_a_decision_that_expires_after_the_release_does_not_matter(tmp_path: Path) -> None:
    clock = Clock()
    scene = Scene(tmp_path, "readback", fate="lost", policy=a.limits(valid_for=100), clock=clock)
    assert word(scene.perform("pay")) == "Unknown"
    clock.time += 3_600_000_000
    found = scene.journal.recover("pay", authority=Policy(outcome="deny"))
    assert (found.decision, word(found.outcome)) == ("adopt", "Applied")


def broken(request: a.Request) -> Any:
    raise RuntimeError("the policy server is down")


@pytest.mark.parametrize(
    "changes",
    [
        {"decide": broken},
        {"decide": lambda request: True},
        {"decide": lambda request: None},
        {"decide": lambda request: {"outcome": "allow"}},
        {"outcome": "deny"},
        {"outcome": "permit"},
        {"action_id": "another"},
        {"valid_until": 1},
        {"valid_from": 2**52},
        {"limits": {"amount": 3}},
        {"limits": {"colour": 3}},
    ],
)
def test_what_is_not_a_valid_allow_releases_nothing(tmp_path: Path, changes: Any) -> None:
    scene = Scene(tmp_path, "readback", policy=Policy(**changes))
    outcome = scene.perform("pay")
    assert (word(outcome), scene.sent) == ("NotApplied", 0)
    assert outcome.refused
    assert word(scene.perform("pay", authority=a.limits())) == "Applied"


@pytest.mark.parametrize(
    "changes",
    [
        {"valid_until": "soon"},
        {"valid_from": None},
        {"limits": None},
        {"limits": {"amount": "much"}},
        {"decision_id": 7},
        {"uses": "once"},
    ],
)
def test_a_ruling_with_rubbish_in_it_is_a_deny(tmp_path: Path, changes: Any) -> None:
    scene = Scene(tmp_path, "readback", policy=Policy(**changes))
    outcome = scene.perform("pay")
    assert (word(outcome), scene.sent) == ("NotApplied", 0)

    assert word(scene.perform("pay", authority=a.limits())) == "Applied"
    scene.verify("pay")


@pytest.mark.parametrize(
    "grants",
    [
        None,
        7,
        [True],
        [a.Grant(verb="continue", capability_id="c", actor="x", scope="*",
                 valid_until="soon", policy_version="1")],  # type: ignore[arg-type]
        [a.Grant(verb="continue", capability_id="c", actor="x", scope="another",
                 valid_until=2**52, policy_version="1")],
        [a.Grant(verb="continue", capability_id="c", actor="x", scope="*",
                 valid_until=1, policy_version="1")],
    ],
)  # fmt: skip
def test_rubbish_grants_nothing(tmp_path: Path, grants: Any) -> None:
    value(lambda: word(Scene(tmp_path, "readback", fate="dropped").perform("pay")))
    policy = Policy()
    policy.grants = lambda request: grants  # type: ignore[method-assign]
    scene = Scene(tmp_path, "readback", policy=policy)
    found = scene.journal.recover("pay")
    assert (found.decision, scene.sent) == ("reauthorise", 0)
    assert word(scene.journal.recover("pay", authority=a.limits()).outcome) == "Applied"


def test_a_decision_with_a_count_is_used_as_often_as_it_says(tmp_path: Path) -> None:
    policy = Policy(decision_id="batch-7", action_id=None, uses=2)
    scene = Scene(tmp_path, "readback", policy=policy)
    said = [word(scene.perform(f"pay-{number}")) for number in range(4)]
    assert said == ["Applied", "Applied", "NotApplied", "NotApplied"]
    assert word(scene.perform("pay-0")) == "Applied"
    assert scene.sent == 2


def test_a_lapsed_capability_stops_every_act_and_no_look_is_skipped(tmp_path: Path) -> None:
    value(lambda: word(Scene(tmp_path, "readback", fate="dropped").perform("pay")))
    policy = Policy()
    scene = Scene(tmp_path, "readback", policy=policy)
    policy.verbs = ()
    found = scene.journal.recover("pay")
    assert (found.decision, scene.sent) == ("reauthorise", 0)
    policy.verbs = ("observe",)
    found = scene.journal.recover("pay")
    assert (found.decision, scene.sent) == ("reauthorise", 0)
    policy.verbs = None
    found = scene.journal.recover("pay")
    assert (found.decision, word(found.outcome), scene.sent) == ("execute", "Applied", 1)


# --- needs ----------------------------------------------------------------------------------------


def test_what_needs_an_unknown_action_is_frozen_until_it_is_known(tmp_path: Path) -> None:
    scene = Scene(tmp_path, "readback", fate="lost")
    assert word(scene.perform("first")) == "Unknown"
    scene.fate = "commits"
    outcome = scene.perform("second", needs=["first"])
    assert (word(outcome), outcome.refused) == (
        "NotApplied",
        "an action that it needs is not verified as far as it asks",
    )
    assert word(scene.perform("second")) == "NotApplied", "left out, it is needed all the same"
    found = scene.journal.recover("second")
    assert (found.decision, found.acted) == ("verify", False)
    assert scene.journal.recover("first").decision == "adopt"
    assert word(scene.perform("second", needs=["first"])) == "Applied"
    assert len(scene.ledger.effects("second")) == 1


def test_a_need_that_nobody_knows_is_open(tmp_path: Path) -> None:
    scene = Scene(tmp_path, "readback")
    assert word(scene.perform("second", needs=["first"])) == "NotApplied"
    assert word(scene.perform("first")) == "Applied"
    found = scene.journal.recover("second")
    assert (found.decision, word(found.outcome)) == ("execute", "Applied")


@pytest.mark.parametrize("how", ["rejected", "reversed", "compensated"])
def test_a_need_that_is_broken_stays_broken(tmp_path: Path, how: str) -> None:
    scene = Scene(tmp_path, "readback")
    if how == "rejected":

        def decline(call: Any, payee: str, amount: int) -> Any:
            raise a.Refusal("closed account")

        send, scene.send = scene.send, decline  # type: ignore[method-assign]
        assert word(scene.perform("first")) == "Rejected"
        scene.send = send  # type: ignore[method-assign]
    else:
        assert word(scene.perform("first")) == "Applied"
    if how == "reversed":
        scene.journal.attest(
            "first", claim="reversed", operator="ada", reason="recalled", authority="policy 7"
        )
    if how == "compensated":
        assert word(scene.pay.compensate("first")) == "Reversed"
        assert len(scene.ledger.lines()) == 2
    outcome = scene.perform("second", needs=["first"])
    assert (word(outcome), outcome.refused) == ("NotApplied", "an action that it needs is broken")
    found = scene.journal.recover("second")
    assert (found.decision, found.acted) == ("reauthorise", False)
    assert scene.ledger.effects("second") == []


@pytest.mark.parametrize(
    ("until_word", "said"), [("committed", "Applied"), ("final", "NotApplied")]
)
def test_a_need_asks_for_committed_or_for_final(tmp_path: Path, until_word: str, said: str) -> None:
    journal = a.open(tmp_path / "journal.db", policy=a.limits())
    terms = contract("key", governed="settled")

    @journal.action("slow", contract=terms)
    def slow(call: Any, *, amount: int) -> Any:
        return a.Done(reference="s1", reaches="committed")

    @journal.action("quick", contract=contract("neither"))
    def quick(call: Any, *, amount: int) -> Any:
        return {"id": "q1"}

    assert word(slow.perform("first", amount=1)) == "Pending"
    need = a.Need(action_id="first", lineage="first", until=until_word)
    assert word(quick.perform("second", amount=1, needs=[need])) == said


def test_recovering_an_unknown_id_says_so(tmp_path: Path) -> None:
    with pytest.raises(RecoveryRefused):
        Scene(tmp_path, "key").journal.recover("nobody")
