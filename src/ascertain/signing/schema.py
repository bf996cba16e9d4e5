"""The schema of the Recovery Cut Certificate, and just enough of JSON Schema to apply it.

The schema is data (``rcc_schema.json``, JSON Schema draft 2020-12) and is not altered here. The
validator knows the keywords which that file uses and no other: a keyword it does not know is an
error when the schema is compiled, never a check that is skipped. ``format: date-time`` is asserted,
not only annotated. The tests hold it to the verdicts of an independent implementation.

Members that the schema does not name are allowed: that is where our additions stand.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from functools import cache
from importlib.resources import files
from typing import Any, Final, TypeAlias

from ascertain.signing.times import read_any

Problem: TypeAlias = tuple[str, str]
"""A path such as ``$.intent.version``, and what is wrong there."""
Check: TypeAlias = Callable[[object, str], list[Problem]]

_ANNOTATIONS: Final = frozenset({"$schema", "$id", "title"})
_DRAFT: Final = "https://json-schema.org/draft/2020-12/schema"
_PLAIN_PATTERN: Final = re.compile(r"\^[\[\]a-z0-9{}-]*\$")


def problems(predicate: object) -> list[Problem]:
    """What keeps a predicate from being valid under the RCC schema; empty where nothing does."""
    return _certificate_schema()(predicate, "$")


@cache
def _certificate_schema() -> Check:
    text = files("ascertain.signing").joinpath("rcc_schema.json").read_text("utf-8")
    return compile_schema(json.loads(text))


def compile_schema(schema: Mapping[str, Any]) -> Check:
    """A check for one schema object.

    Raises :class:`ValueError` for a keyword, type, format or pattern that is not known here.
    """
    if schema.get("$schema", _DRAFT) != _DRAFT:
        raise ValueError(f"unknown draft: {schema['$schema']}")
    names = set(schema) - _ANNOTATIONS
    if unknown := names - set(_COMPILERS) - {"if", "then"}:
        raise ValueError(f"unknown keywords: {sorted(unknown)}")
    checks = [_COMPILERS[name](schema[name]) for name in schema if name in _COMPILERS]
    if "if" in schema or "then" in schema:
        checks.append(_conditional(schema["if"], schema["then"]))
    return lambda value, path: [found for check in checks for found in check(value, path)]


def _is_integer(value: object) -> bool:
    if isinstance(value, bool):
        return False
    return isinstance(value, int) or (isinstance(value, float) and value.is_integer())


_TYPES: Final[Mapping[str, Callable[[object], bool]]] = {
    "object": lambda value: isinstance(value, dict),
    "string": lambda value: isinstance(value, str),
    "integer": _is_integer,
}


def _type(name: Any) -> Check:
    if not isinstance(name, str) or name not in _TYPES:
        raise ValueError(f"unknown type: {name}")
    test = _TYPES[name]
    return lambda value, path: [] if test(value) else [(path, f"is not of type {name}")]


def _required(names: Any) -> Check:
    def check(value: object, path: str) -> list[Problem]:
        if not isinstance(value, dict):
            return []
        return [(f"{path}.{name}", "is missing") for name in names if name not in value]

    return check


def _properties(schemas: Any) -> Check:
    members = {name: compile_schema(schema) for name, schema in schemas.items()}

    def check(value: object, path: str) -> list[Problem]:
        if not isinstance(value, dict):
            return []
        return [
            found
            for name, member in members.items()
            if name in value
            for found in member(value[name], f"{path}.{name}")
        ]

    return check


def _min_length(least: Any) -> Check:
    def check(value: object, path: str) -> list[Problem]:
        short = isinstance(value, str) and len(value) < least
        return [(path, f"is shorter than {least}")] if short else []

    return check


def _minimum(least: Any) -> Check:
    def check(value: object, path: str) -> list[Problem]:
        number = isinstance(value, int | float) and not isinstance(value, bool)
        return [(path, f"is below {least}")] if number and value < least else []

    return check


def _pattern(pattern: Any) -> Check:
    # ECMA 262 and Python part ways at "$" (Python also matches before a last newline), at classes
    # and at flags: only the plain, anchored form is known here, and it is matched to the very end.
    if not _PLAIN_PATTERN.fullmatch(pattern):
        raise ValueError(f"not a plain anchored pattern: {pattern}")
    compiled = re.compile(pattern[1:-1], re.ASCII)

    def check(value: object, path: str) -> list[Problem]:
        wrong = isinstance(value, str) and not compiled.fullmatch(value)
        return [(path, f"does not match {pattern}")] if wrong else []

    return check


def _enum(words: Any) -> Check:
    if not all(isinstance(word, str) for word in words):
        raise ValueError(f"not an enumeration of strings: {words}")

    def check(value: object, path: str) -> list[Problem]:
        known = isinstance(value, str) and value in words
        return [] if known else [(path, f"is none of {', '.join(words)}")]

    return check


def _const(word: Any) -> Check:
    return _enum([word])


def _format(name: Any) -> Check:
    if name != "date-time":
        raise ValueError(f"unknown format: {name}")

    def check(value: object, path: str) -> list[Problem]:
        wrong = isinstance(value, str) and read_any(value) is None
        return [(path, "is not an RFC 3339 date-time")] if wrong else []

    return check


def _all_of(schemas: Any) -> Check:
    parts = [compile_schema(schema) for schema in schemas]
    return lambda value, path: [found for part in parts for found in part(value, path)]


def _conditional(condition: Any, consequence: Any) -> Check:
    fails, then = compile_schema(condition), compile_schema(consequence)
    return lambda value, path: [] if fails(value, path) else then(value, path)


_COMPILERS: Final[Mapping[str, Callable[[Any], Check]]] = {
    "type": _type,
    "required": _required,
    "properties": _properties,
    "minLength": _min_length,
    "minimum": _minimum,
    "pattern": _pattern,
    "enum": _enum,
    "const": _const,
    "format": _format,
    "allOf": _all_of,
}
