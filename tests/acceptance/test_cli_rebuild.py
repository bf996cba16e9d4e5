"""`journal rebuild`: every row follows from the records, whatever became of the rows."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from ascertain.core.contract import SECOND
from ascertain.journal import ActionRow
from ascertain.journal.sqlite import SqliteJournal
from ascertain.projection import EXACT, rebuild
from tests.acceptance.command import ASCERTAIN, Desk

SHARED = """
import sys
import ascertain as a
from ascertain.authority.limits import limits

class Shared:
    def __init__(self, policy):
        self.policy = policy
    def decide(self, request):
        from msgspec.structs import replace
        ruling = self.policy.decide(request)
        return replace(ruling, decision_id="shared-1", action_id=None, uses=2)
    def grants(self, request):
        return self.policy.grants(request)

journal = a.open("shop.db", policy=Shared(limits()))

@journal.action("gift", contract=a.Contract(name="gift", surface=()))
def gift(call, *, payee: str):
    return a.Done(reference=call.action_id)

for name in sys.argv[1:]:
    gift.perform(name, payee="Northwind")
"""

TIMES = ("created_at", "changed_at", "next_at", "lease_until")
"""Times that the rows take from a clock a moment after the records did."""


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory) -> Desk:
    """A journal with an action in every state that the flows leave behind."""
    desk = Desk(tmp_path_factory.mktemp("busy"))
    desk.program("scene")
    desk.program("pay_one", "double", "twice")
    desk.recover()
    desk("attest", "letter", "--claim", "applied", "--operator", "Ada", "--reason", "asked",
         "--authority", "on call")  # fmt: skip
    desk("attest", "fine", "--claim", "not_applied", "--operator", "Ada", "--reason", "asked",
         "--authority", "on call")  # fmt: skip
    desk("certificate", "cash", "-o", "cash.json")
    (desk.place / "shared.py").write_text(SHARED)
    desk._run([sys.executable, "shared.py", "g1", "g2", "g3"], {},
              check=True)  # fmt: skip
    desk.program("pay_one", "again", "busy")
    desk.program("pay_one", "again", "busy")
    desk.program("pay_one", "killed", "dies", check=False)
    desk.program("pay_one", "leased", "silent")
    _kill_while_recovering(desk, "leased")
    return desk


def _kill_while_recovering(desk: Desk, action_id: str) -> None:
    """A recovery that took the lease, and was killed while it looked."""
    running = subprocess.Popen(
        [ASCERTAIN, "recover", action_id, "--app", "shop:journal"],
        cwd=desk.place,
        env={**desk.environment, "SHOP_SLOW": "1"},
        stdout=subprocess.PIPE,
    )
    assert running.stdout is not None
    while running.stdout.readline().strip() != b"looking":
        assert running.poll() is None
    os.kill(running.pid, signal.SIGKILL)
    running.communicate()


def rows_in(desk: Desk) -> dict[str, ActionRow]:
    journal = SqliteJournal(desk.place / "shop.db", read_only=True)
    rows = {row.action_id: row for row in journal.actions(most=10_000)}
    journal.close()
    return rows


def reservations(desk: Desk) -> list[tuple[str, str]]:
    with sqlite3.connect(desk.place / "shop.db") as conn:
        found = conn.execute("SELECT * FROM reservation ORDER BY 1, 2").fetchall()
    conn.close()
    return found


def change(place: Path, *statements: str) -> None:
    conn = sqlite3.connect(place / "shop.db", isolation_level=None)
    for statement in statements:
        conn.execute(statement)
    conn.close()


def same(kept: dict[str, ActionRow], made: dict[str, ActionRow]) -> None:
    assert set(kept) == set(made)
    for name, row in kept.items():
        other = made[name]
        for field in row.__struct_fields__:
            mine, theirs = getattr(row, field), getattr(other, field)
            if field in TIMES:
                assert abs(mine - theirs) < SECOND, (name, field, mine - theirs)
            elif field == "number":
                assert row.parent is not None or mine == theirs
            else:
                assert mine == theirs, (name, field)


def test_the_scene_has_every_state(busy: Desk) -> None:
    rows = rows_in(busy).values()
    assert {row.finding for row in rows} == {
        "applied_final", "rejected", "not_applied", "unknown", "conflict",
    }  # fmt: skip
    assert {row.decision for row in rows} >= {"refused-here", "released"}
    assert any(row.parent is not None for row in rows)
    assert any(row.compensation == "applied" for row in rows)
    assert {row.holder != "" for row in rows} == {True, False}
    assert reservations(busy) == [("shared-1", "g1"), ("shared-1", "g2")]


MUTILATIONS = {
    "nothing": (),
    "all rows dropped": ("DELETE FROM action",),
    "roots dropped": ("DELETE FROM action WHERE parent IS NULL",),
    "compensations dropped": ("DELETE FROM action WHERE parent IS NOT NULL",),
    "reservations dropped": ("DELETE FROM reservation", "DELETE FROM action"),
    "lineages mixed up": (
        "UPDATE action SET number = number + 100000",
        "UPDATE action SET number = 100100 - number + 100000",
    ),
    "rows of nothing": (
        "INSERT INTO action SELECT number + 5000, NULL, 'ghost-' || action_id, root_id, 1, head, "
        "type, contract, fingerprint, finding, level, compensation, decision, epoch, holder, "
        "lease_until, attempts, created_at, changed_at, next_at, open FROM action",
    ),
} | {
    f"{field} altered": (f"UPDATE action SET {field} = {value}",)
    for field, value in {
        "root_id": "'x'", "type": "'x'", "contract": "'x'", "fingerprint": "'x'",
        "finding": "'rejected'", "level": "7", "compensation": "'failed'", "decision": "'x'",
        "epoch": "99", "holder": "'x'", "lease_until": "1", "attempts": "99", "open": "1",
        "position": "99", "head": "'x'", "created_at": "1", "next_at": "1",
    }.items()
}  # fmt: skip


@pytest.mark.parametrize("how", MUTILATIONS)
def test_rows_are_the_same_after_they_were_made_again(busy: Desk, how: str) -> None:
    kept, used = rows_in(busy), reservations(busy)
    change(busy.place, *MUTILATIONS[how])
    journal = SqliteJournal(busy.place / "shop.db")
    assert rebuild(journal) == len(kept)
    journal.close()
    same(kept, rows_in(busy))
    assert reservations(busy) == used


def test_the_command_finds_altered_rows_and_makes_them_again(busy: Desk) -> None:
    kept = rows_in(busy)
    assert busy("journal", "check").code == 0
    change(
        busy.place,
        "UPDATE action SET epoch = 99 WHERE action_id = 'fine'",
        "DELETE FROM action WHERE action_id = 'declined'",
        "UPDATE action SET compensation = 'none' WHERE action_id = 'double'",
    )
    ran = busy("journal", "check", "--json")
    assert ran.code == 1
    found = {(item["kind"], item["where"]): item["text"] for item in ran.document["faults"]}
    assert "its epoch is 99, by its records 1" in found["row", "fine"]
    assert found["row", "declined"] == "it has records, and no row"
    assert ("row", "double") in found
    words = busy("journal", "check")
    assert words.code == 1
    assert "made again from the records by `ascertain journal rebuild`" in words.out
    ran = busy("journal", "rebuild")
    assert ran.code == 0
    assert (
        ran.out
        == f"{len(kept)} actions of {len(kept) - 1} lineages made again from their records\n"
    )
    assert busy("journal", "check").code == 0
    same(kept, rows_in(busy))
    said = busy.json("journal", "rebuild")
    assert said == {"lineages": len(kept) - 1, "actions": len(kept)}


def test_rows_are_made_again_while_others_write(empty: Desk) -> None:
    empty.program("pay_one", "first", "Northwind")
    writing = subprocess.Popen(
        [sys.executable, "shop.py", "pay_many", "60"], cwd=empty.place, env=empty.environment
    )
    journal = SqliteJournal(empty.place / "shop.db")
    rounds = 0
    while writing.poll() is None:
        rebuild(journal)
        rounds += 1
    journal.close()
    assert writing.returncode == 0
    assert rounds > 1
    assert empty("journal", "check").code == 0
    assert empty.json("status")["counts"] == {"applied_final": 61, "open": 0}


def test_exact_fields_are_fields() -> None:
    assert set(EXACT) < set(ActionRow.__struct_fields__)
    assert msgspec.structs.fields(ActionRow)
