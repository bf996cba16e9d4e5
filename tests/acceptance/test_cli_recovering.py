"""`recover` and `attest` by the real command: what they decide, leave and say."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time

import pytest

from tests.acceptance.command import ASCERTAIN, Desk
from tests.acceptance.test_cli_reading import fits

ATTEST = ("--operator", "Ada", "--reason", "asked the bank", "--authority", "on call")


def ledger(desk: Desk) -> list[str]:
    path = desk.place / "ledger.json"
    return [item["action_id"] for item in json.loads(path.read_text())] if path.exists() else []


def test_recover_all_that_are_due(desk: Desk) -> None:
    ran = desk.recover("--json")
    assert ran.code == 1  # busy and silent stay open
    said = ran.document
    assert said["dry_run"] is False
    assert said["refused"] == []
    found = {item["action_id"]: item for item in said["recovered"]}
    assert set(found) == {"busy", "silent", "lost"}
    assert found["lost"]["outcome"] == "VERIFIED_APPLIED"
    assert found["lost"]["decision"] == "adopt"
    assert found["lost"]["row"] == "applied/final"
    assert found["lost"]["left"] is False
    assert found["silent"]["acted"] is True
    assert found["silent"]["left"] is True
    assert all(item["certificate"] for item in found.values())
    assert set(found["lost"]) == {
        "action_id", "outcome", "finding", "next_look", "decision", "row", "acted", "busy",
        "certificate", "left",
    }  # fmt: skip
    assert ledger(desk).count("lost") == 1


def test_recover_all_in_words(desk: Desk) -> None:
    ran = desk.recover()
    assert ran.code == 1
    fits(ran.out)
    assert "lost\n  it happened (VERIFIED_APPLIED)\n  take this as the result" in ran.out
    assert ran.out.splitlines()[-2:] == [
        "3 recovered; 2 left open or to a person",
        "next: ascertain status --app shop:journal",
    ] or ran.out.splitlines()[-1].startswith("next: ascertain status")


def test_recover_one_that_is_fine_and_then_nothing_is_due(desk: Desk) -> None:
    ran = desk.recover("lost")
    assert ran.code == 0, ran.out
    assert "certificate " in ran.out
    again = desk.recover("lost", "--json")
    assert again.code == 0
    assert ledger(desk).count("lost") == 1


def test_nothing_due(empty: Desk) -> None:
    empty.program("pay_one", "one", "Northwind")
    assert empty.recover().out == "Nothing is due.\n"
    assert empty.recover().code == 0
    assert empty.recover("--dry-run").out == "Nothing is due.\n"


def test_a_killed_worker_is_recovered_at_once(empty: Desk) -> None:
    ran = empty.program("pay_one", "one", "dies", check=False)
    assert ran.code == -signal.SIGKILL
    shown = empty("status")
    assert shown.code == 0
    assert "1 is due" in shown.out
    plan = empty.json("recover", "--dry-run")["actions"]
    assert [item["busy"] for item in plan] == [False]
    assert plan[0]["executors_gone"]
    ran = empty.recover("--json")
    assert ran.code == 0
    assert ran.document["recovered"][0]["outcome"] == "VERIFIED_APPLIED"
    assert ledger(empty) == ["one"]


def test_surplus_is_compensated_and_said_to_be_settled(empty: Desk) -> None:
    empty.program("pay_one", "one", "twice")
    ran = empty.recover("one")
    assert ran.code == 0, ran.out + ran.err
    assert empty("status").code == 0
    ran = empty("show", "one")
    fits(ran.out)
    assert "it happened more often than wanted, and the surplus was undone (CONFLICT)" in ran.out
    assert "same lineage  one/compensate/payment-2: it happened" in ran.out
    fits(empty("show", "one/compensate/payment-2").out)
    fits(empty("explain", "one").out)
    fits(empty("actions").out)


def test_a_dry_run_looks_at_nothing_and_writes_nothing(desk: Desk) -> None:
    before = (desk.place / "shop.db").read_bytes()
    for words, options in (
        (("recover", "--dry-run"), {}),
        (("recover", "--dry-run", "--app", "shop:journal"), {"SHOP_SLOW": "1"}),
    ):
        ran = desk(*words, **options)
        assert ran.code == 0
        fits(ran.out)
        assert "nothing was written" in " ".join(ran.out.split())
        assert "looking" not in ran.out
    said = desk.json("recover", "--dry-run", "--app", "shop:journal")
    assert said["dry_run"] is True
    plans = {item["action_id"]: item for item in said["actions"]}
    assert set(plans) == {"busy", "silent", "lost"}
    assert plans["busy"]["decision"] == "execute"
    assert plans["silent"]["row"] == "unknown/verify"
    assert plans["silent"]["looks"] == ["ledger"]
    assert plans["silent"]["due"] is True
    assert set(plans["silent"]) == {
        "action_id", "outcome", "finding", "decision", "row", "reason", "looks", "seals",
        "executors_gone", "busy", "due", "next_at", "needs_person",
    }  # fmt: skip
    assert (desk.place / "shop.db").read_bytes() == before
    assert desk.json("show", "silent")["timeline"][-1]["kind"] == "AttemptReturned"


def test_a_dry_run_of_one_that_waits_for_a_person(desk: Desk) -> None:
    ran = desk("recover", "letter", "--dry-run")
    assert ran.code == 1
    assert "would come to: a person must decide (quarantine, row unknown/no-safe-replay)" in (
        " ".join(ran.out.split())
    )


def test_no_act_decides_and_releases_nothing(desk: Desk) -> None:
    before = ledger(desk)
    ran = desk.recover("busy", "--no-act", "--json")
    said = ran.document["recovered"][0]
    assert (said["decision"], said["acted"]) == ("execute", False)
    assert desk.json("show", "busy")["attempts"] == 1
    assert desk.json("show", "busy")["decision"]["recorded"] is True
    assert ledger(desk) == before


def test_recover_needs_the_program(desk: Desk) -> None:
    ran = desk("recover")
    assert ran.code == 2
    assert ran.out == ""
    assert ran.first.startswith("ascertain: recovery needs the program")
    assert "--app module:object" in ran.err


def test_an_action_whose_type_is_not_declared_does_not_stop_the_rest(desk: Desk) -> None:
    (desk.place / "other.py").write_text(
        "import ascertain as a\njournal = a.open('shop.db', policy=a.limits())\n"
    )
    ran = desk("recover", "--app", "other:journal", "--json", journal=None)
    assert ran.code == 1
    said = ran.document
    assert said["recovered"] == []
    assert {item["action_id"] for item in said["refused"]} == {"busy", "silent", "lost"}
    assert "is not declared here" in said["refused"][0]["error"]
    words = desk("recover", "--app", "other:journal", journal=None)
    assert words.code == 1
    assert "refused: the action type 'pay' is not declared here" in words.out
    one = desk("recover", "lost", "--app", "other:journal", journal=None)
    assert one.code == 2
    assert "is not declared here" in one.first


def test_the_programs_journal_must_be_the_one_that_is_named(desk: Desk) -> None:
    ran = desk("recover", "--app", "shop:journal", journal="other.db")
    assert ran.code == 2
    assert "shop:journal opened" in ran.first
    same = desk(
        "recover", "lost", "--app", "shop:journal", "--journal", str(desk.place / "shop.db")
    )
    assert same.code == 0, same.err


# --- attest ---------------------------------------------------------------------------------


def test_a_persons_word_closes_what_nothing_else_can(desk: Desk) -> None:
    ran = desk("attest", "letter", "--claim", "applied", *ATTEST, "--reference", "R 7")
    assert ran.code == 0
    assert ran.out.splitlines() == [
        "letter: Ada attests applied", "it happened (VERIFIED_APPLIED)",
    ]  # fmt: skip
    assert desk("status").code == 0
    said = desk.json("show", "letter")
    assert said["outcome"]["effects"][0]["reference"] == "R 7"
    lines = desk.json("explain", "letter")["sentences"]["What was done"]
    assert (
        "Ada attests that it happened, because: asked the bank (on the authority of on call)."
        in lines
    )


def test_attest_for_programs(desk: Desk) -> None:
    ran = desk("attest", "letter", "--claim", "not-applied", *ATTEST, "--json")
    assert ran.code == 0
    assert ran.document == {
        "action_id": "letter",
        "claim": "not-applied",
        "operator": "Ada",
        "outcome": "NOT_APPLIED",
        "finding": "not_applied",
        "next_look": None,
    }


def test_a_persons_word_against_the_provider_is_a_conflict(desk: Desk) -> None:
    ran = desk("attest", "fine", "--claim", "not_applied", *ATTEST)
    assert ran.code == 1
    assert "CONFLICT" in ran.out
    ran = desk("status")
    assert ran.code == 1
    assert "next: ascertain explain fine" in ran.out
    text = desk("show", "fine").out
    fits(text)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--claim", "maybe", *ATTEST), "claim 'maybe' is none"),
        (("--claim", "applied", *ATTEST[:-1], ""), "an attestation needs authority"),
        (("--claim", "applied", *ATTEST[:-2]), "Missing option '--authority'"),
        (("--claim", "applied", "--operator", "x" * 2001, *ATTEST[2:]), "needs operator"),
    ],
)
def test_what_an_attestation_needs(shown: Desk, words: tuple[str, ...], said: str) -> None:
    ran = shown("attest", "letter", *words)
    assert ran.code == 2
    assert said in ran.first


# --- Ctrl-C ---------------------------------------------------------------------------------


def test_an_interrupt_ends_with_one_line_and_loses_nothing(desk: Desk) -> None:
    running = subprocess.Popen(
        [ASCERTAIN, "recover", "--app", "shop:journal"],
        cwd=desk.place,
        env={**desk.environment, "SHOP_SLOW": "1", "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert running.stdout is not None
    while running.stdout.readline().strip() != b"looking":
        assert running.poll() is None
    os.kill(running.pid, signal.SIGINT)
    out, err = running.communicate(timeout=30)
    assert running.returncode == 130
    assert out == b""
    (line,) = err.decode().splitlines()
    assert line.startswith("ascertain: interrupted: 1 recovered before; the rest stays open")
    assert desk("journal", "check").code == 0
    ran = desk.recover("lost", "--json")
    assert ran.document["recovered"][0]["outcome"] == "VERIFIED_APPLIED"
    assert desk.recover("silent", "--json").document["recovered"][0]["busy"] is False
    assert ledger(desk).count("lost") == 1


def test_an_interrupt_at_any_moment_is_130_without_a_traceback(desk: Desk) -> None:
    for wait in (0.02, 0.1, 0.2, 0.3, 0.45):
        running = subprocess.Popen(
            [ASCERTAIN, "journal", "check"],
            cwd=desk.place,
            env={**desk.environment, "ASCERTAIN_JOURNAL": "shop.db"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        time.sleep(wait)
        running.send_signal(signal.SIGINT)
        _, err = running.communicate(timeout=30)
        # Before its first line runs, the interpreter ends in its own way.
        if running.returncode not in (0, -signal.SIGINT) and b"init_import_site" not in err:
            assert running.returncode == 130, err.decode()
            assert len(err.decode().splitlines()) == 1, err.decode()
