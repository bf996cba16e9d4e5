"""A journal with many closed actions, written as `perform` writes them, many in a commit."""

from __future__ import annotations

from typing import Any

from ascertain.core.records import Chain

from . import actions


def grow(journal: Any, act: Any, count: int, batch: int = 2000) -> None:
    """Add ``count`` closed actions: the rows and bytes of a performed one, under other names."""
    actions.perform(act, "pattern")
    store = journal.journal
    row = store.action("pattern")
    records = [entry.record for entry in store.entries("pattern")]
    import msgspec

    for start in range(0, count, batch):

        def work(tx: Any, start: int = start) -> None:
            for number in range(start, min(start + batch, count)):
                name = f"grown-{number * 7919 % count:09d}"
                chain = Chain(name)
                for record in records:
                    chain.add(msgspec.structs.replace(record, action_id=name))
                new = msgspec.structs.replace(row, action_id=name, root_id=name, number=0)
                tx.create(new, chain)
                tx.emit(new, chain.position, "outcome.applied_final", name)

        store.transact(work)
