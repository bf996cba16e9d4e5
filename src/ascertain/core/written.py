"""A recovery decision in writing: its closed facts, and the table that it was made by. Pure.

Whoever reads the facts again can make the decision again, and compare.
"""

from __future__ import annotations

from functools import cache
from hashlib import sha256
from typing import Any, Final

from .codec import Json, encode
from .decision import TABLE
from .facts import DOMAINS, Facts, Finding

STATUS_OF: Final[dict[Finding, str]] = {
    Finding.APPLIED_FINAL: "committed",
    Finding.APPLIED_SHORT: "committed",
    Finding.APPLIED_PROVISIONAL: "committed",
    Finding.APPLIED_REVERSED: "committed",
    Finding.REJECTED: "rejected",
    Finding.NOT_APPLIED: "not_started",
    Finding.NOT_APPLIED_SEALED: "not_started",
    Finding.UNKNOWN: "unknown",
}
"""The effect word of the RCC schema for a finding; CONFLICT has none (DESIGN 9)."""


def written_facts(facts: Facts) -> dict[str, Json]:
    """The closed facts as plain values: the words of their enums, and Booleans."""
    return {
        name: value if isinstance(value, bool) else value.value
        for name, value in facts._asdict().items()
    }


def read_facts(written: Json) -> Facts | None:
    """The inverse of `written_facts`; None where a fact is missing, unknown or not closed."""
    if not isinstance(written, dict) or set(written) != set(DOMAINS):
        return None
    values: dict[str, Any] = {}
    for name, domain in DOMAINS.items():
        said = written[name]
        known = [v for v in domain if getattr(v, "value", v) == said and type(said) in (str, bool)]
        if not known:
            return None
        values[name] = known[0]
    return Facts(**values)


@cache
def table_digest() -> str:
    """SHA-256 over the canonical rows: by which decision table a document was decided."""
    whole = sha256()
    for row in TABLE:
        when = {name: [getattr(v, "value", v) for v in vs] for name, vs in row.when.items()}
        whole.update(encode([row.name, row.decision.value, row.reason, when]))
    return whole.hexdigest()
