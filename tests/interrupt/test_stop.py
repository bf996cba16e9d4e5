"""A worker that stands still (SIGSTOP) while another one recovers, and then goes on.

The worker is stopped at the worst places: after its release and before the provider commits,
and between the durable claim and the release.
"""

from __future__ import annotations

import signal
import time
from pathlib import Path
from typing import Any

import pytest

import ascertain as a
from ascertain.core.records import AttemptReturned, LeaseTaken
from tests.interrupt.forked import Child, Point, Striker, value
from tests.interrupt.scene import KINDS, Scene, contract, word

LEASE = 150_000
"""Microseconds: a lease that runs out while its holder stands still."""


def mark(place: Path, name: str) -> None:
    (place / name).touch()


def wait_for(path: Path, *, most_s: float = 20.0) -> None:
    until = time.monotonic() + most_s
    while not path.exists():
        assert time.monotonic() < until, f"{path.name} did not come"
        time.sleep(0.005)


class StopsWhenSent(Scene):
    """The request has left; the provider commits only when the worker goes on."""

    def send(self, call: Any, payee: str, amount: int) -> Any:
        mark(self.place, "sent")
        signal.raise_signal(signal.SIGSTOP)
        return super().send(call, payee, amount)

    place: Path


def slow(place: Path, kind: str, action_id: str) -> dict[str, Any]:
    """The worker that is stopped after its release."""
    scene = StopsWhenSent(place, kind, lease=LEASE)
    scene.place = place
    outcome = scene.perform(action_id)
    entries = scene.journal.journal.entries(action_id)
    scene.verify(action_id)
    return {
        "outcome": word(outcome),
        "late": sum(isinstance(entry.record, AttemptReturned) for entry in entries),
    }


def second(place: Path, kind: str, action_id: str, rounds: int = 3) -> list[list[Any]]:
    """Another worker, whose readback is truthful: recovers as soon as the lease is over."""
    scene = Scene(place, kind, lease=LEASE)
    said: list[list[Any]] = []
    until = time.monotonic() + 10.0
    while len(said) < rounds and time.monotonic() < until:
        found = scene.journal.recover(action_id)
        if found.busy:
            time.sleep(0.05)
            continue
        said.append([found.decision, word(found.outcome), len(scene.ledger.effects(action_id))])
    scene.verify(action_id)
    return said


def last(place: Path, kind: str, action_id: str) -> list[Any]:
    """Where it ends: the decision, the outcome, what a repeated call gets, and the effects."""
    scene = Scene(place, kind)
    found = scene.journal.recover(action_id)
    for _ in range(3):
        if found.decision not in ("execute", "verify"):
            break
        found = scene.journal.recover(action_id)
    again = scene.perform(action_id)
    scene.verify(action_id)
    return [
        found.decision, word(found.outcome), word(again), len(scene.ledger.effects(action_id))
    ]  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_a_worker_stopped_between_release_and_commit(tmp_path: Path, kind: str) -> None:
    worker = Child(slow, tmp_path, kind, "pay")
    wait_for(tmp_path / "sent")
    said = value(second, tmp_path, kind, "pay")
    assert len(said) == 3
    for decision, outcome, effects in said:
        if kind == "key":  # the same key again is safe
            assert (outcome, effects) == ("Applied", 1), said
        elif kind == "seal":  # what the seal ends, no one can do any more
            assert (decision, outcome, effects) == ("reauthorise", "NotApplied", 0), said
        else:
            assert (outcome, effects) == ("Unknown", 0), said
            assert decision != "execute"
    worker.send(signal.SIGCONT)
    ended = worker.wait()
    assert not ended.error, ended.error
    decision, outcome, again, effects = value(last, tmp_path, kind, "pay")
    assert decision == "adopt", (decision, outcome)
    if kind == "seal":  # it was refused when it came at last
        assert (outcome, again, effects) == ("Rejected", "Rejected", 0)
    else:
        assert (outcome, again, effects) == ("Applied", "Applied", 1)


def held(place: Path, kind: str, action_id: str, name: str) -> dict[str, Any]:
    """The worker that is stopped between its claim and its release."""

    def stop() -> None:
        mark(place, "claimed")
        signal.raise_signal(signal.SIGSTOP)

    striker = Striker(Point("op-after", 1, name), stop)
    scene = Scene(place, kind, lease=LEASE, striker=striker)
    with striker.watching():
        outcome = scene.perform(action_id)
    return {"outcome": word(outcome), "sent": scene.sent, "why": getattr(outcome, "refused", "")}


