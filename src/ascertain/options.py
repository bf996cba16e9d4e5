"""The options of a call, checked before anything is recorded.

A record that was written and cannot be read again would close its lineage for ever, so
whatever goes into one is looked at here. Each refusal says what to give.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ascertain.core.codec import MAX_INTEGER
from ascertain.core.records import Need
from ascertain.errors import InputRefused

LONGEST_TEXT = 500


def check_text(name: str, value: object, *, optional: bool = False) -> None:
    """Text of 1 to 500 characters that UTF-8 can write. Raises InputRefused."""
    if optional and value is None:
        return
    if not isinstance(value, str) or not 0 < len(value) <= LONGEST_TEXT:
        raise InputRefused(
            f"{name} is {_shown(value)}", fix=f"Give text of 1 to {LONGEST_TEXT} characters."
        )
    if value.encode("utf-8", "ignore").decode() != value:
        raise InputRefused(f"{name} has a lone surrogate", fix="Give text that UTF-8 can write.")


def check_time(name: str, value: object) -> None:
    """None, or integer microseconds. Raises InputRefused."""
    if value is None:
        return
    if type(value) is not int or not 0 <= value <= MAX_INTEGER:
        raise InputRefused(
            f"{name} is {_shown(value)}",
            fix="Give microseconds since 1970 as an int: int(when.timestamp() * 1_000_000).",
        )


def check_preconditions(given: Any) -> None:
    """A sequence of `Precondition` with fields of their types. Raises InputRefused."""
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise InputRefused(
            f"preconditions is {_shown(given)}", fix="Give a list of Precondition(…)."
        )
    for item in given:
        if type(item).__name__ != "Precondition" or not hasattr(item, "fresh_for"):
            raise InputRefused(
                f"a precondition is {_shown(item)}",
                fix="Write Precondition(resource, predicate, version).",
            )
        for name in ("resource", "predicate", "version"):
            check_text(f"precondition.{name}", getattr(item, name))
        if type(item.guard) is not bool:
            raise InputRefused(
                f"precondition.guard is {_shown(item.guard)}", fix="Write True or False."
            )
        if item.observe is not None and not callable(item.observe):
            raise InputRefused(
                f"precondition.observe is {_shown(item.observe)}",
                fix="Give a function from the resource to its present version.",
            )
        check_time("precondition.fresh_for", item.fresh_for)
        check_time("precondition.observed_at", item.observed_at)


def check_needs(action_id: str, given: Any) -> tuple[Need, ...]:
    """The needed actions, each once. Raises InputRefused for anything but ids and `Need`."""
    if isinstance(given, str | Mapping) or not isinstance(given, Iterable):
        raise InputRefused(f"needs is {_shown(given)}", fix='Give a list: needs=["order-1"].')
    needs: dict[str, Need] = {}
    for item in given:
        need = item if isinstance(item, Need) else Need(action_id=item, lineage=item)
        check_text("a needed action id", need.action_id)
        check_text("a needed lineage", need.lineage)
        if need.until not in ("committed", "final", "accepted"):
            raise InputRefused(
                f"needs {need.action_id!r} until {_shown(need.until)}",
                fix="Write until='committed' or until='final'.",
            )
        if need.action_id == action_id:
            raise InputRefused(
                f"action {action_id!r} needs itself", fix="Name the actions that come before it."
            )
        needs[need.action_id] = need
    return tuple(needs.values())


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
