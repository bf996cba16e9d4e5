"""Compensation: once, linked, separately authorised; killed at every op and run again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import ascertain as a
from ascertain.core.records import AuthorityDecided, CompensationLinked
from ascertain.errors import RecoveryRefused
from ascertain.testing import Fate, StartProvider, StartProxy
from tests.interrupt.forked import Kills, Point, ops, value
from tests.interrupt.paying import Payments, terms
from tests.interrupt.scene import Scene, contract, word
from tests.interrupt.test_claims import Policy

pytest_plugins = ["ascertain.testing.fixtures"]

DOUBLES = a.InFlight(after_release=0, after_close=0, doubles=True)


class Doubled(Scene):
    """The network delivers the payment twice, to a provider that ignores keys."""

    def send(self, call: Any, payee: str, amount: int) -> Any:
        super().send(call, payee, amount)
        return super().send(call, payee, amount)


def doubled(place: Path, action_id: str, point: Point | None, policy: Any = None) -> Doubled:
    return Doubled(
        place, "readback", point=point, policy=policy,
        terms=contract("readback", in_flight=DOUBLES),
    )  # fmt: skip


def pay_twice(place: Path, action_id: str) -> str:
    return word(doubled(place, action_id, None).perform(action_id))


def mend(place: Path, action_id: str, point: Point | None) -> dict[str, Any]:
    scene = doubled(place, action_id, point)
    with scene.striker.watching():
        found = scene.journal.recover(action_id)
    scene.verify(action_id)
    if point is None:
        scene.journal.close()
    return {"decision": found.decision, "outcome": word(found.outcome), "ops": scene.striker.ops}


def reversals(scene: Scene, action_id: str) -> list[str]:
    effects = {x["id"] for x in scene.ledger.effects(action_id)}
    return [x["of"] for x in scene.ledger.lines() if x.get("of") in effects]


def finish(place: Path, names: list[str]) -> list[list[Any]]:
    said = []
    for name in names:
        scene = doubled(place, name, None)
        for _ in range(6):
            found = scene.journal.recover(name)
            assert not found.busy
            if found.decision in ("adopt", "quarantine"):
                break
        scene.verify(name)
        links = [
            entry
            for entry in scene.journal.journal.entries(name)
            if isinstance(entry.record, CompensationLinked)
        ]
        row = scene.journal.journal.action(name)
        said.append(
            [found.decision, len(scene.ledger.effects(name)), len(reversals(scene, name)),
             len(links), row.open if row else None]
        )  # fmt: skip
        scene.journal.close()
    return said


def test_a_surplus_effect_is_compensated_once(tmp_path: Path) -> None:
    scene = doubled(tmp_path, "pay", None)
    assert word(scene.perform("pay")) == "Pending"
    found = scene.journal.recover("pay")
    assert (found.decision, found.acted) == ("compensate", True), found
    assert len(reversals(scene, "pay")) == 1
    for _ in range(3):
        again = scene.journal.recover("pay")
        assert (again.decision, again.acted) == ("adopt", False), again
    assert len(reversals(scene, "pay")) == 1
    entries = scene.journal.journal.entries("pay")
    compensator = next(
        x.record.compensator for x in entries if isinstance(x.record, CompensationLinked)
    )
    decided = [x.record.action_id for x in entries if isinstance(x.record, AuthorityDecided)]
    assert compensator in decided, "it has a decision of its own"
    assert {x.record.compensates for x in entries if hasattr(x.record, "compensates")} == {
        None,
        "pay",
    }


@pytest.mark.parametrize("stride", [6, pytest.param(1, marks=pytest.mark.full)])
def test_a_compensation_is_killed_at_ops_and_made_once(
    tmp_path: Path, kills: Kills, stride: int
) -> None:
    value(pay_twice, tmp_path, "rehearsal")
    names = value(mend, tmp_path, "rehearsal", None)["ops"]
    pays: list[str] = []
    for number, point in enumerate(list(ops(names))[::stride]):
        pays.append(f"pay-{number}")
        value(pay_twice, tmp_path, pays[-1])
        kills.kill(mend, tmp_path, pays[-1], point)
    kills.check(2 * len(names) // stride)
    for name, end in zip(pays, value(finish, tmp_path, pays), strict=True):
        assert end == ["adopt", 2, 1, 1, False], (name, end)


def undo(place: Path, action_id: str, point: Point | None) -> list[str]:
    scene = Scene(place, "readback", point=point)
    if scene.journal.outcome(action_id) is None:
        scene.perform(action_id)
    with scene.striker.watching():
        outcome = scene.pay.compensate(action_id)
    assert word(outcome) == "Reversed"
    scene.verify(action_id)
    names = scene.striker.ops
    scene.journal.close()
    return names


def undone(place: Path, names: list[str]) -> list[list[Any]]:
    said = []
    for name in names:
        scene = Scene(place, "readback")
        for _ in range(4):
            found = scene.journal.recover(name)
            if found.decision == "adopt":
                break
        if word(found.outcome) != "Reversed":
            scene.pay.compensate(name)
            found = scene.journal.recover(name)
        scene.verify(name)
        said.append([word(found.outcome), len(reversals(scene, name))])
        scene.journal.close()
    return said


@pytest.mark.parametrize("stride", [6, pytest.param(1, marks=pytest.mark.full)])
def test_a_wanted_compensation_is_killed_at_ops_and_made_once(
    tmp_path: Path, kills: Kills, stride: int
) -> None:
    names = value(undo, tmp_path, "rehearsal", None)
    pays: list[str] = []
    for number, point in enumerate(list(ops(names))[::stride]):
        pays.append(f"pay-{number}")
        kills.kill(undo, tmp_path, pays[-1], point)
    kills.check(2 * len(names) // stride)
    for name, end in zip(pays, value(undone, tmp_path, pays), strict=True):
        assert end == ["Reversed", 1], (name, end)


def test_a_denied_compensation_is_for_a_person(tmp_path: Path) -> None:
    class Denies(Policy):
        denied = True

        def decide(self, request: a.Request) -> Any:
            self.changes = (
                {"outcome": "deny"}
                if self.denied and request.action_type.endswith("/compensation")
                else {}
            )
            return super().decide(request)

    policy = Denies()
    scene = doubled(tmp_path, "pay", None, policy)
    scene.perform("pay")
    found = scene.journal.recover("pay")
    assert found.decision == "compensate"
    assert reversals(scene, "pay") == []
    found = scene.journal.recover("pay")
    assert (found.decision, reversals(scene, "pay")) == ("quarantine", [])
    policy.denied = False
    found = scene.journal.recover("pay")
    assert (found.decision, len(reversals(scene, "pay"))) == ("adopt", 1), found


def test_without_the_capability_nothing_is_compensated(tmp_path: Path) -> None:
    policy = Policy()
    scene = doubled(tmp_path, "pay", None, policy)
    scene.perform("pay")
    policy.verbs = ("observe", "continue")
    found = scene.journal.recover("pay")
    assert (found.decision, reversals(scene, "pay")) == ("reauthorise", [])
    with pytest.raises(RecoveryRefused):
        scene.pay.compensate("pay")
    policy.verbs = None
    assert scene.journal.recover("pay").decision == "compensate"
    assert len(reversals(scene, "pay")) == 1


@pytest.mark.parametrize("length", [20, 200])
def test_long_ids_have_compensations_of_their_own(tmp_path: Path, length: int) -> None:
    name = "p" * length
    scene = Scene(tmp_path, "readback")
    assert word(scene.perform(name)) == "Applied"
    assert word(scene.pay.compensate(name)) == "Reversed"
    assert len(reversals(scene, name)) == 1
    assert word(scene.journal.recover(name).outcome) == "Reversed"


def test_a_doubled_request_over_http_is_compensated_once(
    tmp_path: Path, start_provider: StartProvider, start_proxy: StartProxy
) -> None:
    provider = start_provider(keys="ignored")
    proxy = start_proxy(provider.address, delay_ms_max=50)
    bound = (proxy.longest_delay_ms + 50) * 1000
    shop = Payments(
        tmp_path,
        proxy.url,
        terms(in_flight=a.InFlight(after_release=bound, after_close=bound, doubles=True)),
    )
    shop.reading = provider.client()
    proxy.next(Fate.DOUBLE_REQUEST)
    assert word(shop.perform("pay")) == "Pending"
    proxy.wait_idle()
    decisions = []
    for _ in range(100):
        found = shop.journal.recover("pay")
        decisions.append(found.decision)
        if found.decision in ("adopt", "quarantine"):
            break
    assert "compensate" in decisions, decisions
    assert decisions[-1] == "adopt", decisions
    effects = provider.effects("pay")
    assert len(effects) == 2
    assert sum(len(each["reversals"]) for each in effects) == 1  # type: ignore[arg-type]
