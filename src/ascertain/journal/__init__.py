"""The Journal protocol: where records are kept, and nothing is decided (DESIGN 10).

A journal runs *works*: functions of a `Transaction` that read, check and write inside
one durable transaction. A work may be run again and must have no effect but through
the transaction. Everything but records, contracts and certificates is a projection,
which `rebuild` makes again from the records.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from typing import NamedTuple, Protocol, TypeVar

import msgspec

from ascertain.core.cut import Sources
from ascertain.core.records import GENESIS, Chain, Entry

T = TypeVar("T")


class ActionRow(msgspec.Struct, kw_only=True):
    """The projection of one action: enough to find it, claim it and drive it.

    ``position`` and ``head`` are the lineage's, and are kept at its root action;
    ``number`` and ``parent`` are the journal's own names for the action and its root.
    ``finding``, ``compensation``: values of `core.facts`. ``level``: how far the effect is
    (0 accepted, 1 committed, 2 settled), -1 without one. ``decision``: the row of the
    last one. ``open``: recovery has something to do, at ``next_at`` at the earliest.
    """

    action_id: str
    root_id: str
    type: str
    contract: str
    fingerprint: str
    finding: str = "unknown"
    level: int = -1
    compensation: str = "none"
    decision: str = ""
    epoch: int = 0
    holder: str = ""
    lease_until: int = 0
    attempts: int = 0
    created_at: int = 0
    changed_at: int = 0
    next_at: int = 0
    open: bool = True
    position: int = 0
    head: str = GENESIS
    number: int = 0
    parent: int | None = None


class OutboxRow(msgspec.Struct, frozen=True, kw_only=True):
    """A transition that others are to hear of, written with the transition itself."""

    number: int
    root_id: str
    position: int
    topic: str
    body: str


class StoredCertificate(msgspec.Struct, frozen=True, kw_only=True):
    """The exact bytes of a certificate or report. ``form``: "certificate" or "report"."""

    digest: str
    action_id: str
    root_id: str
    position: int
    form: str
    body: bytes


class StoredLineage(NamedTuple):
    """One lineage as it is stored: its records' bytes in order, its rows, its certificates."""

    number: int
    bodies: tuple[bytes, ...]
    rows: tuple[ActionRow, ...]
    certificates: frozenset[str]


class Snapshot(Protocol):
    """The whole journal at one instant, for those who check it. Close it."""

    def count(self) -> int:
        """The number of lineages."""

    def lineages(self) -> Iterator[StoredLineage]:
        """Every lineage that has records."""

    def faults(self) -> Iterator[str]:
        """In words: what is damaged, and what belongs to no lineage."""

    def close(self) -> None:
        """Let go of it."""


class Reader(Protocol):
    """What may be read, inside a work or outside."""

    def action(self, action_id: str) -> ActionRow | None:
        """The row of one action, None if the journal does not know the id."""

    def entries(self, root_id: str) -> list[Entry]:
        """All entries of one lineage in order; empty if there are none."""

    def lineage(self, root_id: str) -> list[ActionRow]:
        """The rows of all actions of one lineage, the root first."""


class Transaction(Reader, Protocol):
    """A work's hold on the journal: reads see what is durable and its own writes."""

    def create(self, row: ActionRow, chain: Chain) -> None:
        """Insert a new action with its first entries. Raises PositionTaken if the id is known."""

    def advance(self, row: ActionRow, chain: Chain, *, epoch: int) -> None:
        """Write the row and add the entries, if the row still has ``epoch``.

        Raises StaleEpoch if it does not, PositionTaken if the lineage has moved on.
        """

    def append(self, chain: Chain, row: ActionRow) -> None:
        """Add evidence at the end of the row's lineage, whoever drives it, and make it due.

        Of the row only what it shows is written: ``finding``, ``level``, ``decision``,
        ``open``, ``next_at`` and ``changed_at``. Raises PositionTaken if the lineage has
        moved on.
        """

    def reserve(self, decision_id: str, action_id: str, uses: int) -> bool:
        """Reserve a use of the decision for this action; False if ``uses`` others have them."""

    def emit(self, row: ActionRow, position: int, topic: str, body: str) -> None:
        """Add a row about an entry of the action's lineage to the outbox."""

    def keep_certificate(self, certificate: StoredCertificate) -> None:
        """Keep the bytes of a certificate or report."""


class Journal(Reader, Protocol):
    """Durable storage for records. See the module."""

    url: str

    @property
    def sources(self) -> Sources:
        """Whether its records are complete, and of which incarnation."""

    def transact(self, work: Callable[[Transaction], T]) -> T:
        """Run the work; return once it is durable.

        Raises what the work raises, JournalUnavailable (nothing was written) or
        AmbiguousCommit (it may or may not be durable).
        """

    def transact_async(self, work: Callable[[Transaction], T]) -> Awaitable[T]:
        """The same for coroutines, in the same shared commits."""

    def epoch(self, row: ActionRow) -> int:
        """The current epoch of the action of a row that the journal gave."""

    def keep_contract(self, digest: str, body: bytes) -> None:
        """Keep a contract under its digest; known ones are left as they are."""

    def contract(self, digest: str) -> bytes | None:
        """The canonical bytes of a contract."""

    def open_actions(self, *, before: int | None = None, most: int = 1000) -> list[ActionRow]:
        """Open actions by the time they are due, oldest first."""

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
        """Actions by filter, the ones changed last first; ``oldest``: created first, first."""

    def counts(self) -> dict[str, int]:
        """Number of actions by finding, and "open"."""

    def certificates(self, action_id: str) -> list[StoredCertificate]:
        """Certificates and reports of an action, oldest first."""

    def outbox(self, *, most: int = 1000) -> list[OutboxRow]:
        """Undelivered rows, oldest first."""

    def roots(self) -> Iterator[str]:
        """The root action ids of all lineages."""

    def replace_projections(self, make: Callable[[list[Entry]], list[ActionRow]]) -> int:
        """Make every action's row again from its lineage's entries; the number of actions.

        ``make`` may be run again on the same entries. Rows without any record go.
        """

    def snapshot(self) -> Snapshot:
        """The whole journal as it is stored now."""

    def close(self) -> None:
        """Release files and locks."""
