"""Ctrl-C at every step, cancelled coroutines, many callers in one process, and forks of it."""

from __future__ import annotations

import asyncio
import signal
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import ascertain as a
from ascertain.core.records import AttemptReleased
from tests.interrupt.forked import Child, Point, Striker, numbered, ops, value
from tests.interrupt.histories import act, finish
from tests.interrupt.histories import check as check_end
from tests.interrupt.scene import KINDS, Ledger, Scene, contract, word

# --- Ctrl-C ---------------------------------------------------------------------------------------


def interrupted(place: Path, kind: str, action_id: str, point: Point) -> list[Any]:
    """A payment with Ctrl-C at a point; the process ends as Python ends it."""
    striker = Striker(point, lambda: signal.raise_signal(signal.SIGINT))
    scene = Scene(place, kind, striker=striker)
    try:
        with striker.watching():
            return [word(scene.perform(action_id)), scene.sent]
    except KeyboardInterrupt:
        found = word(scene.journal.outcome(action_id))
        assert scene.sent == 0 or found != "NotApplied"
        scene.verify(action_id)
        return ["interrupted", found, scene.sent]


@pytest.mark.parametrize("stride", [2, pytest.param(1, marks=pytest.mark.full)])
@pytest.mark.parametrize("kind", KINDS)
def test_ctrl_c_at_every_op(tmp_path: Path, kind: str, stride: int) -> None:
    value(act, tmp_path, kind, "commits", "rehearsal", None)
    names = value(act, tmp_path, kind, "commits", "rehearsal-2", None)["ops"]
    release = names.index("adapter.release") + 1
    for number, point in enumerate(list(ops(names))[::stride]):
        name = f"pay-{number}"
        said = value(interrupted, tmp_path, kind, name, point)
        assert said[0] == "interrupted", (point, said)
        end = value(finish, tmp_path, kind, name)
        check_end(tmp_path, kind, name, end)
        if point.number < release:
            assert (said[2], end["again"]) == (0, "Applied"), (point, said, end)


@pytest.mark.parametrize("stride", [50, pytest.param(11, marks=pytest.mark.full)])
@pytest.mark.parametrize("kind", ["key", "neither"])
def test_ctrl_c_at_lines(tmp_path: Path, kind: str, stride: int) -> None:
    value(act, tmp_path, kind, "commits", "rehearsal", None)
    lines = value(act, tmp_path, kind, "commits", "rehearsal-2", None)["counts"]["line"]
    for number, point in enumerate(numbered("line", lines - 20, stride, first=7)):
        name = f"pay-{number}"
        said = value(interrupted, tmp_path, kind, name, point)
        assert said[0] == "interrupted", (point, said)
        check_end(tmp_path, kind, name, value(finish, tmp_path, kind, name))


# --- coroutines -----------------------------------------------------------------------------------


class Async:
    """A journal with an asynchronous payment."""

    def __init__(self, place: Path, kind: str, seam: Any = None, **options: Any) -> None:
        self.ledger = Ledger(place / "ledger.jsonl")
        self.journal = a.open(place / "journal.db", policy=a.limits(), seam=seam, **options)
        self.wait = 0.0
        self.sent = 0
        self.begun = asyncio.Event()

        @self.journal.action("pay", contract=contract(kind))
        async def pay(call: Any, *, payee: str, amount: int) -> Any:
            self.sent += 1
            self.begun.set()
            return await asyncio.to_thread(self.send, call.action_id, payee, amount)

        self.pay = pay
        if kind == "readback":

            @pay.observer
            async def look(question: a.Question) -> Any:
                found = self.ledger.effects(question.action_id)
                return [
                    a.Seen(x["id"], fields={"payee": x["payee"], "amount": x["amount"]})
                    for x in found
                ] or a.Absent()

    def send(self, action_id: str, payee: str, amount: int) -> Any:
        time.sleep(self.wait)
        line = self.ledger.add("effect", action_id, payee=payee, amount=amount)
        return {"id": line["id"]}

    async def perform(self, action_id: str, amount: int = 7) -> Any:
        return await self.pay.perform_async(action_id, payee="Northwind", amount=amount)


async def test_concurrent_coroutines_release_once(tmp_path: Path) -> None:
    shop = Async(tmp_path, "neither")
    shop.wait = 0.05
    said = await asyncio.gather(*(shop.perform("pay") for _ in range(16)))
    assert {word(each) for each in said} <= {"Applied", "Unknown"}
    assert (shop.sent, len(shop.ledger.effects("pay"))) == (1, 1)
    assert word(await shop.perform("pay")) == "Applied"
    shop.journal.close()


async def test_coroutines_and_threads_release_once(tmp_path: Path) -> None:
    shop = Async(tmp_path, "neither")

    def in_a_thread() -> str:
        async def call() -> str:
            return word(await shop.perform("pay"))

        return asyncio.run(call())

    shop.begun = asyncio.Event()
    said = await asyncio.gather(
        *(asyncio.to_thread(in_a_thread) for _ in range(4)),
        *(shop.perform(f"pay-{number}") for number in range(8)),
    )
    assert all(word(each) == "Applied" for each in said[4:])
    assert (shop.sent, len(shop.ledger.effects("pay"))) == (9, 1)
    shop.journal.close()


