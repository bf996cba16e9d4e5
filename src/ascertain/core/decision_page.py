"""The page of the decision table and its diagram, made from the rows (DESIGN 7). Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator
from enum import Enum

from .decision import TABLE, Row
from .facts import DOMAINS, Decision

MEANINGS: dict[str, str] = {
    "closure": "Is the cut causally closed, is a cause missing, or does something disagree?",
    "finding": "The outcome, as finely as the decision needs it.",
    "effects": "How many effects are proved: none, one, surplus ones, or one under a deny.",
    "exact": "Every effect that must not stand is identified by an exact reference.",
    "settled": "No other attempt can still land.",
    "sources": "The record sources are complete and of one incarnation.",
    "compensation": "What became of the compensation of the effects that ask for one.",
    "needs": "The actions that this one needs, taken together.",
    "more": "More evidence is to be had within the budget.",
    "replay": "Sending the same key and bytes again is safe by contract.",
    "authority": "A fresh effect is allowed now.",
    "observe": "The capability to observe is held.",
    "proceed": "The capability to continue is held.",
    "counteract": "The capability to compensate is held.",
    "preconditions": "Looked at again now; they hold also where none is asked or guarded.",
    "compensator": "A compensator is defined.",
    "attempts_left": "The contract allows another attempt.",
    "breaker_open": "The breaker of this action type is open.",
}
"""Each fact in one sentence."""

HEADINGS: dict[str, str] = {
    "contradiction": "Facts that contradict each other",
    "compensation-open": "A compensation is under way",
    "compensation-failed": "A compensation failed",
    "compensated": "Every effect that must not stand is compensated",
    "surplus": "Surplus effects",
    "denied": "An effect under an explicit deny",
    "cause-missing": "A cause is missing",
    "mismatch": "The evidence disagrees",
    "applied": "It happened",
    "rejected": "It was refused for good",
    "not-applied": "It did not happen",
    "unknown": "It is not known whether it happened",
}
"""The groups of rows, by the first part of their names."""


def groups() -> dict[str, list[Row]]:
    """The rows by the first part of their names, in the order of the table."""
    found: dict[str, list[Row]] = {}
    for row in TABLE:
        found.setdefault(row.name.partition("/")[0], []).append(row)
    return found


def condition(row: Row) -> str:
    """For which facts the row holds, in Markdown. A fact that is not named may be anything."""
    return "; ".join(_said(name, values) for name, values in row.when.items())


def _said(name: str, values: tuple[object, ...]) -> str:
    if values == (True,):
        return f"`{name}`"
    if values == (False,):
        return f"not `{name}`"
    words = [value.value if isinstance(value, Enum) else str(value) for value in values]
    return f"`{name}` is {' or '.join(words)}"


def page() -> str:
    """The page docs/reference/decision-table.md."""
    return "\n".join(_lines())


def _lines() -> Iterator[str]:
    whole = math.prod(len(values) for values in DOMAINS.values())
    yield "# The decision table"
    yield ""
    yield (
        f"What recovery may do follows from {len(DOMAINS)} closed facts. The {len(TABLE)} rows "
        f"below are disjoint and together cover all {whole:,} combinations: exactly one row "
        "holds, and it is named in every decision, certificate and `ascertain explain`."
    )
    yield ""
    yield (
        "Every *verify* comes with two more rows: where the capability to observe has lapsed "
        "(`/unobserved`) it is *reauthorise*, and where no more evidence is to be had "
        "(`/exhausted`) it is *quarantine*. This page is made from the rows."
    )
    yield ""
    yield f"<div>\n{diagram()}\n</div>"
    yield ""
    yield "## The facts"
    yield ""
    yield "| fact | values | meaning |"
    yield "| --- | --- | --- |"
    for name, values in DOMAINS.items():
        words = (value.value if isinstance(value, Enum) else "yes or no" for value in values)
        yield f"| `{name}` | {', '.join(dict.fromkeys(words))} | {MEANINGS[name]} |"
    for group, rows in groups().items():
        yield ""
        yield f"## {HEADINGS[group]}"
        yield ""
        yield "| row | when | decision | reason |"
        yield "| --- | --- | --- | --- |"
        for row in rows:
            reason = row.reason[0].upper() + row.reason[1:]
            yield f"| `{row.name}` | {condition(row)} | **{row.decision.value}** | {reason} |"


_STEP, _WIDTH, _LEFT, _RIGHT = 36, 760, 350, 560


def diagram() -> str:
    """Which group of rows can lead to which decision, as SVG."""
    rows = groups()
    tall = _STEP * (len(rows) + 1)
    gap = tall / (len(Decision) + 1)
    right = {decision: round(gap * (at + 1)) for at, decision in enumerate(Decision)}
    left = {group: _STEP * (at + 1) for at, group in enumerate(rows)}
    lines = [
        f'<svg viewBox="0 0 {_WIDTH} {tall}" width="100%" role="img" '
        'aria-label="Which facts lead to which decision" '
        'font-family="sans-serif" font-size="14" fill="currentColor">'
    ]
    for group, found in rows.items():
        for decision in Decision:
            if any(row.decision is decision for row in found):
                lines.append(_line(left[group], right[decision]))
    for group, y in left.items():
        lines.append(f'<text x="{_LEFT - 8}" y="{y + 5}" text-anchor="end">{_text(group)}</text>')
    for decision, y in right.items():
        lines.append(
            f'<text x="{_RIGHT + 8}" y="{y + 5}" font-weight="bold">{decision.value}</text>'
        )
    lines.append("</svg>")
    return "\n".join(lines)


def _line(start: int, end: int) -> str:
    middle = (_LEFT + _RIGHT) // 2
    return (
        f'<path d="M {_LEFT} {start} C {middle} {start}, {middle} {end}, {_RIGHT} {end}" '
        'fill="none" stroke="currentColor" stroke-opacity="0.45" stroke-width="1.5"/>'
    )


def _text(group: str) -> str:
    return HEADINGS[group].replace("&", "&amp;").replace("<", "&lt;")
