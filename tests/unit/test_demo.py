"""The demo's parts: seeded payments, kills that land, figures counted at the provider."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from ascertain.demo.driver import Driver, Event, Kill, plan_kills
from ascertain.demo.naive import run_naive
from ascertain.demo.payments import payments, read_payments, write_payments
from ascertain.demo.provider import Effect
from ascertain.demo.report import count
from ascertain.errors import AscertainError

WORKER = """
import argparse, pathlib, sys, time
parser = argparse.ArgumentParser()
parser.add_argument("--spool", type=pathlib.Path)
parser.add_argument("--slot", type=int)
parser.add_argument("--slots", type=int)
options = parser.parse_args()
done = options.spool / f"done-{options.slot}"
done.touch()
for number in range(len(done.read_text()), 20):
    print("begin", number, flush=True)
    time.sleep(0.02)
    with done.open("a") as file:
        file.write("x")
    print("end", number, flush=True)
sys.exit(options.slot == 7)
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "demo_worker.py").write_text(WORKER)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return "demo_worker"


def test_the_same_seed_gives_the_same_payments_and_kills() -> None:
    assert payments(7) == payments(7) != payments(8)
    assert len({payment.action_id for payment in payments(7)}) == 200
    plan = plan_kills(7, kills=12, slots=4, share=50)
    assert (
        plan
        == plan_kills(7, kills=12, slots=4, share=50)
        != plan_kills(8, kills=12, slots=4, share=50)
    )
    assert len({(kill.slot, kill.beginning) for kill in plan}) == 12
    assert all(kill.beginning <= 42 for kill in plan)
    assert len(plan_kills(7, kills=12, slots=2, share=3)) == 2


def test_every_payment_is_the_share_of_one_slot(tmp_path: Path) -> None:
    spool = tmp_path / "payments.json"
    write_payments(spool, payments(7, 10))
    shares = [read_payments(spool, slot=slot, slots=3) for slot in range(3)]
    assert [len(share) for share in shares] == [4, 3, 3]
    assert {payment for share in shares for payment in share} == set(payments(7, 10))


def test_kills_land_and_the_work_is_finished_all_the_same(tmp_path: Path, module: str) -> None:
    events: list[Event] = []
    kills = [Kill(0, 1, 5), Kill(0, 2, 0), Kill(1, 5, 30), Kill(1, 6, 0), Kill(1, 7, 0)]
    driver = Driver(module, ["--spool", str(tmp_path)], 3, kills, tmp_path, events.append)
    driven = driver.run()
    assert (driven.kills, driven.starts) == (5, 8)
    for slot in range(3):
        ended = [event.action_id for event in events if (event.slot, event.word) == (slot, "end")]
        begun = Counter(
            event.action_id for event in events if (event.slot, event.word) == (slot, "begin")
        )
        assert len(ended) <= 20
        assert set(begun) == {str(number) for number in range(20)}
        assert (tmp_path / f"done-{slot}").read_text() == "x" * 20


def test_a_worker_that_fails_by_itself_fails_the_run(tmp_path: Path, module: str) -> None:
    driver = Driver(module, ["--spool", str(tmp_path)], 8, [], tmp_path)
    with pytest.raises(AscertainError, match="slot 7: exit code 1"):
        driver.run()


def test_workers_that_take_too_long_are_ended(tmp_path: Path, module: str) -> None:
    driver = Driver(module, ["--spool", str(tmp_path)], 2, [], tmp_path, deadline_s=0.2)
    with pytest.raises(AscertainError, match=r"slots \[0, 1\] not done within 0.2 s"):
        driver.run()


def test_an_error_of_the_listener_fails_the_run(tmp_path: Path, module: str) -> None:
    def refuse(event: Event) -> None:
        raise OSError(f"no terminal for {event.word}")

    driver = Driver(module, ["--spool", str(tmp_path)], 1, [], tmp_path, refuse)
    with pytest.raises(AscertainError, match="no terminal for begin"):
        driver.run()


def test_the_figures() -> None:
    run = payments(7, 5)
    ids = [payment.action_id for payment in run]
    effects = [
        Effect("pi_1", ids[0], 1, reversed=False),
        Effect("pi_2", ids[1], 1, reversed=False),
        Effect("pi_3", ids[1], 1, reversed=True),
        Effect("pi_4", "nobody's", 1, reversed=False),
    ]
    row = count("naive", run, effects, open_ids=[ids[2]], kills=3)
    assert row == {
        "name": "naive",
        "approved": 5,
        "effects": 4,
        "duplicates": 2,
        "lost": 2,
        "unknown": 1,
        "kills": 3,
        "certificates": 0,
        "verified": 0,
    }


@pytest.mark.tools("localstripe")
def test_the_usual_way_pays_twice(tmp_path: Path) -> None:
    row = run_naive(7, tmp_path, number=40, workers=4, kills=4)
    assert row["approved"] == 40
    assert row["kills"] >= 3
    assert row["duplicates"] > 0
    assert row["effects"] == 40 - row["lost"] + row["duplicates"]