@pytest.mark.parametrize("kind", KINDS)
def test_a_worker_stopped_between_claim_and_release_sends_nothing(
    tmp_path: Path, kind: str
) -> None:
    worker = Child(held, tmp_path, kind, "pay", "journal.claim")
    wait_for(tmp_path / "claimed")
    said = value(second, tmp_path, kind, "pay", 1)
    if kind in ("readback", "neither"):
        assert said[0][1] == "Unknown", said
    worker.send(signal.SIGCONT)
    ended = worker.wait()
    assert not ended.error, ended.error
    assert ended.value["sent"] == 0, ended.value
    decision, outcome, again, effects = value(last, tmp_path, kind, "pay")
    if kind == "seal":
        assert (outcome, again, effects) == ("NotApplied", "NotApplied", 0)
    else:
        # It is known now that the first attempt was never sent.
        assert (again, effects) == ("Applied", 1), (decision, outcome)


def test_a_worker_stopped_after_its_last_look_may_still_act(tmp_path: Path) -> None:
    """The epoch was looked at and held; then the process stood still: nobody may say no."""
    worker = Child(held, tmp_path, "readback", "pay", "journal.epoch")
    wait_for(tmp_path / "claimed")
    said = value(second, tmp_path, "readback", "pay")
    assert {outcome for _, outcome, _ in said} == {"Unknown"}, said
    assert "execute" not in {decision for decision, _, _ in said}
    worker.send(signal.SIGCONT)
    ended = worker.wait()
    assert not ended.error, ended.error
    # The lease ran out while it stood still, which it sees by its own clock.
    assert ended.value["sent"] == 0, ended.value
    *_, again, effects = value(last, tmp_path, "readback", "pay")
    assert (again, effects) == ("Applied", 1)


# --- after a takeover ----------------------------------------------------------------------------


def late(place: Path, action_id: str) -> list[Any]:
    """Stopped in the release; its reply comes when somebody else holds the lease."""
    scene = StopsWhenSent(place, "neither", lease=LEASE)
    scene.place = place
    outcome = scene.perform(action_id)
    row = scene.journal.journal.action(action_id)
    assert row is not None
    return [word(outcome), row.open, row.finding, row.epoch]


def test_a_late_reply_is_evidence_and_closes_the_action(tmp_path: Path) -> None:
    worker = Child(late, tmp_path, "pay")
    wait_for(tmp_path / "sent")
    said = value(second, tmp_path, "neither", "pay", 1)
    assert said[0][:2] == ["quarantine", "Unknown"]
    worker.send(signal.SIGCONT)
    ended = worker.wait()
    assert not ended.error, ended.error
    assert ended.value == ["Applied", True, "applied_final", 2]
    decision, outcome, again, effects = value(last, tmp_path, "neither", "pay")
    assert (decision, outcome, again, effects) == ("adopt", "Applied", "Applied", 1)


def decide_late(place: Path, kind: str, action_id: str, name: str) -> dict[str, Any]:
    """A recovery that is stopped before an op, while another one takes over."""

    def stop() -> None:
        if not (place / "claimed").exists():
            mark(place, "claimed")
            signal.raise_signal(signal.SIGSTOP)

    striker = Striker(Point("op-before", 1, name), stop)
    scene = Scene(place, kind, lease=LEASE, striker=striker)
    with striker.watching():
        found = scene.journal.recover(action_id)
    scene.verify(action_id)
    return {"busy": found.busy, "sent": scene.sent, "decision": found.decision}


def lost(place: Path, kind: str, action_id: str) -> str:
    return word(Scene(place, kind, fate="lost", lease=LEASE).perform(action_id))


def epochs(place: Path, action_id: str) -> list[Any]:
    """The epochs of the acts in order, each with what it was."""
    scene = Scene(place, "key")
    found = [
        [entry.record.epoch, type(entry.record).__name__]
        for entry in scene.journal.journal.entries(action_id)
        if hasattr(entry.record, "epoch") and not isinstance(entry.record, AttemptReturned)
    ]
    return found


STEPS = [
    "adapter.grants", "adapter.authorise", "journal.authority", "journal.decide",
    "adapter.sign", "journal.certify", "journal.claim", "journal.epoch",
]  # fmt: skip


