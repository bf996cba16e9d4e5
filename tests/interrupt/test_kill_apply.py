"""SIGKILL at every step and statement of `apply`: effect, fence and balance move together."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from tests.interrupt.forked import Kills, Point, numbered, ops, value
from tests.interrupt.ledgers import WAYS, Books, Way, act, finish_all, mend


@pytest.fixture(scope="module", autouse=True)
def _warm(tmp_path_factory: pytest.TempPathFactory) -> None:
    for way in (WAYS[0], WAYS[5]):
        act(tmp_path_factory.mktemp("warm"), way, "warm", None)


def rehearse(place: Path, way: Way) -> dict[str, Any]:
    value(act, place, way, "rehearsal-of-rehearsal", None)
    plain = value(act, place, way, "rehearsal", None)
    counted = value(act, place, way, "rehearsal-sql", Point("sql", 10**9))
    plain["counts"]["sql"] = counted["counts"]["sql"]
    return dict(plain)


def kill_postings(kills: Kills, place: Path, way: Way, points: Iterable[Point]) -> None:
    names: list[str] = []
    for number, point in enumerate(points):
        names.append(f"post-{point.kind}-{number}")
        kills.kill(act, place, way, names[-1], point)
    kills.check(len(names))
    assert value(finish_all, place, way, names) == len(names)


@pytest.mark.parametrize("stride", [3, pytest.param(1, marks=pytest.mark.full)])
@pytest.mark.parametrize("way", WAYS, ids=str)
def test_apply_is_killed_before_and_after_ops(
    tmp_path: Path, kills: Kills, way: Way, stride: int
) -> None:
    names = rehearse(tmp_path, way)["ops"]
    kill_postings(kills, tmp_path, way, list(ops(names))[::stride])
    kills.check(24 // stride)


@pytest.mark.parametrize("stride", [3, pytest.param(1, marks=pytest.mark.full)])
@pytest.mark.parametrize("way", WAYS, ids=str)
def test_apply_is_killed_before_statements(
    tmp_path: Path, kills: Kills, way: Way, stride: int
) -> None:
    count = rehearse(tmp_path, way)["counts"]["sql"]
    kill_postings(kills, tmp_path, way, numbered("sql", count, stride))
    kills.check(18 // stride)


@pytest.mark.full
@pytest.mark.parametrize("way", WAYS, ids=str)
def test_apply_is_killed_at_lines(tmp_path: Path, kills: Kills, way: Way) -> None:
    lines = rehearse(tmp_path, way)["counts"]["line"]
    kill_postings(kills, tmp_path, way, numbered("line", lines - 20, max(1, lines // 150)))
    kills.check(140)


@pytest.mark.parametrize("stride", [10, pytest.param(1, marks=pytest.mark.full)])
@pytest.mark.parametrize("way", [way for way in WAYS if not way.shared], ids=str)
def test_recovery_of_apply_is_killed_at_ops(
    tmp_path: Path, kills: Kills, way: Way, stride: int
) -> None:
    rehearse(tmp_path, way)
    first = Point("op-before", 1, "adapter.result")
    kills.kill(act, tmp_path, way, "rehearsal-mend", first)
    names = value(mend, tmp_path, way, "rehearsal-mend", None)["ops"]
    posts: list[str] = []
    for number, point in enumerate(list(ops(names))[::stride]):
        posts.append(f"mend-{number}")
        kills.kill(act, tmp_path, way, posts[-1], first)
        kills.kill(mend, tmp_path, way, posts[-1], point)
    assert value(finish_all, tmp_path, way, posts, True) == len(posts)
    kills.check(2 * (2 * len(names) // stride))


# --- transactions that end otherwise -------------------------------------------------------------


def rolled_back(place: Path, way: Way) -> dict[str, Any]:
    books = Books(place, way)
    first = books.apply("rolled-back", commit=False)
    state = books.state("rolled-back")
    known = books.journal.outcome("rolled-back")
    again = books.apply("rolled-back")
    if type(again).__name__ == "Pending":
        again = books.post.perform("rolled-back", amount=7)
    return {
        "first": type(first).__name__,
        "postings": state["postings"],
        "known": type(known).__name__,
        "again": type(again).__name__,
        "end": books.state("rolled-back")["postings"],
    }


@pytest.mark.parametrize("way", [way for way in WAYS if way.outer], ids=str)
def test_an_outer_transaction_that_rolls_back_applies_nothing(tmp_path: Path, way: Way) -> None:
    found = value(rolled_back, tmp_path, way)
    assert (found["first"], found["postings"]) == ("Pending", 0)
    assert found["known"] in ("NoneType", "Unknown")
    assert found["end"] == (1 if found["again"] == "Applied" else 0)
    assert found["again"] in ("Applied", "NotApplied", "Unknown")


def mooded(place: Path, way: Way, mood: str) -> dict[str, Any]:
    books = Books(place, way)
    books.mood = mood
    try:
        first = type(books.apply("moody")).__name__
    except Exception as error:
        first = repr(error)
    state = books.state("moody")
    books.mood = "write"
    try:
        again = books.apply("moody")
        if type(again).__name__ == "Pending":
            again = books.post.perform("moody", amount=7)
    except Exception as error:
        again = error
    return {
        "first": first,
        "known": state["outcome"],
        "postings": state["postings"],
        "again": type(again).__name__,
        "end": books.state("moody")["postings"],
    }


@pytest.mark.parametrize("way", WAYS, ids=str)
@pytest.mark.parametrize("mood", ["raise", "refuse", "nothing"])
def test_what_the_function_raises_takes_its_effect_back(
    tmp_path: Path, way: Way, mood: str
) -> None:
    found = value(mooded, tmp_path, way, mood)
    assert found["postings"] == 0
    if mood == "raise":
        assert found["first"] == repr(ValueError("in the middle"))
    elif mood == "refuse":
        assert found["first"] in ("Rejected", "Pending")
    else:
        assert found["first"] == "NotApplied", found
    if mood == "refuse":
        assert (found["again"], found["end"]) == ("Rejected", 0)
    elif mood == "nothing" and way.shared and way.outer:
        # Inside a transaction of the caller's a repeated call says what is recorded.
        assert (found["again"], found["end"]) == ("NotApplied", 0)
    else:
        assert (found["again"], found["end"]) == ("Applied", 1), found
