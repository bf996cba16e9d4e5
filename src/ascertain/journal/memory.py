"""The journal in memory, for models and tests: the same protocol, nothing durable."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from ascertain.core.cut import Sources
from ascertain.core.records import Chain, Entry
from ascertain.errors import PositionTaken, StaleEpoch

from . import ActionRow, OutboxRow, StoredCertificate, StoredLineage, Transaction

T = TypeVar("T")


class _State:
    """Everything that is kept. A transaction works on a shallow copy of it."""

    def __init__(self) -> None:
        self.rows: dict[str, ActionRow] = {}
        self.entries: dict[str, tuple[Entry, ...]] = {}
        self.reserved: dict[str, tuple[str, ...]] = {}
        self.outbox: tuple[OutboxRow, ...] = ()
        self.certificates: dict[str, StoredCertificate] = {}

    def copy(self) -> _State:
        """A copy whose changes do not reach this one; rows are copied when written."""
        new = _State()
        for name, value in vars(self).items():
            setattr(new, name, dict(value) if isinstance(value, dict) else value)
        return new


class _Read:
    def __init__(self, state: _State) -> None:
        self.state = state

    def action(self, action_id: str) -> ActionRow | None:
        row = self.state.rows.get(action_id)
        return None if row is None else copy.copy(row)

    def entries(self, root_id: str) -> list[Entry]:
        return list(self.state.entries.get(root_id, ()))

    def lineage(self, root_id: str) -> list[ActionRow]:
        rows = [copy.copy(row) for row in self.state.rows.values() if row.root_id == root_id]
        return sorted(rows, key=lambda row: (row.action_id != root_id, row.number))


class _Transaction(_Read):
    def create(self, row: ActionRow, chain: Chain) -> None:
        if row.action_id in self.state.rows:
            raise PositionTaken(f"action {row.action_id!r} is known already")
        row.number = len(self.state.rows) + 1
        self.state.rows[row.action_id] = copy.copy(row)
        self._extend(row, chain)

    def advance(self, row: ActionRow, chain: Chain, *, epoch: int) -> None:
        known = self.state.rows.get(row.action_id)
        if known is None or known.epoch != epoch:
            raise StaleEpoch(
                f"action {row.action_id!r} is driven by somebody else",
                fix="Its outcome is being found out; read it with `ascertain show`.",
            )
        new = copy.copy(row)
        new.position, new.head = known.position, known.head
        self.state.rows[row.action_id] = new
        self._extend(row, chain)

    def append(self, chain: Chain, row: ActionRow) -> None:
        known = copy.copy(self.state.rows[row.action_id])
        known.finding, known.open, known.next_at = row.finding, row.open, row.next_at
        known.changed_at, known.level, known.decision = row.changed_at, row.level, row.decision
        self.state.rows[row.action_id] = known
        self._extend(row, chain)

    def _extend(self, row: ActionRow, chain: Chain) -> None:
        """Compare and append: the lineage's head moves only from where the chain began."""
        root = self.state.rows.get(row.root_id)
        if root is None or root.position != chain.base:
            raise PositionTaken(f"lineage {chain.lineage!r} has moved on")
        root = copy.copy(root)
        root.position, root.head = chain.position, chain.digest
        self.state.rows[row.root_id] = root
        if row.action_id == row.root_id:
            row.position, row.head = root.position, root.head
        known = self.state.entries.get(row.root_id, ())
        self.state.entries[row.root_id] = (*known, *chain.entries)

    def reserve(self, decision_id: str, action_id: str, uses: int) -> bool:
        known = self.state.reserved.get(decision_id, ())
        if action_id not in known:
            if len(known) >= uses:
                return False
            self.state.reserved[decision_id] = (*known, action_id)
        return True

    def emit(self, row: ActionRow, position: int, topic: str, body: str) -> None:
        waiting = OutboxRow(
            number=len(self.state.outbox) + 1,
            root_id=row.root_id,
            position=position,
            topic=topic,
            body=body,
        )
        self.state.outbox = (*self.state.outbox, waiting)

    def keep_certificate(self, certificate: StoredCertificate) -> None:
        self.state.certificates.setdefault(certificate.digest, certificate)


