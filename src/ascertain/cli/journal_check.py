"""`journal check`: what can be found wrong with a journal without asking anybody."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ascertain.cli.output import console, styled, tracked
from ascertain.cli.wording import plural
from ascertain.core.contract import Contract
from ascertain.core.cut import Sources, chain_violations
from ascertain.core.records import CertificateIssued, Entry, read_entry
from ascertain.errors import AscertainError, ChainBroken
from ascertain.journal import ActionRow, StoredLineage
from ascertain.projection import EXACT, contracts_of, rows_of

if TYPE_CHECKING:
    from ascertain.opened import Ascertain


@dataclass(slots=True)
class Found:
    """What was checked, and what was found: (where, what) in words."""

    url: str
    incarnation: str
    lineages: int = 0
    records: int = 0
    actions: int = 0
    certificates: int = 0
    reconciled: list[dict[str, Any]] = field(default_factory=list)
    faults: list[tuple[str, str, str]] = field(default_factory=list)

    def shape(self) -> dict[str, Any]:
        """For programs."""
        return {
            "journal": self.url,
            "incarnation": self.incarnation,
            "lineages": self.lineages,
            "records": self.records,
            "actions": self.actions,
            "certificates": self.certificates,
            "reconciliations": self.reconciled,
            "faults": [
                {"kind": kind, "where": where, "text": text} for kind, where, text in self.faults
            ],
        }


def check(opened: Ascertain) -> Found:
    """Go through the whole journal at one instant."""
    journal = opened.journal
    found = Found(journal.url, journal.sources.incarnation)
    found.reconciled = list(getattr(journal, "incarnations", list)())
    doubt = getattr(journal, "doubt", None)
    if doubt is not None:
        found.faults.append(("witness", "journal", doubt))
    # Rows were made by a journal that was whole: that is how they are compared.
    sources = Sources(True, journal.sources.incarnation)
    contract_of = contracts_of(journal)
    snapshot = journal.snapshot()
    try:
        for lineage in tracked(snapshot.lineages(), "checking", snapshot.count()):
            found.lineages += 1
            found.records += len(lineage.bodies)
            found.actions += len(lineage.rows)
            found.faults.extend(_lineage(lineage, sources, contract_of))
            issued = [name for body in lineage.bodies for name in _issued(body)]
            found.certificates += len(issued)
            found.faults.extend(_certificates(lineage, issued))
        found.faults.extend(("store", "journal", text) for text in snapshot.faults())
    finally:
        snapshot.close()
    return found


def _name(lineage: StoredLineage) -> str:
    return lineage.rows[0].root_id if lineage.rows else f"lineage {lineage.number}"


def _lineage(
    lineage: StoredLineage, sources: Sources, contract_of: Callable[[str], Contract]
) -> Iterator[tuple[str, str, str]]:
    name = _name(lineage)
    try:
        entries = [read_entry(body) for body in lineage.bodies]
    except ChainBroken as error:
        yield "chain", name, error.message
        return
    broken = chain_violations(entries)
    if broken:
        for item in broken:
            yield "chain", name, item.text
        return
    try:
        made = rows_of(entries, sources=sources, contract_of=contract_of)
    except AscertainError as error:
        yield "contract", name, error.message
        return
    yield from _rows(name, entries, made, {row.action_id: row for row in lineage.rows})


def _rows(
    name: str, entries: list[Entry], made: list[ActionRow], kept: dict[str, ActionRow]
) -> Iterator[tuple[str, str, str]]:
    without = {entry.record.action_id for entry in entries} - {row.action_id for row in made}
    for action_id in sorted(without):
        yield "intent", action_id, "it has records, and none of an intent"
    for row in made:
        known = kept.pop(row.action_id, None)
        if known is None:
            yield "row", row.action_id, "it has records, and no row"
            continue
        fields = (*EXACT, "position", "head") if row.action_id == name else EXACT
        for wrong in (one for one in fields if getattr(row, one) != getattr(known, one)):
            text = f"its {wrong} is {getattr(known, wrong)!r}, by its records "
            yield "row", row.action_id, f"{text}{getattr(row, wrong)!r}"
    for action_id in kept:
        yield "row", action_id, "it has a row in this lineage, and no records"


def _issued(body: bytes) -> Iterator[str]:
    if b"CertificateIssued" in body:
        try:
            record = read_entry(body).record
        except ChainBroken:
            return
        if isinstance(record, CertificateIssued):
            yield record.digest


def _certificates(lineage: StoredLineage, issued: list[str]) -> Iterator[tuple[str, str, str]]:
    for digest in issued:
        if digest not in lineage.certificates:
            yield "certificate", _name(lineage), f"certificate {digest[:16]} is recorded and gone"
    for digest in sorted(lineage.certificates - set(issued)):
        yield "certificate", _name(lineage), f"certificate {digest[:16]} is kept, not recorded"


def show(found: Found) -> None:
    """Print it."""
    out = console()
    out.print(
        styled(
            f"{plural(found.lineages, 'lineage', 'lineages')}, "
            f"{plural(found.records, 'record', 'records')}, "
            f"{plural(found.actions, 'action', 'actions')}, "
            f"{plural(found.certificates, 'certificate', 'certificates')}"
        )
    )
    for item in found.reconciled:
        out.print(
            styled(f"reconciled {item.get('at')} by {item.get('operator')}: {item.get('reason')}")
        )
    if not found.faults:
        out.print(styled("Every chain is whole, and every row follows from its records.", "green"))
        return
    out.print(styled(f"{plural(len(found.faults), 'fault', 'faults')} found", "bold red"))
    for kind, where, text in found.faults:
        out.print(styled(f"  {kind}: {where}: {text}"))
    if any(kind == "row" for kind, _, _ in found.faults):
        out.print("Rows are made again from the records by `ascertain journal rebuild`.")
    if any(kind in ("chain", "store", "contract") for kind, _, _ in found.faults):
        out.print("Keep the file as it is; restore a checked backup and reconcile it.")
