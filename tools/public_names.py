"""Makes docs/reference/public-names.md: every public name with its signature and what it is."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from enum import Enum
from types import ModuleType
from typing import Any

import ascertain

GROUPS: dict[str, tuple[str, ...]] = {
    "Open a journal": ("open", "Ascertain", "Action"),
    "Say what is wanted": ("Intent", "Precondition", "Need"),
    "Say what came back": ("Done", "Refusal", "NoEffect"),
    "Outcomes": (
        "Outcome", "Applied", "Pending", "Reversed", "Rejected", "NotApplied", "Conflict",
        "Unknown", "Receipt", "Recovered",
    ),
    "Observe": (
        "Question", "Seen", "Declined", "Absent", "Unreadable", "sqlite_marker",
        "sqlalchemy_marker",
    ),
    "Contracts": (
        "Contract", "Key", "Scope", "Replies", "Success", "Readback", "Consistency", "InFlight",
        "Seal", "Postcondition", "Evidence", "Retention", "Observation", "Surface", "Consequence",
        "Reversibility", "contracts",
    ),
    "Durations": ("SECOND", "MINUTE", "HOUR", "DAY", "FOR_EVER"),
    "Authority": ("limits", "Authority", "Request", "Ruling", "Grant"),
    "Errors": ("AscertainError", "IntentConflict", "NotVerified"),
}  # fmt: skip
"""The order of the page. A name that stands in no group fails the build of the page."""

HEAD = """# Public names

Everything that `import ascertain` gives. What is not listed here, or in the modules that the guides
import from, may change without notice. This page is made from the code.
"""
WIDTH = 88
ELSEWHERE = re.compile(r" See the module and DESIGN \d+\.| \((?:DESIGN|seed) [^)]*\)")
"""References to the design, which a reader of this page does not need."""


def page() -> str:
    """The page. Raises LookupError where a public name has no group, or a group no name."""
    grouped = [name for names in GROUPS.values() for name in names]
    if sorted(grouped) != sorted(ascertain.__all__):
        raise LookupError(f"group these names: {sorted(set(grouped) ^ set(ascertain.__all__))}")
    parts = [HEAD]
    for title, names in GROUPS.items():
        parts.append(f"## {title}\n")
        parts.extend(_entry(name, getattr(ascertain, name)) for name in names)
    return "\n".join(parts)


def _entry(name: str, found: Any) -> str:
    if isinstance(found, int):
        return f"### {name}\n\n`{found:_}` microseconds.\n"
    if isinstance(found, ModuleType):
        return f"### {name}\n\n{_paragraph(found)}\n" + "".join(_functions(name, found))
    if inspect.isclass(found) and issubclass(found, Enum):
        values = "\n".join(f"- `{name}.{item.name}`: `{item.value!r}`" for item in found)
        return f"### {name}\n\n{_paragraph(found)}\n\n{values}\n"
    entry = f"### {name}\n\n{_fence(name, found)}\n{_said(found)}\n"
    if inspect.isclass(found):
        entry += "".join(_methods(name, found))
    return entry


def _functions(prefix: str, module: ModuleType) -> Iterator[str]:
    for name, function in vars(module).items():
        if inspect.isfunction(function) and function.__module__ == module.__name__:
            yield f"\n#### {prefix}.{name}\n\n{_fence(name, function)}\n{_paragraph(function)}\n"


def _methods(owner: str, found: type) -> Iterator[str]:
    """What a class defines itself; what it inherits is at its base."""
    for name, item in vars(found).items():
        if name.startswith("_"):
            continue
        if isinstance(item, property) and item.fget is not None:
            yield f"\n#### {owner}.{name}\n\n{_paragraph(item.fget)}\n"
        elif inspect.isfunction(item):
            yield f"\n#### {owner}.{name}\n\n{_fence(name, item)}\n{_said(item)}\n"


def _said(found: Any) -> str:
    """The docstring: its first paragraph, and those that explain parameters or errors."""
    text = inspect.getdoc(found) or ""
    first, *more = [part.replace("\n", " ") for part in text.split("\n\n")]
    kept = [part for part in more if part.startswith(("``", "Raises"))]
    return "\n\n".join(_code(part) for part in (first, *kept))


def _paragraph(found: Any) -> str:
    return _code((inspect.getdoc(found) or "").split("\n\n")[0].replace("\n", " "))


def _code(text: str) -> str:
    return ELSEWHERE.sub("", text).replace("``", "`")


def _fence(name: str, found: Any) -> str:
    signature = _signature(found)
    coroutine = "await " if inspect.iscoroutinefunction(found) else ""
    gives = "" if inspect.isclass(found) else _gives(found)
    line = f"{coroutine}{name}({', '.join(signature)}){gives}"
    if len(line) > WIDTH:
        parts = "".join(f"    {item},\n" for item in signature)
        line = f"{coroutine}{name}(\n{parts}){gives}"
    return f"```py\n{line}\n```\n"


def _gives(found: Any) -> str:
    annotation = inspect.signature(found).return_annotation
    known = annotation is not inspect.Signature.empty and annotation not in ("None", "Any")
    return f" -> {_type(annotation)}" if known else ""


def _signature(found: Any) -> list[str]:
    parts: list[str] = []
    keyword = False
    written = _annotations(found)
    if getattr(found, "_is_protocol", False):
        return parts
    for parameter in inspect.signature(found).parameters.values():
        if parameter.name == "self":
            continue
        if parameter.kind is parameter.KEYWORD_ONLY and not keyword:
            parts.append("*")
        if parameter.kind in (parameter.KEYWORD_ONLY, parameter.VAR_POSITIONAL):
            keyword = True
        annotation = written.get(parameter.name, parameter.annotation)
        parts.append(_parameter(parameter.replace(annotation=annotation)))
    return parts


def _annotations(found: Any) -> dict[str, Any]:
    """A class's annotations as they are written, its bases' too."""
    if not inspect.isclass(found):
        return {}
    return {
        name: annotation
        for base in reversed(found.__mro__)
        for name, annotation in getattr(base, "__annotations__", {}).items()
    }


def _parameter(parameter: inspect.Parameter) -> str:
    stars = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
    text = stars + parameter.name
    if parameter.annotation is not parameter.empty:
        text += f": {_type(parameter.annotation)}"
    if parameter.default is not parameter.empty:
        text += f" = {_default(parameter.default)}"
    return text


def _type(annotation: Any) -> str:
    text = getattr(annotation, "__forward_arg__", annotation)
    text = text if isinstance(text, str) else inspect.formatannotation(text)
    return re.sub(r"\b(?:\w+\.)+(?=\w)", "", text)


def _default(value: Any) -> str:
    if isinstance(value, Enum):
        return f"{type(value).__name__}.{value.name}"
    if type(value).__module__.startswith("ascertain") and value == _made(type(value)):
        return f"{type(value).__name__}()"
    if repr(value) == "<factory>":
        return "{}"
    return _duration(value) if type(value) is int else repr(value).replace("'", '"')


def _made(kind: type) -> Any:
    try:
        return kind()
    except TypeError:
        return None


def _duration(value: int) -> str:
    if value == ascertain.FOR_EVER:
        return "FOR_EVER"
    for name in ("DAY", "HOUR", "MINUTE", "SECOND"):
        unit: int = getattr(ascertain, name)
        if value and value % unit == 0:
            return name if value == unit else f"{value // unit} * {name}"
    return str(value)