async def test_a_cancelled_release_may_still_act(tmp_path: Path) -> None:
    """Its thread goes on: until it has acted, nobody says that nothing happened."""
    shop = Async(tmp_path, "readback")
    shop.wait = 0.6
    task = asyncio.create_task(shop.perform("pay"))
    await asyncio.wait_for(shop.begun.wait(), 10)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    said: list[str] = []
    until = time.monotonic() + 10
    while not shop.ledger.effects("pay") and time.monotonic() < until:
        found = await shop.journal.recover_async("pay")
        said.append(word(found.outcome))
        assert not found.acted, found
        await asyncio.sleep(0.05)
    assert set(said) <= {"Unknown", "Applied"}
    assert said[0] == "Unknown"
    assert word((await shop.journal.recover_async("pay")).outcome) == "Applied"
    assert (shop.sent, len(shop.ledger.effects("pay"))) == (1, 1)
    shop.journal.close()


class Cancels:
    """Cancels the task at the so-manieth op."""

    def __init__(self, number: int) -> None:
        self.left = number
        self.task: Any = None
        self.reached = ""

    def op(self, kind: str, call: Any) -> Any:
        self.left -= 1
        if self.left == 0:
            self.reached = kind
            self.task.cancel()
        return call()


@pytest.mark.parametrize("number", range(1, 11))
async def test_a_task_cancelled_at_any_op_leaves_nothing_stuck(tmp_path: Path, number: int) -> None:
    seam = Cancels(number)
    shop = Async(tmp_path, "neither", seam)
    task = seam.task = asyncio.create_task(shop.perform("pay"))
    outcome = None
    try:
        outcome = word(await task)
    except asyncio.CancelledError:
        outcome = "cancelled"
    seam.left = 0
    await asyncio.sleep(0.1)
    known = shop.journal.outcome("pay")
    effects = len(shop.ledger.effects("pay"))
    assert effects <= 1
    if shop.sent == 0:
        assert word(known) in ("nothing", "NotApplied"), (seam.reached, known)
        assert word(await shop.perform("pay")) == "Applied"
        assert len(shop.ledger.effects("pay")) == 1
    else:
        assert word(known) in ("Applied", "Unknown"), (seam.reached, outcome, known)
        assert word(await shop.perform("pay")) in ("Applied", "Unknown")
        assert shop.sent == 1
    shop.journal.close()


def test_a_coroutine_given_to_perform_sends_nothing_and_says_so(tmp_path: Path) -> None:
    async def both() -> list[str]:
        shop = Async(tmp_path, "neither")
        outcome = shop.pay.perform("pay", payee="Northwind", amount=7)
        assert "perform_async" in outcome.refused
        again = await shop.perform("pay")
        shop.journal.close()
        return [word(outcome), word(again)]

    assert asyncio.run(both()) == ["NotApplied", "Applied"]


# --- one open journal, many processes ---------------------------------------------------------


def forked_workers(place: Path) -> list[Any]:
    """A process with an open journal and busy threads forks workers that go on with it."""
    scene = Scene(place, "neither")
    scene.perform("before")
    stop = threading.Event()
    said: list[str] = []

    def busy() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            said.append(word(scene.perform(f"parent-{threading.get_ident()}-{number}")))
            scene.journal.outcome("before")

    threads = [threading.Thread(target=busy) for _ in range(3)]
    for thread in threads:
        thread.start()

    def worker(number: int) -> list[str]:
        mine = [word(scene.perform(f"child-{number}-{each}")) for each in range(5)]
        return [*mine, word(scene.perform("shared")), word(scene.perform("before"))]

    children = [Child(worker, number) for number in range(4)]
    try:
        ended = [child.wait(timeout_s=40) for child in children]
    finally:
        for child in children:
            child.end()
        stop.set()
        for thread in threads:
            thread.join(20)
    assert [each.error for each in ended if each.error] == []
    assert set(said) == {"Applied"}
    for name in ("before", "shared"):
        scene.verify(name)
    return [each.value for each in ended]


def test_forked_workers_go_on_with_an_open_journal(tmp_path: Path) -> None:
    for mine in value(forked_workers, tmp_path):
        assert mine[:5] == ["Applied"] * 5
        assert mine[5] in ("Applied", "Unknown")
        assert mine[6] == "Applied"
    ledger = Ledger(tmp_path / "ledger.jsonl")
    assert len(ledger.effects("shared")) == 1
    ids = [line["action_id"] for line in ledger.lines()]
    assert len(ids) == len(set(ids))


def test_a_worker_forked_in_the_middle_of_a_release_sends_nothing_of_its_own(
    tmp_path: Path,
) -> None:
    def run() -> list[Any]:
        scene = Scene(tmp_path, "neither")
        plain = scene.send

        def send(call: Any, payee: str, amount: int) -> Any:
            other = Child(lambda: word(scene.perform("pay")))
            said = other.wait()
            assert not said.error, said.error
            return {**plain(call, payee, amount), "other": said.value}

        scene.send = send  # type: ignore[method-assign]
        outcome = scene.perform("pay")
        releases = [
            entry
            for entry in scene.journal.journal.entries("pay")
            if isinstance(entry.record, AttemptReleased)
        ]
        return [word(outcome), outcome.value()["other"], len(releases)]

    assert value(run) == ["Applied", "Unknown", 1]