@pytest.mark.parametrize("name", STEPS)
def test_a_recovery_that_was_overtaken_neither_decides_nor_releases(
    tmp_path: Path, name: str
) -> None:
    assert value(lost, tmp_path, "key", "pay") == "Unknown"
    first = Child(decide_late, tmp_path, "key", "pay", name)
    wait_for(tmp_path / "claimed")
    said = value(second, tmp_path, "key", "pay", 1)
    assert said[0][1:] == ["Applied", 1], said
    first.send(signal.SIGCONT)
    ended = first.wait()
    assert not ended.error, ended.error
    assert ended.value["sent"] == 0, ended.value
    acts = value(epochs, tmp_path, "pay")
    assert [epoch for epoch, _ in acts] == sorted(epoch for epoch, _ in acts), acts
    *_, again, effects = value(last, tmp_path, "key", "pay")
    assert (again, effects) == ("Applied", 1)


def test_the_lease_of_a_living_worker_is_respected_until_it_runs_out(tmp_path: Path) -> None:
    worker = Child(slow, tmp_path, "neither", "pay")
    wait_for(tmp_path / "sent")

    def look() -> list[Any]:
        scene = Scene(tmp_path, "neither")
        found = scene.journal.recover("pay")
        entries = scene.journal.journal.entries("pay")
        return [found.busy, sum(isinstance(entry.record, LeaseTaken) for entry in entries)]

    busy, taken = value(look)
    assert (busy, taken) in ((True, 0), (False, 1))
    worker.send(signal.SIGCONT)
    assert not worker.wait().error


def test_the_contract_of_the_stopped_worker_has_no_bound() -> None:
    """What the tests above rest on: no passing of time proves anything against these."""
    for kind in ("key", "seal", "neither"):
        assert contract(kind).in_flight == a.InFlight()


class Ahead:
    """A clock that is an hour ahead of the others'."""

    def now(self) -> int:
        return time.time_ns() // 1000 + 3_600_000_000


def hurried(place: Path, kind: str, action_id: str) -> list[Any]:
    """A worker by whose clock every lease has run out long ago."""
    scene = Scene(place, kind, clock=Ahead())
    found = scene.journal.recover(action_id)
    return [found.busy, word(found.outcome), scene.sent]


def unhurried(place: Path, kind: str, action_id: str) -> dict[str, Any]:
    """Stopped between claim and release, with a lease that holds by its own clock."""

    def stop() -> None:
        mark(place, "claimed")
        signal.raise_signal(signal.SIGSTOP)

    striker = Striker(Point("op-after", 1, "journal.claim"), stop)
    scene = Scene(place, kind, striker=striker)
    with striker.watching():
        outcome = scene.perform(action_id)
    return {"outcome": word(outcome), "sent": scene.sent}


@pytest.mark.parametrize("kind", KINDS)
def test_the_epoch_stops_a_worker_whose_lease_holds_by_its_own_clock(
    tmp_path: Path, kind: str
) -> None:
    worker = Child(unhurried, tmp_path, kind, "pay")
    wait_for(tmp_path / "claimed")
    busy, outcome, sent = value(hurried, tmp_path, kind, "pay")
    assert busy is False
    if kind in ("readback", "neither"):
        assert (outcome, sent) == ("Unknown", 0)
    worker.send(signal.SIGCONT)
    ended = worker.wait()
    assert not ended.error, ended.error
    assert ended.value["sent"] == 0, ended.value
    assert Scene.effects_at(tmp_path) <= 1


def overtaken_by_evidence(place: Path, pid: int, name: str) -> list[Any]:
    """A recovery that has decided to send again; the first reply arrives before it does."""

    def arrive() -> None:
        import os

        os.kill(pid, signal.SIGCONT)
        wait_for(place / "replied")

    striker = Striker(Point("op-before", 1, name), arrive)
    scene = Scene(place, "key", lease=LEASE, striker=striker)
    until = time.monotonic() + 10
    while True:
        with striker.watching():
            found = scene.journal.recover("pay")
        if not found.busy or time.monotonic() > until:
            break
        striker.ops.clear()
        time.sleep(0.05)
    scene.verify("pay")
    return [(place / "replied").exists(), scene.sent, word(found.outcome)]


def replies(place: Path) -> str:
    scene = StopsWhenSent(place, "key", lease=LEASE)
    scene.place = place
    said = word(scene.perform("pay"))
    mark(place, "replied")
    return said


@pytest.mark.parametrize("name", ["journal.decide", "adapter.sign", "journal.certify"])
def test_what_was_learnt_since_the_decision_stops_it(tmp_path: Path, name: str) -> None:
    worker = Child(replies, tmp_path)
    wait_for(tmp_path / "sent")
    replied, sent, outcome = value(overtaken_by_evidence, tmp_path, worker.pid, name)
    assert (replied, sent, outcome) == (True, 0, "Applied")
    assert worker.wait().value == "Applied"
    assert Scene.effects_at(tmp_path) == 1
