"""The rows of actions made again from their records: `journal rebuild` (DESIGN 10).

What follows from the records is exact: identity, fingerprint, contract, finding, level,
compensation, epoch, attempts. What does not stand in them follows these defaults:

* a lease runs for the usual time from the record that took it, and has ended where the
  attempt returned or a decision was recorded;
* an action whose evidence came after its last decision shows what recovery comes to if
  everything is allowed, and is due at once;
* times are those of the records, which can lie microseconds before the row's own.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from functools import cache

from ascertain.action import REFUSED_HERE, RELEASED
from ascertain.core.codec import Json
from ascertain.core.contract import Contract
from ascertain.core.cut import Cut, Sources, View, chain_violations, cut
from ascertain.core.decision import ROWS
from ascertain.core.facts import Compensation, Decision, Finding
from ascertain.core.judgement import Judgement, judge
from ascertain.core.records import (
    AttemptReleased,
    AttemptReturned,
    AuthorityDecided,
    CapabilityGranted,
    CertificateIssued,
    CompensationLinked,
    Entry,
    IntentRecorded,
    LeaseTaken,
    PreconditionObserved,
    RecoveryDecided,
)
from ascertain.core.wording import instant
from ascertain.errors import ChainBroken, InputRefused
from ascertain.journal import ActionRow, Journal
from ascertain.journal.sqlite import SqliteJournal
from ascertain.runtime import LEASE, project, standing, stored_contract

EXACT = (
    "action_id", "root_id", "type", "contract", "fingerprint", "finding", "level",
    "compensation", "epoch", "attempts",
)  # fmt: skip
"""The fields that follow from the records alone, so that they can be compared."""

_SILENT = (CapabilityGranted, CertificateIssued)


def rows_of(
    entries: Sequence[Entry],
    *,
    sources: Sources,
    contract_of: Callable[[str], Contract],
    lease: int = LEASE,
) -> list[ActionRow]:
    """The rows of one lineage, the root first. Pure, but for what ``contract_of`` does.

    An action without any intent on record has no row. Raises ChainBroken where the records
    are not one chain, RecoveryRefused for a contract that is not kept.
    """
    broken = chain_violations(entries)
    if broken:
        raise ChainBroken(
            f"lineage {entries[0].lineage!r}: {broken[0].text}",
            fix="Restore a checked backup, then reconcile it: `ascertain journal check` lists all.",
        )
    whole = cut(entries, as_of=max((e.record.at for e in entries), default=0), sources=sources)
    rows = [
        _row(whole, view, contract_of(view.intents[0].record.contract), lease)
        for view in whole.views.values()
        if view.intents
    ]
    for row in rows:
        if row.action_id == whole.lineage:
            row.position, row.head = whole.position, whole.digest
    return sorted(rows, key=lambda row: row.action_id != whole.lineage)


def _row(whole: Cut, view: View, contract: Contract, lease: int) -> ActionRow:
    first: IntentRecorded = view.intents[0].record
    found = judge(whole, view.action_id, contract, standing(contract))
    row = ActionRow(
        action_id=view.action_id,
        root_id=whole.lineage,
        type=first.action_type,
        contract=first.contract,
        fingerprint=first.fingerprint,
        created_at=first.at,
        epoch=view.epoch,
        attempts=max(view.released, default=0),
    )
    mine = [entry for entry in whole.entries if entry.record.action_id == view.action_id]
    _fold(row, mine, found, lease)
    row.finding = found.verdict.finding.value
    row.level = max((effect.level for effect in found.verdict.effects), default=-1)
    return row


def _fold(row: ActionRow, entries: Sequence[Entry], found: Judgement, lease: int) -> None:
    """What the flows would have written, record by record; see the module for what is assumed."""
    for entry in entries:
        record = entry.record
        if isinstance(record, _SILENT):
            continue
        if isinstance(record, LeaseTaken):
            _hold(row, record.holder, record.at + lease)
            continue
        row.changed_at = record.at
        if isinstance(record, AttemptReleased):
            row.decision = RELEASED
            _hold(row, record.executor, record.at + lease)
        elif isinstance(record, RecoveryDecided):
            _decided(row, record, found)
        elif isinstance(record, CompensationLinked):
            row.compensation = Compensation.OPEN.value
            row.open, row.next_at = True, record.at
        elif isinstance(record, IntentRecorded | AuthorityDecided | PreconditionObserved) and (
            row.lease_until <= record.at
        ):
            row.decision = REFUSED_HERE
            row.holder, row.lease_until = "", 0
            row.open, row.next_at = found.verdict.finding is Finding.UNKNOWN, record.at
        else:
            _learnt(row, record, found)


def _hold(row: ActionRow, holder: str, until: int) -> None:
    row.holder, row.lease_until = holder, until
    row.open, row.next_at = True, until


def _decided(row: ActionRow, record: RecoveryDecided, found: Judgement) -> None:
    known = ROWS.get(record.row)
    shown = found if known is None else found._replace(row=known)
    project(row, shown._replace(next_observation=record.next_observation), record.at)
    row.decision = record.row
    row.compensation = str(record.facts.get("compensation", row.compensation))
    acting = known is not None and known.decision in (Decision.EXECUTE, Decision.COMPENSATE)
    if not acting:
        row.holder, row.lease_until = "", 0


def _learnt(row: ActionRow, record: object, found: Judgement) -> None:
    """Evidence: the row shows what it comes to, and keeps a lease that runs."""
    at = row.changed_at
    if isinstance(record, AttemptReturned) and record.epoch == row.epoch:
        row.holder, row.lease_until = "", 0
    driven = row.open, row.next_at
    project(row, found, at)
    if row.lease_until > at:
        row.open, row.next_at = driven
    elif isinstance(record, AttemptReturned) and record.epoch < row.epoch:
        row.open, row.next_at = True, at


# --- over a whole journal -------------------------------------------------------------------


def contracts_of(journal: Journal) -> Callable[[str], Contract]:
    """The contracts that the journal keeps, by digest; each is read once."""
    return cache(lambda digest: stored_contract(journal, digest))


def rebuild(
    journal: Journal, *, sources: Sources | None = None, made: Callable[[], None] = lambda: None
) -> int:
    """Make every row again; the number of actions. ``made`` is called for each lineage.

    ``sources``: as the rows are to see them, the journal's own if left out. Safe beside
    workers, and to be interrupted and repeated. Raises ChainBroken, RecoveryRefused.
    """
    seen = journal.sources if sources is None else sources
    contract_of = contracts_of(journal)

    def make(entries: list[Entry]) -> list[ActionRow]:
        rows = rows_of(entries, sources=seen, contract_of=contract_of)
        made()
        return rows

    return journal.replace_projections(make)


def reconcile(
    journal: SqliteJournal,
    *,
    operator: str,
    reason: str,
    at: int,
    made: Callable[[], None] = lambda: None,
) -> str:
    """Begin a new incarnation of a journal that was opened with ``reconciling``; its name.

    Rows are made again first, as the new incarnation sees them: what an older one does not
    show to have been released may have been, and is unknown from here on. Until that is
    done the journal stays refused. Raises InputRefused, ChainBroken, JournalError kinds.
    """
    for name, value in (("operator", operator), ("reason", reason)):
        if not value.strip() or len(value) > 2000:
            raise InputRefused(
                f"a reconciliation needs {name}",
                fix="Say who vouches, and what was found out; up to 2000 characters each.",
            )
    incarnation = secrets.token_hex(16)
    rebuild(journal, sources=Sources(True, incarnation), made=made)
    why: dict[str, Json] = {"operator": operator, "reason": reason, "at": instant(at)}
    journal.begin_incarnation(incarnation, why)
    return incarnation
