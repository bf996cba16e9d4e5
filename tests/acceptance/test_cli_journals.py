"""Journals that are not as they should be: damaged, copied, moved, newer, locked away."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from tests.acceptance.command import ASCERTAIN, Desk
from tests.acceptance.test_cli_reading import fits

ATTEST = (
    "attest", "letter", "--claim", "applied", "--operator", "Ada", "--reason", "asked",
    "--authority", "on call",
)  # fmt: skip
READING = (
    ("status",), ("actions",), ("show", "fine"), ("explain", "fine"), ("journal", "check"),
    ("recover", "--dry-run"),
)  # fmt: skip
WRITING = (ATTEST, ("certificate", "fine"), ("journal", "rebuild"))
RECONCILE = ("journal", "reconcile", "--operator", "Ada", "--reason", "restored; asked the bank")


def change(desk: Desk, *statements: str, name: str = "shop.db") -> None:
    conn = sqlite3.connect(desk.place / name, isolation_level=None)
    for statement in statements:
        conn.execute(statement)
    conn.close()


# --- check ----------------------------------------------------------------------------------


def test_a_whole_journal(shown: Desk) -> None:
    ran = shown("journal", "check")
    assert ran.code == 0
    fits(ran.out)
    assert ran.out.splitlines()[-1] == (
        "Every chain is whole, and every row follows from its records."
    )
    said = shown.json("journal", "check")
    assert set(said) == {
        "journal", "incarnation", "lineages", "records", "actions", "certificates",
        "reconciliations", "faults",
    }  # fmt: skip
    assert (said["lineages"], said["actions"], said["faults"]) == (9, 9, [])


UNLOCK = (
    "DROP TRIGGER record_kept_update",
    "DROP TRIGGER record_kept_delete",
    "DROP TRIGGER certificate_kept_delete",
    "DROP TRIGGER contract_kept_update",
)


@pytest.mark.parametrize(
    ("statement", "kind", "text"),
    [
        (
            "UPDATE record SET body = CAST(replace(CAST(body AS TEXT), '12500', '99999') AS BLOB)",
            "chain",
            "does not follow",
        ),
        ("UPDATE record SET body = x'00' WHERE number = (SELECT min(number) FROM record)", "chain",
         "cannot be read"),
        ("DELETE FROM record WHERE number & 1048575 = 2", "chain", "does not follow"),
        (
            "DELETE FROM record WHERE number = (SELECT max(number) FROM record "
            "WHERE number >> 20 = 1)",
            "row",
            "its position is",
        ),
        ("DELETE FROM record WHERE number >> 20 = 2", "store", "rows of actions have no records"),
        ("DELETE FROM certificate", "certificate", "is recorded and gone"),
        ("UPDATE contract SET body = '{}'", "contract", "is altered"),
        ("UPDATE contract SET digest = 'x' || digest", "contract", "is not in the journal"),
        ("INSERT INTO outbox (lineage, position, topic, body) VALUES (99, 1, 't', 'b')", "store",
         "outbox rows belong to no lineage"),
        ("INSERT INTO reservation VALUES ('d', 'nobody')", "store", "reservations are for"),
    ],
)  # fmt: skip
def test_what_the_check_finds(desk: Desk, statement: str, kind: str, text: str) -> None:
    desk("certificate", "fine", "-o", "fine.json")
    change(desk, *UNLOCK, statement)
    ran = desk("journal", "check", "--json")
    assert ran.code == 1, ran.err
    faults = ran.document["faults"]
    assert any(item["kind"] == kind and text in item["text"] for item in faults), faults
    missing = [item["text"] for item in faults if "the trigger" in item["text"]]
    assert len(missing) == len(UNLOCK)
    words = desk("journal", "check")
    assert words.code == 1
    fits(words.out)
    assert text in " ".join(words.out.split())


def test_rows_are_not_made_from_a_broken_chain(desk: Desk) -> None:
    change(desk, *UNLOCK[:2], "DELETE FROM record WHERE number & 1048575 = 2")
    ran = desk("journal", "rebuild")
    assert ran.code == 3
    assert "does not follow the one before it" in ran.first
    assert "Restore a checked backup" in ran.err


def test_an_altered_last_record_is_refused_for_writing_and_found_when_read(desk: Desk) -> None:
    change(
        desk,
        *UNLOCK[:1],
        'UPDATE record SET body = CAST(replace(CAST(body AS TEXT), \'"executor":"ex\', '
        '\'"executor":"ey\') AS BLOB)',
    )
    ran = desk(*ATTEST)
    assert ran.code == 3
    assert "was altered" in ran.first
    ran = desk("journal", "check", "--json")
    assert ran.code == 1
    assert {"witness", "chain"} <= {item["kind"] for item in ran.document["faults"]}


# --- not a journal, or not one for us -------------------------------------------------------


@pytest.mark.parametrize("words", [*READING, *WRITING, RECONCILE])
def test_what_is_no_journal(shown: Desk, words: tuple[str, ...]) -> None:
    for name, said in (
        ("nothing.db", "there is no journal at nothing.db"),
        ("shop.py", "shop.py is not a journal"),
        ("shop.db.ascertain", "shop.db.ascertain is a directory"),
        ("postgresql://host/db", "postgresql:// journals are not there yet"),
    ):
        ran = shown(*words, journal=name)
        assert ran.code == 3, (name, ran)
        assert ran.out == ""
        assert said in ran.first
        assert len(ran.err.splitlines()) >= 2
    assert not (shown.place / "nothing.db").exists()


def test_another_programs_database_is_left_alone(empty: Desk) -> None:
    change(empty, "CREATE TABLE t (a)", name="other.db")
    before = (empty.place / "other.db").read_bytes()
    for words in (("status",), ATTEST, RECONCILE):
        ran = empty(*words, journal="other.db")
        assert (ran.code, ran.first) == (3, "ascertain: other.db is not a journal")
    assert (empty.place / "other.db").read_bytes() == before
    assert not (empty.place / "other.db.ascertain").exists()


def test_a_newer_schema(desk: Desk) -> None:
    change(desk, "PRAGMA user_version = 9999")
    for words in (("status",), ATTEST, RECONCILE):
        ran = desk(*words)
        assert ran.code == 3
        assert "has schema 9999" in ran.first
        assert "Upgrade ascertain" in ran.err


def test_an_empty_file_is_no_journal_yet(empty: Desk) -> None:
    (empty.place / "empty.db").touch()
    ran = empty("status", journal="empty.db")
    assert ran.code == 3
    assert "there is no journal at empty.db" in ran.first


# --- copies ---------------------------------------------------------------------------------


def test_a_lost_keyring(desk: Desk) -> None:
    """Reading goes on with a warning; writing waits for the keys."""
    ring = desk.place / "shop.db.ascertain" / "keyring.json"
    raw = ring.read_bytes()
    ring.unlink()
    for words in WRITING:
        ran = desk(*words)
        assert ran.code == 3
        assert "keyring.json is gone" in ran.first
        assert "Put it back from a backup" in ran.err
    ran = desk.recover()
    assert ran.code == 3
    assert "keyring.json is gone" in ran.first
    ran = desk("explain", "fine")
    assert ran.code == 0
    assert ran.first.startswith("ascertain: warning: the keyring ")
    assert "It happened (VERIFIED_APPLIED)." in ran.out
    ring.write_bytes(b"not a keyring")
    assert "is not a keyring" in desk(*ATTEST).first
    ring.write_bytes(raw)
    assert desk(*ATTEST).code == 0


def test_a_copied_file_is_read_with_a_warning_and_claims_no_absence(desk: Desk) -> None:
    shutil.copy(desk.place / "shop.db", desk.place / "copy.db")
    for words in READING:
        ran = desk(*words, journal="copy.db")
        assert ran.code in (0, 1)
        assert ran.first == (
            "ascertain: warning: copy.db is a copy: the folder copy.db.ascertain is not beside it; "
            "that a record is missing proves nothing here"
        )
        assert len(ran.err.splitlines()) == 1
    assert desk.json("show", "denied")["outcome"]["word"] == "NOT_APPLIED"
    said = desk.json("show", "denied", journal="copy.db")
    assert said["outcome"]["word"] == "UNKNOWN"
    assert said["cut"]["complete"] is False
    assert desk.json("show", "fine", journal="copy.db")["outcome"]["word"] == "VERIFIED_APPLIED"
    assert desk("journal", "check", journal="copy.db").code == 1
    for words in WRITING:
        ran = desk(*words, journal="copy.db")
        assert ran.code == 3
        assert ran.out == ""
    assert not (desk.place / "copy.db.ascertain").exists()


def _restore(desk: Desk) -> None:
    """The file of an hour ago is copied back over the one that went on."""
    shutil.copy(desk.place / "shop.db", desk.place / "backup.db")
    desk.program("pay_one", "denied-then-allowed", "Northwind")
    shutil.copy(desk.place / "backup.db", desk.place / "shop.db")


def test_a_copied_back_journal_is_refused_until_it_is_reconciled(desk: Desk) -> None:
    _restore(desk)
    for words in WRITING:
        ran = desk(*words)
        assert ran.code == 3
        assert "ascertain journal reconcile --journal shop.db" in ran.err
    assert desk.recover().code == 3
    assert desk.program("pay_one", "x", "Northwind", check=False).code != 0
    ran = desk("status")
    assert ran.code == 1
    assert "warning: shop.db " in ran.first

    ran = desk(*RECONCILE)
    assert ran.code == 0, ran.err
    assert "shop.db is incarnation " in ran.out
    assert desk("status").err == ""
    checked = desk.json("journal", "check")
    assert checked["faults"] == []
    (began,) = checked["reconciliations"]
    assert began["operator"] == "Ada"
    assert began["reason"] == "restored; asked the bank"
    assert began["at"].endswith("Z")
    assert began["incarnation"] == checked["incarnation"] != began["after"]
    assert "reconciled " in desk("journal", "check").out

    # What was denied before may have been allowed and released in what is lost.
    for name in ("denied", "after"):
        said = desk.json("show", name)
        assert said["outcome"]["word"] == "UNKNOWN"
        assert said["cut"]["complete"] is True
    assert desk.json("show", "fine")["outcome"]["word"] == "VERIFIED_APPLIED"
    assert desk.json("show", "busy")["outcome"]["word"] == "UNKNOWN"
    # Whoever presents it again is not answered by sending it.
    before = (desk.place / "ledger.json").read_bytes()
    desk.program("pay_one", "new", "Northwind")
    assert desk.json("show", "new")["outcome"]["word"] == "VERIFIED_APPLIED"
    desk.program("pay_after", "after")
    assert desk.json("show", "after")["attempts"] == 0
    assert b"after" not in (desk.place / "ledger.json").read_bytes() + before
    assert desk(*ATTEST).code == 0


def test_reconcile_for_programs(desk: Desk) -> None:
    _restore(desk)
    said = desk.json(*RECONCILE)
    assert set(said) == {"incarnation", "after", "doubts", "operator", "reason", "counts"}
    assert said["doubts"]
    assert said["counts"]["applied_final"] == 2


def test_reconcile_only_where_there_is_something_to(desk: Desk) -> None:
    ran = desk(*RECONCILE)
    assert ran.code == 2
    assert "there is nothing to reconcile" in ran.first
    assert "--force" in ran.err
    assert desk("status").err == ""
    assert desk.json("show", "denied")["outcome"]["word"] == "NOT_APPLIED"
    assert desk(*RECONCILE, "--force").code == 0
    assert desk.json("show", "denied")["outcome"]["word"] == "UNKNOWN"
    ran = desk("journal", "reconcile", "--operator", " ", "--reason", "r", "--force")
    assert ran.code == 2
    assert "needs operator" in ran.first
    assert len(desk.json("journal", "check")["reconciliations"]) == 1


def test_a_lost_or_unreadable_witness_is_no_proof(desk: Desk) -> None:
    witness = desk.place / "shop.db.ascertain" / "witness"
    for raw in (None, b"rubbish" * 80):
        if raw is None:
            witness.unlink()
        else:
            witness.write_bytes(raw)
        assert desk(*ATTEST).code == 3
        ran = desk("show", "denied", "--json")
        assert "warning" in ran.first
        assert ran.document["outcome"]["word"] == "UNKNOWN"
        assert desk(*RECONCILE).code == 0
        assert desk(*ATTEST).code == 0


def test_a_broken_chain_is_not_reconciled(desk: Desk) -> None:
    change(desk, *UNLOCK[:2], "DELETE FROM record WHERE number & 1048575 = 2")
    shutil.copy(desk.place / "shop.db", desk.place / "other.db")
    os.replace(desk.place / "other.db", desk.place / "shop.db")
    before = desk.json("journal", "check")["incarnation"]
    ran = desk(*RECONCILE)
    assert ran.code == 3
    assert "does not follow" in ran.first
    assert desk.json("journal", "check")["incarnation"] == before
    assert desk(*ATTEST).code == 3


# --- places that cannot be written to -------------------------------------------------------


def _as_nobody(desk: Desk, *words: str, journal: str = "shop.db") -> tuple[int, str, str]:
    become = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]
    ran = subprocess.run(
        [*(become if os.geteuid() == 0 else []), ASCERTAIN, *words],
        cwd=desk.place,
        env={**desk.environment, "ASCERTAIN_JOURNAL": journal, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        timeout=60,
        check=False,
    )
    return ran.returncode, ran.stdout.decode(), ran.stderr.decode()


@pytest.fixture
def locked(desk: Desk) -> Desk:
    """The shop where whoever runs the command may read, and write nothing."""
    places = [desk.place, *desk.place.rglob("*")]
    if os.geteuid() == 0:
        if shutil.which("setpriv") is None:
            pytest.skip("not installed: setpriv")
        for place in (*desk.place.parents,):
            if not os.stat(place).st_mode & 0o001:
                os.chmod(place, os.stat(place).st_mode | 0o001)
        code, _, err = _as_nobody(desk, "--version")
        if code:
            pytest.skip(f"nobody cannot run the command here: {err}")
    for place in places:
        os.chmod(place, 0o555 if place.is_dir() else 0o444)
    return desk


def test_a_read_only_directory(locked: Desk) -> None:
    try:
        for words in (*READING, *WRITING, RECONCILE):
            code, out, err = _as_nobody(locked, *words)
            assert (code, out) == (3, ""), (words, out, err)
            assert "Traceback" not in err
            assert len(err.splitlines()) >= 2
        code, _, err = _as_nobody(locked, "status")
        assert "cannot be read here" in err.splitlines()[0]
        assert "copy shop.db" in err
    finally:
        for place in (locked.place, *locked.place.rglob("*")):
            os.chmod(place, 0o755 if place.is_dir() else 0o644)


def test_a_file_that_may_not_be_read(locked: Desk) -> None:
    for place in (locked.place, *locked.place.rglob("*")):
        os.chmod(place, 0o755 if place.is_dir() else 0o600)
    if os.geteuid() != 0:
        os.chmod(locked.place / "shop.db", 0)
    code, out, err = _as_nobody(locked, "status")
    os.chmod(locked.place / "shop.db", 0o644)
    assert (code, out) == (3, ""), err
    assert "Traceback" not in err


def test_certificates_need_a_place_for_their_key(desk: Desk) -> None:
    (desk.place / "shop.db.ascertain" / "signing.pem").mkdir()
    ran = desk("certificate", "fine")
    assert ran.code == 2
    assert ran.out == ""
    assert "Traceback" not in ran.err


def test_the_python_that_runs_the_tests_runs_the_command() -> None:
    assert Path(ASCERTAIN).parent == Path(sys.executable).parent