class MemoryJournal:
    """The Journal protocol without a file. ``incarnation``: as the tests want it."""

    def __init__(self, incarnation: str = "memory") -> None:
        self.url = "memory:"
        self._sources = Sources(True, incarnation)
        self._state = _State()
        self._contracts: dict[str, bytes] = {}
        self._lock = threading.RLock()

    @property
    def sources(self) -> Sources:
        """See the protocol."""
        return self._sources

    def transact(self, work: Callable[[Transaction], T]) -> T:
        """See the protocol."""
        with self._lock:
            state = self._state.copy()
            result = work(_Transaction(state))
            self._state = state
            return result

    async def transact_async(self, work: Callable[[Transaction], T]) -> T:
        """See the protocol."""
        return self.transact(work)

    def action(self, action_id: str) -> ActionRow | None:
        """See the protocol."""
        return _Read(self._state).action(action_id)

    def entries(self, root_id: str) -> list[Entry]:
        """See the protocol."""
        return _Read(self._state).entries(root_id)

    def lineage(self, root_id: str) -> list[ActionRow]:
        """See the protocol."""
        return _Read(self._state).lineage(root_id)

    def epoch(self, row: ActionRow) -> int:
        """See the protocol."""
        return self._state.rows[row.action_id].epoch

    def keep_contract(self, digest: str, body: bytes) -> None:
        """See the protocol."""
        self._contracts.setdefault(digest, body)

    def contract(self, digest: str) -> bytes | None:
        """See the protocol."""
        return self._contracts.get(digest)

    def open_actions(self, *, before: int | None = None, most: int = 1000) -> list[ActionRow]:
        """See the protocol."""
        rows = [
            copy.copy(row)
            for row in self._state.rows.values()
            if row.open and (before is None or row.next_at <= before)
        ]
        return sorted(rows, key=lambda row: row.next_at)[:most]

    def actions(
        self,
        *,
        finding: tuple[str, ...] = (),
        decision: tuple[str, ...] = (),
        type: str | None = None,
        changed_before: int | None = None,
        open: bool | None = None,
        oldest: bool = False,
        most: int = 1000,
    ) -> list[ActionRow]:
        """See the protocol."""
        tests: list[Callable[[ActionRow], bool]] = []
        if finding:
            tests.append(lambda row: row.finding in finding)
        if decision:
            tests.append(lambda row: row.decision in decision)
        if type is not None:
            tests.append(lambda row: row.type == type)
        if changed_before is not None:
            tests.append(lambda row: row.changed_at < changed_before)
        if open is not None:
            tests.append(lambda row: row.open == open)
        rows = [row for row in self._state.rows.values() if all(test(row) for test in tests)]
        if oldest:
            rows.sort(key=lambda row: (row.created_at, row.number))
        else:
            rows.sort(key=lambda row: (-row.changed_at, -row.number))
        return [copy.copy(row) for row in rows[:most]]

    def counts(self) -> dict[str, int]:
        """See the protocol."""
        counts: dict[str, Any] = {}
        for row in self._state.rows.values():
            counts[row.finding] = counts.get(row.finding, 0) + 1
        return {**counts, "open": sum(row.open for row in self._state.rows.values())}

    def certificates(self, action_id: str) -> list[StoredCertificate]:
        """See the protocol."""
        found = [c for c in self._state.certificates.values() if c.action_id == action_id]
        return sorted(found, key=lambda item: item.position)

    def outbox(self, *, most: int = 1000) -> list[OutboxRow]:
        """See the protocol."""
        return list(self._state.outbox[:most])

    def roots(self) -> Iterator[str]:
        """See the protocol."""
        yield from (row.action_id for row in self._state.rows.values() if row.parent is None)

    def replace_projections(self, make: Callable[[list[Entry]], list[ActionRow]]) -> int:
        """See the protocol."""
        with self._lock:
            state = self._state.copy()
            state.rows = {}
            for number, entries in enumerate(state.entries.values(), 1):
                for row in make(list(entries)):
                    root = row.action_id == row.root_id
                    known = self._state.rows.get(row.root_id)
                    lineage = number if known is None else known.number
                    old = self._state.rows.get(row.action_id)
                    row.parent = None if root else lineage
                    row.number = lineage if old is None else old.number
                    state.rows[row.action_id] = row
            self._state = state
            return len(state.rows)

    def snapshot(self) -> MemorySnapshot:
        """See the protocol."""
        return MemorySnapshot(self._state)

    def close(self) -> None:
        """See the protocol."""


class MemorySnapshot:
    """The `Snapshot` of a journal in memory."""

    def __init__(self, state: _State) -> None:
        self._state = state

    def count(self) -> int:
        """See the protocol."""
        return len(self._state.entries)

    def lineages(self) -> Iterator[StoredLineage]:
        """See the protocol."""
        for number, (root_id, entries) in enumerate(self._state.entries.items(), 1):
            rows = _Read(self._state).lineage(root_id)
            bodies = tuple(entry.raw for entry in entries)
            kept = self._state.certificates.values()
            digests = frozenset(item.digest for item in kept if item.root_id == root_id)
            yield StoredLineage(number, bodies, tuple(rows), digests)

    def faults(self) -> Iterator[str]:
        """See the protocol."""
        loose = [row for row in self._state.rows.values() if row.root_id not in self._state.entries]
        if loose:
            yield f"{len(loose)} rows of actions have no records"

    def close(self) -> None:
        """See the protocol."""
