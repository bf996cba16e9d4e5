"""Journals that were copied back, disks that are full, places that cannot be written, clocks."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import ascertain as a
from ascertain.errors import (
    AmbiguousCommit,
    ChainBroken,
    IncarnationChanged,
    JournalError,
    KeyringMissing,
)
from ascertain.journal.sqlite import SqliteJournal
from ascertain.projection import reconcile
from tests.interrupt.forked import value
from tests.interrupt.scene import Scene, word
from tests.interrupt.test_claims import Clock

REFUSED = (IncarnationChanged, ChainBroken)


def pay(place: Path, *names: str, close: bool = True) -> list[str]:
    scene = Scene(place, "readback")
    said = [word(scene.perform(name)) for name in names]
    if close:
        scene.journal.close()
    return said


def dropped(place: Path, name: str) -> str:
    return word(Scene(place, "readback", fate="dropped").perform(name))


def files(place: Path) -> list[Path]:
    return [place / f"journal.db{end}" for end in ("", "-wal", "-shm")]


def snapshot(place: Path, name: str) -> Path:
    """A copy of the database as it is, without what stands beside it."""
    kept = place / name
    kept.mkdir()
    for path in files(place):
        if path.exists():
            shutil.copy2(path, kept / path.name)
    return kept


def put_back(place: Path, kept: Path, how: str, wal: str) -> None:
    for path in files(place):
        if path.exists() and path.suffix != ".db" and wal != "left":
            path.unlink()
    for path in files(place):
        copy = kept / path.name
        if not copy.exists() or (path.suffix != ".db" and wal != "copied"):
            continue
        if how == "cp":
            path.write_bytes(copy.read_bytes())
        else:
            os.replace(copy, path)


@pytest.mark.parametrize("wal", ["copied", "dropped", "left"])
@pytest.mark.parametrize("how", ["cp", "mv"])
@pytest.mark.parametrize("closed", [True, False])
def test_a_journal_copied_back_is_refused_until_it_is_reconciled(
    tmp_path: Path, how: str, wal: str, *, closed: bool
) -> None:
    value(pay, tmp_path, "first")
    kept = snapshot(tmp_path, "an-hour-ago")

    def later() -> list[str]:
        return pay(tmp_path, "second", "third", close=closed)

    assert value(later) == ["Applied", "Applied"]
    put_back(tmp_path, kept, how, wal)

    def opened() -> str:
        try:
            scene = Scene(tmp_path, "readback")
        except JournalError as error:
            return type(error).__name__
        # Whatever was opened holds all that was acknowledged.
        return word(scene.journal.outcome("third"))

    said = value(opened)
    if wal == "left" and not closed and how == "cp":
        assert said in ("IncarnationChanged", "ChainBroken", "Applied", "JournalUnavailable")
    else:
        assert said in ("IncarnationChanged", "ChainBroken"), said


def restore(place: Path) -> None:
    """An action is known and not released; then released; then the journal is put back."""

    def refused() -> str:
        scene = Scene(place, "readback", policy=a.limits({"amount": 1}))
        said = word(scene.perform("pay"))
        scene.journal.close()
        return said

    assert value(refused) == "NotApplied"
    kept = snapshot(place, "an-hour-ago")
    assert value(pay, place, "pay") == ["Applied"]
    put_back(place, kept, "mv", "dropped")


def test_after_a_restore_never_released_is_not_claimed(tmp_path: Path) -> None:
    restore(tmp_path)

    def after() -> list[Any]:
        with pytest.raises(REFUSED):
            Scene(tmp_path, "readback")
        journal = SqliteJournal(tmp_path / "journal.db", reconciling=True)
        reconcile(journal, operator="ada", reason="restored on purpose", at=1_700_000_000_000_000)
        journal.close()
        scene = Scene(tmp_path, "readback")
        known = word(scene.journal.outcome("pay"))
        again = word(scene.perform("pay"))
        found = scene.journal.recover("pay")
        return [known, again, word(found.outcome), scene.sent, len(scene.ledger.effects("pay"))]

    known, again, recovered, sent, effects = value(after)
    assert known == "Unknown", "it may have been released in the life that was lost"
    assert again in ("Unknown", "Applied", "Conflict", "Pending")
    assert recovered != "NotApplied"
    assert (sent, effects) == (0, 1)


def test_a_restored_journal_can_be_read(tmp_path: Path) -> None:
    restore(tmp_path)

    def read() -> list[Any]:
        journal = a.open(tmp_path / "journal.db", policy=a.limits(), read_only=True)
        return [journal.journal.sources.complete, word(journal.outcome("pay"))]

    complete, known = value(read)
    assert complete is False
    assert known != "NotApplied"


@pytest.mark.parametrize("what", ["witness", "keyring.json"])
def test_what_stands_beside_the_journal_is_missed(tmp_path: Path, what: str) -> None:
    value(pay, tmp_path, "first")
    (tmp_path / "journal.db.ascertain" / what).unlink()

    def opened() -> str:
        try:
            scene = Scene(tmp_path, "readback")
        except JournalError as error:
            return type(error).__name__
        return f"complete={scene.journal.journal.sources.complete}"

    said = value(opened)
    wanted = {"witness": ("IncarnationChanged", "complete=False"), "keyring.json": "KeyringMissing"}
    assert said in wanted[what]
    assert KeyringMissing.__name__ == "KeyringMissing"


# --- full disks -----------------------------------------------------------------------------------


def test_a_full_database_releases_nothing_that_it_has_not_recorded(tmp_path: Path) -> None:
    def full() -> list[Any]:
        scene = Scene(tmp_path, "readback")
        assert word(scene.perform("first")) == "Applied"
        writer = scene.journal.journal._writer  # type: ignore[attr-defined]
        conn = writer._ready()
        pages = conn.execute("PRAGMA page_count").fetchone()[0]
        conn.execute(f"PRAGMA max_page_count = {pages + 3}")
        errors, number = [], 0
        while len(errors) < 5 and number < 200:
            number += 1
            try:
                scene.perform(f"pay-{number}")
            except JournalError as error:
                errors.append(type(error).__name__ if error.fix else "no fix")
        conn.execute("PRAGMA max_page_count = 1000000")
        names = ["first", *(f"pay-{each}" for each in range(1, number + 1))]
        said = []
        for name in names:
            known = word(scene.journal.outcome(name))
            effects = len(scene.ledger.effects(name))
            assert effects <= 1
            assert not (effects and known in ("nothing", "NotApplied", "Rejected")), (name, known)
            said.append(known)
            scene.verify(name)
        for name in names:
            again = word(scene.perform(name))
            assert again in ("Applied", "Unknown"), (name, again)
            assert len(scene.ledger.effects(name)) <= 1
        assert word(scene.perform("afterwards")) == "Applied"
        scene.journal.close()
        Scene(tmp_path, "readback")
        return [len(errors), sorted(set(errors))]

    count, names = value(full)
    assert count == 5
    assert set(names) <= {"JournalUnavailable", "AmbiguousCommit"}


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "small"
    place.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=640k", "tmpfs", str(place)], capture_output=True
    )
    if made.returncode:
        pytest.skip("a small file system cannot be mounted here")
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", str(place)], check=False)


def test_a_full_disk_loses_nothing(small_disk: Path) -> None:
    def full() -> list[Any]:
        scene = Scene(small_disk, "readback")
        done, errors, number = [], [], 0
        while len(errors) < 4 and number < 400:
            number += 1
            try:
                if word(scene.perform(f"pay-{number}")) == "Applied":
                    done.append(f"pay-{number}")
            except (JournalError, OSError) as error:
                errors.append(type(error).__name__)
                (small_disk / "filler").unlink(missing_ok=True)
            if number == 5:
                with (small_disk / "filler").open("wb") as file:
                    with suppress(OSError):
                        while True:
                            file.write(b"x" * 4096)
                            file.flush()
                    with suppress(OSError):
                        file.close()
        return [done, errors]

    ended = value(full)
    done, errors = ended

    def after() -> list[str]:
        for name in (small_disk / "filler",):
            name.unlink(missing_ok=True)
        scene = Scene(small_disk, "readback")
        return [name for name in done if word(scene.journal.outcome(name)) != "Applied"]

    assert value(after) == []
    assert set(errors) <= {"JournalUnavailable", "AmbiguousCommit", "OSError"}, errors


def unprivileged(place: Path) -> str:
    if os.geteuid() == 0:
        os.setegid(65534)
        os.seteuid(65534)
    try:
        Scene(place, "readback")
    except JournalError as error:
        return f"{type(error).__name__}: {error.fix}"
    return "opened"


@pytest.mark.parametrize("used", [True, False])
def test_a_place_of_somebody_elses_is_refused_in_words(tmp_path: Path, *, used: bool) -> None:
    place = tmp_path / "closed"
    place.mkdir(mode=0o755)
    if used:
        value(pay, place, "first")
    for parent in [tmp_path, *tmp_path.parents][:4]:
        if os.geteuid() == 0 and parent != Path("/"):
            parent.chmod(parent.stat().st_mode | 0o055)
    place.chmod(0o555)
    said = value(unprivileged, place)
    place.chmod(0o755)
    name, _, fix = said.partition(": ")
    assert name in ("JournalUnavailable", "KeyringMissing"), said
    assert fix


# --- clocks ---------------------------------------------------------------------------------------


def test_a_clock_that_steps_back_loses_and_guesses_nothing(tmp_path: Path) -> None:
    clock = Clock()
    scene = Scene(tmp_path, "readback", fate="lost", clock=clock)
    assert word(scene.perform("lost")) == "Unknown"
    scene.fate = "commits"
    assert word(scene.perform("done")) == "Applied"
    clock.time -= 3_600_000_000
    assert word(scene.perform("done")) == "Applied"
    with suppress(a.AscertainError):
        found = scene.journal.recover("lost")
        assert word(found.outcome) in ("Applied", "Unknown", "Conflict")
        assert not found.acted
    assert word(scene.perform("new")) == "Applied"
    clock.time += 3_700_000_000
    assert word(scene.journal.recover("lost").outcome) == "Applied"
    for name in ("lost", "done", "new"):
        assert len(scene.ledger.effects(name)) == 1
        scene.verify(name)


def test_a_clock_that_steps_back_within_the_release(tmp_path: Path) -> None:
    clock = Clock()
    scene = Scene(tmp_path, "readback", clock=clock)
    scene.perform("warm-up")
    for number in range(1, 12):
        clock.steps = [1] * number + [-3_600_000_000]
        name = f"pay-{number}"
        outcome = scene.perform(name)
        clock.steps, clock.time = [], clock.time + 7_200_000_000
        assert word(outcome) in ("Applied", "NotApplied"), (number, outcome)
        assert word(scene.perform(name)) == "Applied"
        assert len(scene.ledger.effects(name)) == 1
        scene.verify(name)


def test_another_database_is_no_journal(tmp_path: Path) -> None:
    sqlite3.connect(tmp_path / "journal.db").execute("CREATE TABLE t (x)")
    with pytest.raises(JournalError) as caught:
        Scene(tmp_path, "readback")
    assert caught.value.fix
    assert AmbiguousCommit.__mro__[1] is JournalError
