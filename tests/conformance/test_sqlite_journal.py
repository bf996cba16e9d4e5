"""What only a file can show: append-only, many processes, migrations and refusals."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import sqlite3
from pathlib import Path

import pytest

from ascertain.core.records import AttemptReleased
from ascertain.errors import (
    ChainBroken,
    IncarnationChanged,
    JournalError,
    JournalUnavailable,
    KeyringMissing,
    NotAJournal,
    SchemaTooNew,
)
from ascertain.journal.sqlite import SqliteJournal
from ascertain.journal.sqlite_file import migrations

from .test_journal import chain, create, row


def release(journal: SqliteJournal, action_id: str) -> None:
    """An action whose last record is a release: what the outside was shown."""
    made = chain(action_id)
    made.add(
        AttemptReleased(
            action_id=action_id,
            at=1,
            number=1,
            epoch=1,
            executor="e",
            key=action_id,
            payload_hash="b",
            decision_id="d",
            incarnation="i",
        )
    )
    journal.transact(lambda tx: tx.create(row(action_id), made))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal.db"


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE record SET body = x'00'",
        "DELETE FROM record",
        "INSERT OR REPLACE INTO record (number, body) SELECT number, x'00' FROM record",
        "REPLACE INTO record (number, body) SELECT number, x'00' FROM record",
        "UPDATE contract SET body = x'00'",
        "DELETE FROM contract",
        "UPDATE certificate SET body = x'00'",
        "DELETE FROM certificate",
    ],
)
def test_the_database_refuses_to_change_what_was_recorded(path: Path, statement: str) -> None:
    journal = SqliteJournal(path)
    create(journal)
    journal.keep_contract("c", b"one")
    from ascertain.journal import StoredCertificate

    kept = StoredCertificate(
        digest="d", action_id="a", root_id="a", position=2, form="report", body=b"x"
    )
    journal.transact(lambda tx: tx.keep_certificate(kept))
    conn = sqlite3.connect(path)
    with pytest.raises(sqlite3.IntegrityError, match=r"append-only|position taken"):
        conn.execute(statement)
    conn.close()
    assert journal.entries("a") == chain().entries


def _grow(path: str, name: str, count: int) -> None:
    journal = SqliteJournal(Path(path))
    for number in range(count):
        create(journal, f"{name}-{number}")
    journal.close()


def test_many_processes_share_one_file(path: Path) -> None:
    SqliteJournal(path).close()
    context = multiprocessing.get_context("fork")
    workers = [
        context.Process(target=_grow, args=(str(path), f"p{number}", 25)) for number in range(4)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
        assert worker.exitcode == 0
    journal = SqliteJournal(path)
    assert len(list(journal.roots())) == 100
    assert all(len(journal.entries(name)) == 2 for name in journal.roots())
    journal.close()


def test_a_forked_child_opens_the_journal_for_itself(path: Path) -> None:
    journal = SqliteJournal(path)
    create(journal, "before")
    child = os.fork()
    if child == 0:
        code = 1
        try:
            create(journal, "in-child")
            code = 0 if len(list(journal.roots())) == 2 else 2
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    create(journal, "after")
    assert sorted(journal.roots()) == ["after", "before", "in-child"]
    journal.close()


def test_a_file_that_is_something_else_is_refused(tmp_path: Path) -> None:
    text = tmp_path / "notes.txt"
    text.write_text("not a database, and long enough to be looked at " * 40)
    with pytest.raises(NotAJournal):
        SqliteJournal(text)
    other = tmp_path / "other.db"
    conn = sqlite3.connect(other)
    conn.execute("CREATE TABLE t (a)")
    conn.commit()
    conn.close()
    before = other.read_bytes()
    with pytest.raises(NotAJournal):
        SqliteJournal(other)
    assert other.read_bytes() == before
    with pytest.raises(JournalError):
        SqliteJournal(tmp_path)


def test_a_newer_schema_is_refused(path: Path) -> None:
    journal = SqliteJournal(path)
    create(journal)
    journal.close()
    conn = sqlite3.connect(path)
    conn.execute(f"PRAGMA user_version = {migrations()[-1][0] + 1}")
    conn.close()
    with pytest.raises(SchemaTooNew):
        SqliteJournal(path)


def test_migrations_are_numbered_without_a_gap() -> None:
    assert [number for number, _ in migrations()] == list(range(1, len(migrations()) + 1))


def test_a_lost_keyring_is_said_and_not_replaced(path: Path) -> None:
    journal = SqliteJournal(path)
    create(journal)
    journal.close()
    ring = path.with_name("journal.db.ascertain") / "keyring.json"
    ring.unlink()
    with pytest.raises(KeyringMissing):
        SqliteJournal(path)
    assert not ring.exists()


def test_a_journal_without_records_may_have_its_keyring_made_again(path: Path) -> None:
    SqliteJournal(path).close()
    (path.with_name("journal.db.ascertain") / "keyring.json").unlink()
    SqliteJournal(path).close()


def test_there_is_nothing_to_read_where_no_journal_is(path: Path) -> None:
    for options in ({"read_only": True}, {"create": False}):
        with pytest.raises(JournalUnavailable):
            SqliteJournal(path, **options)
    assert not path.exists()


@pytest.mark.parametrize("how", ["copy", "move"])
def test_a_journal_copied_back_is_another_incarnation(path: Path, how: str) -> None:
    journal = SqliteJournal(path)
    create(journal, "old")
    journal.close()
    kept = path.with_name("kept.db")
    shutil.copy(path, kept)
    journal = SqliteJournal(path)
    release(journal, "new")
    journal.close()
    for name in ("-wal", "-shm"):
        path.with_name(path.name + name).unlink(missing_ok=True)
    if how == "copy":
        shutil.copy(kept, path)
    else:
        os.replace(kept, path)
    with pytest.raises(IncarnationChanged):
        SqliteJournal(path)


def test_a_record_that_was_altered_is_found_at_the_next_opening(path: Path) -> None:
    journal = SqliteJournal(path)
    release(journal, "a")
    journal.close()
    conn = sqlite3.connect(path)
    conn.execute("DROP TRIGGER record_kept_update")
    conn.execute("UPDATE record SET body = CAST(replace(body, '\"at\":1', '\"at\":7') AS BLOB)")
    conn.commit()
    conn.close()
    with pytest.raises(ChainBroken):
        SqliteJournal(path)


def test_a_full_disk_loses_nothing_that_was_told(path: Path) -> None:
    journal = SqliteJournal(path)
    create(journal, "kept")
    writer = journal._writer
    pages = writer.submit(lambda conn: conn.execute("PRAGMA page_count").fetchone()[0])
    writer.submit(lambda conn: conn.execute(f"PRAGMA max_page_count = {pages + 2}").fetchone())
    known = ["kept"]

    def fill() -> None:
        for number in range(400):
            create(journal, f"n{number}")
            known.append(f"n{number}")

    with pytest.raises(JournalUnavailable):
        fill()
    journal.close()
    journal = SqliteJournal(path)
    assert sorted(journal.roots()) == sorted(known)
    assert all(len(journal.entries(name)) == 2 for name in known)
    assert journal.action("kept") is not None
    assert row().epoch == 1
    journal.close()
