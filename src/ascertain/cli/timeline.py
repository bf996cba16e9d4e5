"""`show`: the five streams of one action side by side, then what follows from them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from ascertain.cli.account import STREAMS, Account, next_commands, refusal
from ascertain.cli.failing import printable
from ascertain.cli.output import console, styled
from ascertain.cli.wording import (
    DECISION_WORDS,
    Place,
    clock,
    day,
    moment,
    plural,
    verdict_words,
    when,
)
from ascertain.core.contract import LEVELS
from ascertain.core.cut import chain_violations
from ascertain.core.facts import Decision, Finding
from ascertain.core.records import Entry, Stream
from ascertain.outcomes import WORDS

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

_TRANSPORT = {
    "timed_out": "no reply in time",
    "lost": "connection lost",
    "raised": "unnamed error",
    "not_sent": "not sent",
    "rolled_back": "rolled back",
}
_EVIDENCE = {
    "reply": "reply",
    "readback": "read",
    "absence": "read",
    "unreadable": "read failed",
    "fence": "fence",
}


def _short(digest: str) -> str:
    return digest[:8]


def _returned(record: Any) -> str:
    said = _TRANSPORT.get(record.transport) or f"reply {record.reply or 'not in contract'}"
    return f"attempt {record.number}: {said}"


def _observed(record: Any) -> str:
    matches = " differs from intent" if record.matches is False else ""
    return f"{record.state} {record.reference or ''}{matches}".rstrip()


def _receipt(record: Any) -> str:
    said = record.claim or {"absence": "nothing there", "unreadable": ""}.get(record.evidence, "")
    word = _EVIDENCE.get(record.evidence, record.evidence)
    head = f"{word}: {said}" if said else word
    return f"{head} ({record.domain})"


def _checked(record: Any) -> str:
    word = {True: "holds", False: "does not hold", None: "not comparable"}[record.holds]
    return f"{record.predicate} {word}"


def _intent(record: Any) -> str:
    subject = "" if record.subject == "unspecified" else f" for {record.subject}"
    return f"{record.action_type} v{record.version}{subject}"


def _authority(record: Any) -> str:
    if record.outcome == "allow":
        return f"allow until {clock(record.valid_until)}"
    return f"{record.outcome}: {record.reason}" if record.reason else record.outcome


_CELLS: dict[str, Callable[[Any], str]] = {
    "IntentRecorded": _intent,
    "AuthorityDecided": _authority,
    "AuthorityRevoked": lambda r: f"revoked: {r.reason}",
    "CapabilityGranted": lambda r: f"may {r.verb}",
    "PreconditionObserved": lambda r: f"{r.predicate} {r.found or r.version} {r.holds}",
    "LeaseTaken": lambda r: f"lease, epoch {r.epoch}",
    "AttemptReleased": lambda r: f"attempt {r.number} released",
    "AttemptReturned": _returned,
    "EffectObserved": _observed,
    "ExecutorGone": lambda r: "executor gone",
    "FenceSealed": lambda r: f"fence sealed ({r.reach})",
    "CompensationLinked": lambda r: f"compensated by {r.compensator}",
    "ReceiptRecorded": _receipt,
    "PostconditionChecked": _checked,
    "OperatorAttested": lambda r: f"{r.operator}: {r.claim}",
    "RecoveryDecided": lambda r: f"{r.decision} ({r.row})",
    "CertificateIssued": lambda r: f"{r.form} {_short(r.digest)}",
}


def cell(entry: Entry) -> str:
    """What a record says, in a few words."""
    return _CELLS[type(entry.record).__name__](entry.record)


_WIDEST_WORD = 14


def _widths(cells: dict[Stream, list[str]], room: int) -> dict[Stream, int]:
    """Share the room so that no column is much taller than the others.

    Each gets room for its heading and its longest word; then one character at a time goes
    to the column whose longest cell takes the most lines.
    """
    widths: dict[Stream, int] = {}
    for stream, texts in cells.items():
        words = [len(part) for text in texts for part in _PARTS.findall(text)]
        widths[stream] = max(len(stream.value), *(min(n, _WIDEST_WORD) for n in (0, *words)))
    longest = {stream: max((len(text) for text in texts), default=0)
               for stream, texts in cells.items()}  # fmt: skip
    for _ in range(room - sum(widths.values())):
        tallest = max(widths, key=lambda stream: longest[stream] / widths[stream])
        if longest[tallest] <= widths[tallest]:
            break
        widths[tallest] += 1
    return widths


_PARTS = re.compile(r"[^\s/_-]+[/_-]*|[/_-]+")


def _wrapped(text: str, width: int) -> Text:
    """The text on lines of that width, broken at blanks, and behind ``/``, ``-`` and ``_``."""
    from rich.text import Text

    lines = [""]
    for word in text.split():
        whole = [word] if len(word) <= width else _PARTS.findall(word)
        parts = [part[at : at + width] for part in whole for at in range(0, len(part), width)]
        for number, part in enumerate(parts):
            gap = " " if lines[-1] and not number else ""
            if len(lines[-1]) + len(gap) + len(part) <= width:
                lines[-1] += gap + part
            else:
                lines.append(part)
    return Text("\n".join(lines), no_wrap=True)


def timeline(account: Account, width: int) -> Table:
    """The table: one line for each record, its text in the column of its stream."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, padding=0, pad_edge=False, show_edge=False)
    entries = account.entries
    cells: dict[Stream, list[str]] = {stream: [] for stream in STREAMS}
    for entry in entries:
        cells[entry.record.stream].append(printable(cell(entry)))
    place = len(str(account.cut.position))
    widths = _widths(cells, width - place - 8 - len(STREAMS) - 1)
    table.add_column("#", justify="right", width=place)
    table.add_column("time", width=8, style="dim")
    for stream in STREAMS:
        table.add_column(stream.value, width=widths[stream])
    today = None
    for entry in entries:
        here = day(entry.record.at)
        if here != today:
            table.add_row("", here[:-5])
            today = here
        mine = entry.record.stream
        text = _wrapped(printable(cell(entry)), widths[mine])
        texts = (text if stream is mine else Text() for stream in STREAMS)
        table.add_row(str(entry.position), clock(entry.record.at), *texts)
    return table


