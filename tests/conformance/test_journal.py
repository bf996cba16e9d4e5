"""One suite for every implementation of the Journal protocol (DESIGN 10)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ascertain.core.records import Chain, Entry, LeaseTaken
from ascertain.errors import PositionTaken, StaleEpoch
from ascertain.journal import ActionRow, Journal, StoredCertificate, Transaction
from ascertain.journal.memory import MemoryJournal
from ascertain.journal.sqlite import SqliteJournal

MAKERS: dict[str, Callable[[Path], Journal]] = {
    "memory": lambda folder: MemoryJournal(),
    "sqlite": lambda folder: SqliteJournal(folder / "journal.db"),
}


@pytest.fixture(params=sorted(MAKERS))
def journal(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Journal]:
    made = MAKERS[request.param](tmp_path)
    yield made
    made.close()


def row(action_id: str = "a", **given: Any) -> ActionRow:
    known: dict[str, Any] = {
        "action_id": action_id,
        "root_id": action_id,
        "type": "pay",
        "contract": "c",
        "fingerprint": "k:f",
        "epoch": 1,
        "created_at": 5,
    }
    return ActionRow(**{**known, **given})


def chain(lineage: str = "a", after: list[Entry] | None = None, count: int = 2) -> Chain:
    made = Chain(lineage, after[-1].position, after[-1].digest) if after else Chain(lineage)
    for number in range(count):
        made.add(LeaseTaken(action_id=lineage, at=number, epoch=1, holder="h"))
    return made


def create(journal: Journal, action_id: str = "a", **given: Any) -> ActionRow:
    made = row(action_id, **given)
    journal.transact(lambda tx: tx.create(made, chain(action_id)))
    return made


def test_what_was_written_is_read_back(journal: Journal) -> None:
    create(journal)
    entries = journal.entries("a")
    found = journal.action("a")
    assert [entry.position for entry in entries] == [1, 2]
    assert entries == chain().entries
    assert found is not None
    assert (found.position, found.head) == (2, entries[-1].digest)
    assert (found.type, found.epoch, found.open) == ("pay", 1, True)


def test_nothing_is_known_of_an_unknown_id(journal: Journal) -> None:
    assert journal.action("x") is None
    assert journal.entries("x") == []
    assert journal.lineage("x") == []
    assert journal.contract("x") is None
    assert journal.certificates("x") == []


def test_an_id_is_created_once(journal: Journal) -> None:
    create(journal)
    with pytest.raises(PositionTaken):
        create(journal)
    assert len(journal.entries("a")) == 2


def test_of_two_that_advance_from_one_place_one_wins(journal: Journal) -> None:
    made = create(journal)
    entries = journal.entries("a")
    journal.transact(lambda tx: tx.advance(made, chain("a", entries, 1), epoch=1))
    with pytest.raises(PositionTaken):
        journal.transact(lambda tx: tx.advance(made, chain("a", entries, 1), epoch=1))
    assert len(journal.entries("a")) == 3


def test_a_stale_epoch_writes_nothing(journal: Journal) -> None:
    made = create(journal)
    entries = journal.entries("a")
    taken = row(epoch=2, number=made.number)
    journal.transact(lambda tx: tx.advance(taken, chain("a", entries, 1), epoch=1))
    with pytest.raises(StaleEpoch):
        journal.transact(lambda tx: tx.advance(made, chain("a", journal.entries("a"), 1), epoch=1))
    assert journal.epoch(made) == 2
    assert len(journal.entries("a")) == 3


def test_late_evidence_is_appended_whoever_drives(journal: Journal) -> None:
    made = create(journal, open=False, finding="unknown")
    entries = journal.entries("a")
    late = row(number=made.number, finding="applied_final", open=True, next_at=9, level=1)
    journal.transact(lambda tx: tx.append(chain("a", entries, 1), late))
    found = journal.action("a")
    assert found is not None
    assert (found.finding, found.open, found.next_at, found.level) == ("applied_final", True, 9, 1)
    assert (found.epoch, found.position) == (1, 3)
    with pytest.raises(PositionTaken):
        journal.transact(lambda tx: tx.append(chain("a", entries, 1), late))


def test_a_work_that_raises_leaves_nothing(journal: Journal) -> None:
    def work(tx: Transaction) -> None:
        tx.create(row(), chain())
        tx.emit(row(number=1), 1, "t", "b")
        tx.reserve("d", "a", 1)
        raise KeyError("no")

    with pytest.raises(KeyError):
        journal.transact(work)
    assert journal.action("a") is None
    assert journal.outbox() == []
    assert journal.transact(lambda tx: tx.reserve("d", "other", 1))


def test_a_work_reads_its_own_writes(journal: Journal) -> None:
    def work(tx: Transaction) -> tuple[int, str]:
        tx.create(row(), chain())
        found = tx.action("a")
        assert found is not None
        return len(tx.entries("a")), found.fingerprint

    assert journal.transact(work) == (2, "k:f")


def test_a_second_action_of_a_lineage_shares_its_chain(journal: Journal) -> None:
    root = create(journal)
    entries = journal.entries("a")
    child = row("a/compensate/x", root_id="a", parent=root.number)
    journal.transact(lambda tx: tx.create(child, chain("a", entries, 2)))
    assert [found.action_id for found in journal.lineage("a")] == ["a", "a/compensate/x"]
    assert len(journal.entries("a")) == 4
    found = journal.action("a")
    assert found is not None
    assert found.position == 4
    moved = row("a/compensate/x", root_id="a", parent=root.number, number=child.number)
    moved.finding = "rejected"
    journal.transact(lambda tx: tx.advance(moved, chain("a", journal.entries("a"), 1), epoch=1))
    again = journal.action("a/compensate/x")
    assert again is not None
    assert again.finding == "rejected"
    assert len(journal.entries("a")) == 5
    assert list(journal.roots()) == ["a"]


def test_a_decision_is_reserved_for_as_many_as_it_says(journal: Journal) -> None:
    assert journal.transact(lambda tx: tx.reserve("d", "a", 2))
    assert journal.transact(lambda tx: tx.reserve("d", "b", 2))
    assert journal.transact(lambda tx: tx.reserve("d", "a", 2)), "the same action again"
    assert not journal.transact(lambda tx: tx.reserve("d", "c", 2))


def test_the_outbox_keeps_the_order_of_commits(journal: Journal) -> None:
    made = create(journal)
    for number in range(3):
        journal.transact(lambda tx, n=number: tx.emit(made, n, "topic", f"{n}"))
    rows = journal.outbox()
    assert [item.body for item in rows] == ["0", "1", "2"]
    assert {item.root_id for item in rows} == {"a"}
    assert len(journal.outbox(most=2)) == 2


def test_contracts_and_certificates_are_kept_by_digest(journal: Journal) -> None:
    create(journal)
    journal.keep_contract("c", b"one")
    journal.keep_contract("c", b"two")
    assert journal.contract("c") == b"one"
    kept = StoredCertificate(
        digest="d", action_id="a", root_id="a", position=2, form="report", body=b"x"
    )
    journal.transact(lambda tx: tx.keep_certificate(kept))
    journal.transact(lambda tx: tx.keep_certificate(kept))
    assert journal.certificates("a") == [kept]


def test_open_actions_come_by_the_time_they_are_due(journal: Journal) -> None:
    create(journal, "late", next_at=30)
    create(journal, "soon", next_at=10)
    create(journal, "closed", open=False, next_at=5)
    create(journal, "next", next_at=20)
    assert [found.action_id for found in journal.open_actions()] == ["soon", "next", "late"]
    assert [found.action_id for found in journal.open_actions(before=20)] == ["soon", "next"]
    assert [found.action_id for found in journal.open_actions(most=1)] == ["soon"]


def test_actions_are_found_by_filter(journal: Journal) -> None:
    create(journal, "x", finding="conflict", changed_at=1, type="pay")
    create(journal, "y", finding="unknown", changed_at=2, type="mail", open=False)
    create(journal, "z", finding="unknown", changed_at=3, type="pay")

    def names(**given: Any) -> list[str]:
        return [found.action_id for found in journal.actions(**given)]

    assert names() == ["z", "y", "x"]
    assert names(finding=("unknown",)) == ["z", "y"]
    assert names(finding=("unknown", "conflict"), type="pay") == ["z", "x"]
    assert names(changed_before=3) == ["y", "x"]
    assert names(open=False) == ["y"]
    assert names(most=1) == ["z"]
    assert journal.counts() == {"conflict": 1, "unknown": 2, "open": 2}


def test_projections_are_made_again_from_the_records(journal: Journal) -> None:
    root = create(journal)
    child = row("a/c", root_id="a", parent=root.number)
    journal.transact(lambda tx: tx.create(child, chain("a", journal.entries("a"), 1)))
    create(journal, "b")

    def make(entries: list[Entry]) -> list[ActionRow]:
        lineage = entries[0].lineage
        head = {"position": entries[-1].position, "head": entries[-1].digest}
        rows = [row(lineage, finding="conflict", **head)]
        return [*rows, row("a/c", root_id="a")] if lineage == "a" else rows

    assert journal.replace_projections(make) == 3
    found = journal.action("a")
    assert found is not None
    assert (found.finding, found.number, found.position) == ("conflict", root.number, 3)
    assert [item.action_id for item in journal.lineage("a")] == ["a", "a/c"]
    assert len(journal.entries("a")) == 3
    journal.transact(lambda tx: tx.advance(found, chain("a", journal.entries("a"), 1), epoch=1))


def test_sixteen_threads_create_one_id_once(journal: Journal) -> None:
    won: list[int] = []
    start = threading.Barrier(16)

    def run(number: int) -> None:
        start.wait()
        try:
            create(journal)
        except PositionTaken:
            return
        won.append(number)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) == 1
    assert len(journal.entries("a")) == 2


def test_coroutines_share_the_same_transactions(journal: Journal) -> None:
    async def one(number: int) -> None:
        await journal.transact_async(lambda tx: tx.create(row(f"n{number}"), chain(f"n{number}")))

    async def run() -> None:
        await asyncio.gather(*(one(number) for number in range(40)))

    asyncio.run(run())
    assert len(list(journal.roots())) == 40
    assert all(len(journal.entries(f"n{number}")) == 2 for number in range(40))
