"""What a killed worker leaves running: nothing is called gone while any of it can act."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.interrupt.forked import Child, Kills, Point, strike, value
from tests.interrupt.scene import Scene, word
from tests.interrupt.test_stop import wait_for

DELAY_S = 1.3
AFTER = Point("op-after", 1, "adapter.release")


def line(action_id: str) -> str:
    fields = {"kind": "effect", "action_id": action_id, "key": "", "id": "effect-late"}
    return json.dumps(fields | {"payee": "Northwind", "amount": 7}) + "\n"


class Leaves(Scene):
    """The request is sent by a child, a moment after the worker is dead."""

    def __init__(self, place: Path, how: str) -> None:
        super().__init__(place, "readback")
        self.place, self.how = place, how

    def send(self, call: Any, payee: str, amount: int) -> Any:
        program = (
            f"import time; time.sleep({DELAY_S})\n"
            f"open({str(self.ledger.path)!r}, 'a').write({line(call.action_id)!r})"
        )
        if self.how == "fork":
            if os.fork() == 0:
                os.setpgid(0, 0)
                exec(program)
                os._exit(0)
        elif self.how == "told":
            subprocess.Popen(
                [sys.executable, "-c", program],
                pass_fds=[call.lock_fd],
                start_new_session=True,
                stdin=subprocess.DEVNULL,
            )
        elif self.how == "untold":
            subprocess.Popen(
                [sys.executable, "-c", program], start_new_session=True, stdin=subprocess.DEVNULL
            )
        elif self.how == "system":
            script = self.place / "later.py"
            script.write_text(program)
            os.system(f"{sys.executable} {script} >/dev/null 2>&1 </dev/null &")
        (self.place / "sent").touch()
        strike()
        return {}


def perform(place: Path, how: str) -> str:
    return word(Leaves(place, how).perform("pay"))


def recover(place: Path) -> list[Any]:
    scene = Scene(place, "readback")
    row = scene.journal.journal.action("pay")
    assert row is not None
    proof = scene.journal.runtime.executor.gone(row.holder) if row.holder else "?"
    found = scene.journal.recover("pay")
    return [found.busy, found.decision, word(found.outcome), bool(proof)]


def outcome(place: Path) -> list[Any]:
    scene = Scene(place, "readback", lease=50_000)
    until = time.monotonic() + 5.0
    while True:
        found = scene.journal.recover("pay")
        if not found.busy or time.monotonic() > until:
            break
        time.sleep(0.05)
    said = [found.busy, found.decision, word(found.outcome)]
    return [*said, len(scene.ledger.effects("pay"))]


@pytest.mark.parametrize("how", ["fork", "told"])
def test_a_child_that_acts_later_keeps_its_parent_from_being_called_gone(
    tmp_path: Path, kills: Kills, how: str
) -> None:
    kills.kill(perform, tmp_path, how)
    kills.check(1)
    wait_for(tmp_path / "sent")
    assert value(recover, tmp_path) == [True, "released", "Unknown", False]
    until = time.monotonic() + 10.0
    while not Scene.effects_at(tmp_path) and time.monotonic() < until:
        assert value(recover, tmp_path)[0] or Scene.effects_at(tmp_path)
        time.sleep(0.1)
    assert Scene.effects_at(tmp_path) == 1
    time.sleep(0.3)
    assert value(recover, tmp_path)[:3] == [False, "adopt", "Applied"]
    assert Scene.effects_at(tmp_path) == 1


def leave_early(place: Path) -> str:
    """The child dies without having acted."""
    scene = Leaves(place, "none")

    def send(call: Any, payee: str, amount: int) -> Any:
        child = os.fork()
        if child == 0:
            os.setpgid(0, 0)
            wait_for(place / "end")
            os._exit(0)
        (place / "sent").touch()
        strike()

    scene.send = send  # type: ignore[method-assign]
    return word(scene.perform("pay"))


def test_once_the_child_is_dead_too_both_are_gone(tmp_path: Path, kills: Kills) -> None:
    kills.kill(leave_early, tmp_path)
    kills.check(1)
    assert value(recover, tmp_path) == [True, "released", "Unknown", False]
    (tmp_path / "end").touch()
    time.sleep(0.5)
    assert value(recover, tmp_path) == [False, "execute", "Applied", True]
    assert Scene.effects_at(tmp_path) == 1


@pytest.mark.parametrize("how", ["untold", "system"])
def test_a_program_started_without_the_lock_makes_death_unprovable(
    tmp_path: Path, kills: Kills, how: str
) -> None:
    kills.kill(perform, tmp_path, how)
    kills.check(1)
    assert value(recover, tmp_path) == [True, "released", "Unknown", False]
    time.sleep(DELAY_S + 0.5)
    assert value(recover, tmp_path)[3] is False
    assert Scene.effects_at(tmp_path) == 1


def short(place: Path, how: str) -> str:
    scene = Leaves(place, how)
    scene.journal.runtime.lease = 50_000
    return word(scene.perform("pay"))


def test_unprovable_death_stays_unknown_after_the_lease(tmp_path: Path, kills: Kills) -> None:
    kills.kill(short, tmp_path, "untold")
    kills.check(1)
    busy, decision, found, _ = value(outcome, tmp_path)
    assert (busy, found) == (False, "Unknown")
    assert decision == "verify"
    time.sleep(DELAY_S + 0.5)
    assert value(outcome, tmp_path)[1:] == ["adopt", "Applied", 1]


def test_a_forked_worker_that_is_killed_leaves_its_parent_alone(tmp_path: Path) -> None:
    """A child has a lock of its own; its death says nothing about its parent."""

    def parent() -> list[Any]:
        scene = Scene(tmp_path, "readback")
        name = scene.journal.runtime.executor.name
        child = Child(lambda: scene.journal.runtime.executor.name)
        other = child.wait().value
        gone = Scene(tmp_path, "readback").journal.runtime.executor.gone
        return [name != other, gone(name), bool(gone(other))]

    assert value(parent) == [True, None, True]