# --- what follows from them ---------------------------------------------------------------


def sections(account: Account, place: Place) -> Iterator[tuple[str, list[str]]]:
    """(heading, lines) for everything below the timeline."""
    yield "cut", _cut(account)
    violations = [
        f"{item.rule}: {item.text}" + (f" [{_short(item.first)}]" if item.first else "")
        for item in account.judgement.violations
    ]
    if violations:
        yield "violations", violations
    yield "outcome", _outcome(account)
    yield "decision", _decision(account)
    if account.others:
        yield (
            "same lineage",
            [f"{item.action_id}: {WORDS[Finding(item.finding)]}" for item in account.others],
        )
    if account.certificates:
        newest = account.certificates[-1]
        yield (
            "certificates",
            [
                f"{len(account.certificates)}, the newest a {newest.form} at position "
                f"{newest.position}, {newest.digest[:16]}"
            ],
        )
    commands = next_commands(account, place)
    if commands:
        yield "next", commands


def _cut(account: Account) -> list[str]:
    cut = account.cut
    broken = [item.text for item in chain_violations(cut.entries)]
    found = len(account.judgement.violations)
    closed = "closed" if not found else f"not closed: {plural(found, 'violation', 'violations')}"
    places = " ".join(
        f"{name} {place['position'] or '-'}" for name, place in cut.prefixes().items()
    )
    lines = [f"position {cut.position}, digest {cut.digest[:16]}, {closed}", places]
    if not cut.sources.complete:
        lines.append("sources incomplete: a missing record proves nothing")
    return lines + [f"chain broken: {text}" for text in broken]


def _outcome(account: Account) -> list[str]:
    verdict = account.judgement.verdict
    lines = [verdict_words(verdict.finding, account.decision.name)]
    if verdict.argument is not None:
        lines.append(f"absence, {verdict.argument.kind.value}: {verdict.argument.text}")
    elif verdict.reason:
        lines.append(verdict.reason)
    lines.extend(
        f"effect {effect.reference or '(no reference)'}, {LEVELS[effect.level]}, vouched for by "
        f"{', '.join(sorted(effect.domains)) or 'nobody'}{', reversed' if effect.reversed else ''}"
        for effect in verdict.effects
    )
    if verdict.missing:
        lines.append("missing: " + "; or ".join(verdict.missing))
    return lines


def _decision(account: Account) -> list[str]:
    row = account.decision
    if account.driven_by is not None:
        until = moment(account.row.lease_until, account.now)
        return [f"none yet: {account.driven_by} drives it until {until}"]
    if account.refused_here:
        return [f"refused before it was released: {refusal(account)}"]
    lines = [f"{DECISION_WORDS[row.decision]} ({row.decision.value}, row {row.name})", row.reason]
    if account.decided is None and row.decision is not Decision.ADOPT:
        lines.append("not decided yet: this is what recovery comes to if all is allowed")
    elif account.decided is not None:
        lines.append(f"decided {moment(account.decided.at, account.now)}")
    if account.next_look is not None:
        lines.append(f"looked at again {when(account.next_look, account.now)}")
    return lines


def show(account: Account, place: Place) -> None:
    """Print it all."""
    from rich.padding import Padding
    from rich.table import Table

    out = console()
    row = account.row
    out.print(styled(f"{row.action_id}  {row.type}", "bold"))
    out.print(styled(verdict_words(account.finding, account.decision.name), "bold"))
    out.print()
    out.print(timeline(account, out.width))
    grid = Table.grid(padding=(0, 2, 0, 0), expand=False)
    grid.add_column(no_wrap=True, style="bold")
    grid.add_column(overflow="fold")
    for heading, lines in sections(account, place):
        for number, line in enumerate(lines):
            grid.add_row(heading if not number else "", styled(line))
    out.print(Padding(grid, (1, 0, 0, 0)))
