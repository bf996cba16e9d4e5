"""SIGKILL at every step of `perform` and of recovery, against four kinds of provider.

After each history: at most one effect; every one observable, or honestly unknown where nothing
can be read; never NOT_APPLIED beside an effect; what was acknowledged stands; recovery ends.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

import ascertain as a
from tests.interrupt.forked import Kills, Point, numbered, ops, value
from tests.interrupt.histories import act, finish, mend, settle, warm
from tests.interrupt.scene import FATES, KINDS, Ledger, Scene, contract, word

BEFORE = Point("op-before", 1, "adapter.release")
AFTER = Point("op-after", 1, "adapter.release")


@pytest.fixture(scope="session", autouse=True)
def _warm(tmp_path_factory: pytest.TempPathFactory) -> None:
    warm(tmp_path_factory.mktemp("warm") / "journal")


def rehearse(place: Path, kind: str, fate: str) -> dict[str, Any]:
    """The payment without a kill, once the contract is kept: how many points there are."""
    value(act, place, kind, fate, "rehearsal-of-rehearsal", None)
    found: dict[str, Any] = value(act, place, kind, fate, "rehearsal", None)
    return found


def rehearse_mend(place: Path, kind: str, fate: str, first: Point) -> dict[str, Any]:
    """One recovery without a kill."""
    Kills().kill(act, place, kind, fate, "rehearsal-mend", first)
    found: dict[str, Any] = value(mend, place, kind, "rehearsal-mend", None)
    return found


def statements(place: Path, kind: str, fate: str) -> int:
    """How many SQL statements the payment runs, once the contract is kept."""
    value(act, place, kind, fate, "rehearsal", None)
    found = value(act, place, kind, fate, "rehearsal-sql", Point("sql", 10**9))
    return int(found["counts"]["sql"])


def kill_payment(
    kills: Kills, place: Path, kind: str, fate: str, points: Iterable[Point]
) -> list[dict[str, Any]]:
    """One payment for each point, killed there; then all are recovered and checked."""
    names: list[str] = []
    for number, point in enumerate(points):
        names.append(f"pay-{point.kind}-{number}")
        kills.kill(act, place, kind, fate, names[-1], point)
    kills.check(len(names))
    return settle(place, kind, names)


def kill_recovery(
    kills: Kills, place: Path, kind: str, fate: str, first: Point, points: Iterable[Point]
) -> list[dict[str, Any]]:
    """One payment for each point, killed at ``first``; its recovery is killed at the point."""
    names: list[str] = []
    for number, point in enumerate(points):
        names.append(f"mend-{point.kind}-{number}")
        kills.kill(act, place, kind, fate, names[-1], first)
        kills.kill(mend, place, kind, names[-1], point)
    kills.check(2 * len(names))
    return settle(place, kind, names)


@pytest.mark.parametrize(
    "fate", ["commits", "dropped", pytest.param("lost", marks=pytest.mark.full)]
)
@pytest.mark.parametrize("kind", KINDS)
def test_perform_is_killed_before_and_after_every_op(
    tmp_path: Path, kills: Kills, kind: str, fate: str
) -> None:
    names = rehearse(tmp_path, kind, fate)["ops"]
    assert "adapter.release" in names
    kill_payment(kills, tmp_path, kind, fate, ops(names))
    kills.check(20)


@pytest.mark.parametrize("fate", ["commits", "dropped"])
@pytest.mark.parametrize("kind", KINDS)
def test_perform_is_killed_at_lines(tmp_path: Path, kills: Kills, kind: str, fate: str) -> None:
    lines = rehearse(tmp_path, kind, fate)["counts"]["line"]
    kill_payment(kills, tmp_path, kind, fate, numbered("line", lines - 20, lines // 14, first=5))
    kills.check(12)


@pytest.mark.parametrize("kind", ["key", "readback"])
def test_perform_is_killed_at_statements(tmp_path: Path, kills: Kills, kind: str) -> None:
    count = statements(tmp_path, kind, "commits")
    kill_payment(kills, tmp_path, kind, "commits", numbered("sql", count))
    kills.check(10)


@pytest.mark.parametrize("first", [BEFORE, AFTER], ids=["unsent", "sent"])
@pytest.mark.parametrize("kind", KINDS)
def test_recovery_is_killed_at_ops(tmp_path: Path, kills: Kills, kind: str, first: Point) -> None:
    names = rehearse_mend(tmp_path, kind, "commits", first)["ops"]
    kill_recovery(kills, tmp_path, kind, "commits", first, list(ops(names))[::6])
    kills.check(16)


@pytest.mark.full
@pytest.mark.parametrize("first", [BEFORE, AFTER], ids=["unsent", "sent"])
@pytest.mark.parametrize("kind", KINDS)
def test_recovery_is_killed_before_and_after_every_op(
    tmp_path: Path, kills: Kills, kind: str, first: Point
) -> None:
    names = rehearse_mend(tmp_path, kind, "commits", first)["ops"]
    kill_recovery(kills, tmp_path, kind, "commits", first, ops(names))
    kills.check(2 * len(names))


@pytest.mark.full
@pytest.mark.parametrize("part", range(3))
@pytest.mark.parametrize("fate", ["commits", "dropped"])
@pytest.mark.parametrize("kind", KINDS)
def test_perform_is_killed_at_every_line(
    tmp_path: Path, kills: Kills, kind: str, fate: str, part: int
) -> None:
    lines = rehearse(tmp_path, kind, fate)["counts"]["line"]
    kill_payment(kills, tmp_path, kind, fate, numbered("line", lines - 20, 9, first=1 + 3 * part))
    kills.check(60)


@pytest.mark.full
@pytest.mark.parametrize("kind", KINDS)
def test_recovery_is_killed_at_many_lines(tmp_path: Path, kills: Kills, kind: str) -> None:
    lines = rehearse_mend(tmp_path, kind, "commits", BEFORE)["counts"]["line"]
    points = numbered("line", lines - 20, lines // 120, first=3)
    kill_recovery(kills, tmp_path, kind, "commits", BEFORE, points)
    kills.check(200)


def storm(kills: Kills, place: Path, kind: str, fate: str, seed: int) -> None:
    """A payment, then a recovery after the other, each killed somewhere; then the end."""
    chance = random.Random(f"storm {seed}")
    kills.kill(act, place, kind, fate, f"storm-{seed}", Point("op-before", chance.randint(7, 11)))
    for _ in range(chance.randint(3, 6)):
        kills.kill(
            mend, place, kind, f"storm-{seed}",
            Point(chance.choice(["op-before", "op-after"]), chance.randint(1, 14)),
        )  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_recovery_after_recovery_is_killed(tmp_path: Path, kills: Kills, kind: str) -> None:
    for seed in range(3):
        storm(kills, tmp_path, kind, "commits", seed)
    kills.check(12)
    settle(tmp_path, kind, [f"storm-{seed}" for seed in range(3)])


@pytest.mark.full
@pytest.mark.parametrize("fate", FATES)
@pytest.mark.parametrize("kind", KINDS)
def test_storms_of_kills(tmp_path: Path, kills: Kills, kind: str, fate: str) -> None:
    for seed in range(12):
        storm(kills, tmp_path, kind, fate, seed)
    kills.check(48)
    settle(tmp_path, kind, [f"storm-{seed}" for seed in range(12)])


# --- requests that land after their sender's death ---------------------------------------------


def land(place: Path, kind: str, action_id: str) -> None:
    """The request that was under way arrives at last."""
    key = action_id if kind == "key" else ""
    Ledger(place / "ledger.jsonl").add("effect", action_id, key=key, payee="Northwind", amount=7)


@pytest.mark.parametrize("kind", ["key", "seal", "neither"])
def test_a_request_lands_after_every_op_of_recovery(
    tmp_path: Path, kills: Kills, kind: str
) -> None:
    names = rehearse_mend(tmp_path, kind, "commits", BEFORE)["ops"]
    points = list(ops(names))[::4]
    for number, point in enumerate(points):
        kills.kill(act, tmp_path, kind, "commits", f"late-{number}", BEFORE)
        kills.kill(mend, tmp_path, kind, f"late-{number}", point)
        land(tmp_path, kind, f"late-{number}")
    kills.check(2 * len(points))
    settle(tmp_path, kind, [f"late-{number}" for number in range(len(points))])


def look(place: Path, action_id: str, terms: dict[str, Any]) -> tuple[str, str, int]:
    """One recovery under other terms; the outcome, the decision and the effects."""
    scene = Scene(place, "readback", terms=contract("readback", **terms))
    found = scene.journal.recover(action_id)
    return word(found.outcome), found.decision, len(scene.ledger.effects(action_id))


def act_under(place: Path, action_id: str, terms: dict[str, Any], point: Point) -> None:
    scene = Scene(place, "readback", point=point, terms=contract("readback", **terms))
    with scene.striker.watching():
        scene.perform(action_id)


@pytest.mark.parametrize("lands", [True, False])
def test_absence_before_the_in_flight_bound_proves_nothing(
    tmp_path: Path, kills: Kills, *, lands: bool
) -> None:
    terms = {"in_flight": a.InFlight(after_release=a.SECOND, after_close=a.SECOND)}
    kills.kill(act_under, tmp_path, "late", terms, BEFORE)
    assert value(look, tmp_path, "late", terms) == ["Unknown", "verify", 0]
    if lands:
        land(tmp_path, "readback", "late")
        assert value(look, tmp_path, "late", terms) == ["Applied", "adopt", 1]
    else:
        time.sleep(1.1)
        assert value(look, tmp_path, "late", terms) == ["Applied", "execute", 1]
    kills.check(1)


# --- opening, and the journal as a whole --------------------------------------------------------


def begin(place: Path, point: Point | None) -> dict[str, Any]:
    """Open a new journal, to be killed on the way."""
    from tests.interrupt.forked import Striker

    striker = Striker(point)
    with striker.watching():
        Scene(place, "readback", striker=striker)
    return striker.counts


@pytest.mark.parametrize("stride", [40, pytest.param(2, marks=pytest.mark.full)])
def test_making_a_journal_is_killed_at_lines(tmp_path: Path, kills: Kills, stride: int) -> None:
    (tmp_path / "rehearsal").mkdir()
    lines = value(begin, tmp_path / "rehearsal", None)["line"]
    for number in range(1, lines - 20, stride):
        place = tmp_path / f"new-{number}"
        place.mkdir()
        kills.kill(begin, place, Point("line", number))
        end = value(finish, place, "readback", "first")
        assert (end["again"], len(end["effects"])) == ("Applied", 1)
    kills.check(lines // stride - 20 // stride - 1)


ASKED_IN_FULL = {
    "perform, ops": 20 * len(KINDS) * len(FATES),
    "perform, lines": 12 * len(KINDS) * 2,
    "perform, statements": 20,
    "perform, every third line": 60 * 3 * 2 * len(KINDS),
    "recovery, some ops": 16 * 2 * len(KINDS),
    "recovery, ops": 2 * 27 * 2 * len(KINDS),
    "recovery, lines": 200 * len(KINDS),
    "storms": 12 * len(KINDS) + 48 * len(KINDS) * len(FATES),
}
"""The least number of kills that each group above checks for itself, in `make test-full`."""


def test_the_full_run_asks_for_two_thousand_kills() -> None:
    assert sum(ASKED_IN_FULL.values()) >= 2_000
