"""How a value of a declared type travels as plain JSON, and comes back (DESIGN §2).

Each codec is made once, from the annotation (``parameters``), and refuses with the path whatever is
not of its type. A value has one spelling: ``decode`` takes what ``encode`` writes, nothing else.

================================  ==================================================================
str, int, bool, None              themselves; bool is no int; int within ±(2**53 - 1)
Decimal                           text exactly as given; float: the shortest text that gives it back
datetime                          RFC 3339 in UTC with ``Z``; without a time zone it is refused
date, UUID, bytes                 ``2026-01-31``; lower-case hex with dashes; standard base64
Enum, Literal                     the member's value; the literal
T | None, list, tuple, dict       null or T; array; array; object, whose keys are str
set[str], frozenset[str]          sorted array
dataclass, Struct, NamedTuple,    object with a member for each field
TypedDict
================================  ==================================================================
"""

from __future__ import annotations

import binascii
import enum
import math
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Context, Decimal
from typing import Any, Final, TypeAlias
from uuid import UUID

from ascertain.core.profile import (
    MAX_INTEGER,
    SURROGATE,
    Fault,
    Json,
    lone_surrogate,
    too_big_integer,
)

Convert: TypeAlias = Callable[[Any], Any]
Default: TypeAlias = Callable[[], Any]

ABSENT: Final = object()
"""What the default of a member gives that may simply not be there."""


@dataclass(frozen=True, slots=True)
class TypeCodec:
    """Both ways of one type. ``word`` says the type; the two functions raise ``Fault``."""

    word: str
    encode: Convert
    decode: Convert


@dataclass(frozen=True, slots=True)
class Member:
    """A named part. ``default`` gives what stands for it when it is missing; None: required."""

    name: str
    codec: TypeCodec
    default: Default | None = None


class Members:
    """The two ways of a set of named parts, each a loop as short as can be."""

    def __init__(self, members: Iterable[Member]) -> None:
        self.members: Final = {member.name: member for member in members}
        self._encoders: Final = [
            (name, member.codec.encode, _encoded(member)) for name, member in self.members.items()
        ]
        self._decoders: Final = [
            (name, member.codec.decode, member.default) for name, member in self.members.items()
        ]

    def encode(self, given: Mapping[str, Any]) -> dict[str, Json]:
        """Plain values by name, defaults filled in."""
        return self._convert(self._encoders, given)

    def decode(self, plain: Mapping[str, Any]) -> dict[str, Any]:
        """Typed values by name, defaults filled in."""
        return self._convert(self._decoders, plain)

    def _convert(
        self, steps: list[tuple[str, Convert, Default | None]], given: Mapping[str, Any]
    ) -> dict[str, Any]:
        converted: dict[str, Any] = {}
        name = ""
        try:
            for name, convert, default in steps:
                if name in given:
                    converted[name] = convert(given[name])
                elif default is None:
                    raise Fault("missing", "Give a value for it.")
                elif (value := default()) is not ABSENT:
                    converted[name] = value
            for name in given:
                if name not in self.members:
                    raise Fault("unknown", f"Declared are: {', '.join(self.members) or 'none'}.")
        except Fault as fault:
            fault.trail.append(str(name))
            raise
        return converted

    @property
    def word(self) -> str:
        """The parts as they would be declared."""
        return ", ".join(f"{name}: {member.codec.word}" for name, member in self.members.items())


def _encoded(member: Member) -> Default | None:
    default, encode = member.default, member.codec.encode
    if default is None:
        return None
    return lambda: value if (value := default()) is ABSENT else encode(value)


def constant(value: Any) -> Default:
    """A default that is always this value."""
    return lambda: value


def _misfit(wanted: str, value: object) -> Fault:
    found = "None" if value is None else type(value).__name__
    return Fault(
        f"{found}, where {wanted} was expected", f"Give exactly the declared type, {wanted}."
    )


# --- single values -------------------------------------------------------------------------------


def _str(value: Any) -> str:
    if type(value) is not str:
        raise _misfit("str", value)
    if not value.isascii() and SURROGATE.search(value):
        raise lone_surrogate()
    return value


def _int(value: Any) -> int:
    if type(value) is not int:
        raise _misfit("int", value)
    if not -MAX_INTEGER <= value <= MAX_INTEGER:
        raise too_big_integer()
    return value


def _bool(value: Any) -> bool:
    if type(value) is not bool:
        raise _misfit("bool", value)
    return value


def _none(value: Any) -> None:
    if value is not None:
        raise _misfit("None", value)


# The spelling of a Decimal depends on the context of the thread; this one is fixed.
_DECIMALS: Final = Context(capitals=1)


def _decimal_text(value: Any) -> str:
    if type(value) is not Decimal:
        raise _misfit("Decimal", value)
    if not value.is_finite():
        raise Fault("a Decimal that is not finite", "Give a number; NaN and Infinity are none.")
    return _DECIMALS.to_sci_string(value)


def _float_text(value: Any) -> str:
    if type(value) is int:
        value = float(_int(value))
    if type(value) is not float:
        raise _misfit("float", value)
    if not math.isfinite(value):
        raise Fault("a float that is not finite", "Give a number; NaN and Infinity are none.")
    return repr(value)


def _datetime_text(value: Any) -> str:
    if not isinstance(value, datetime):
        raise _misfit("datetime", value)
    if type(value) is not datetime:
        value = _without_subclass(value)
    if value.tzinfo is not UTC:
        value = _in_utc(value)
    return str(value.isoformat()).removesuffix("+00:00") + "Z"


def _without_subclass(value: datetime) -> datetime:
    plain = datetime.combine(value.date(), value.timetz())
    if plain == value:
        return plain
    # It knows more than a datetime does: nanoseconds, say.
    raise _misfit("datetime", value)


def _in_utc(value: datetime) -> datetime:
    if value.utcoffset() is None:
        raise Fault(
            "a datetime without a time zone",
            "Say which instant is meant: for UTC, datetime(…, tzinfo=timezone.utc) or "
            "datetime.now(timezone.utc).",
        )
    try:
        return value.astimezone(UTC)
    except OverflowError:
        raise Fault("a datetime outside the years 1 to 9999 of UTC", "Give another.") from None


def _date_text(value: Any) -> str:
    if not isinstance(value, date) or isinstance(value, datetime):
        raise _misfit("date", value)
    return date.isoformat(value)


def _uuid_text(value: Any) -> str:
    if not isinstance(value, UUID):
        raise _misfit("UUID", value)
    return UUID.__str__(value)


def _bytes_text(value: Any) -> str:
    if type(value) is not bytes:
        raise _misfit("bytes", value)
    return binascii.b2a_base64(value, newline=False).decode()


def _bytes_from(text: str) -> bytes:
    return binascii.a2b_base64(text, strict_mode=True)


def _by_text(word: str, write: Callable[[Any], str], read: Callable[[str], Any]) -> TypeCodec:
    """A type that travels as text; only the text that ``write`` gives is read."""

    def decode(plain: Any) -> Any:
        text = _str(plain)
        try:
            value = read(text)
        except (ValueError, ArithmeticError):
            raise Fault(f"text that is no {word}", "Take it as it was written.") from None
        if write(value) != text:
            raise Fault(f"another spelling of the {word}", "Take it as it was written.")
        return value

    return TypeCodec(word, write, decode)


SINGLE: Final[dict[Any, TypeCodec]] = {
    str: TypeCodec("str", _str, _str),
    int: TypeCodec("int", _int, _int),
    bool: TypeCodec("bool", _bool, _bool),
    types.NoneType: TypeCodec("None", _none, _none),
    Decimal: _by_text("Decimal", _decimal_text, Decimal),
    float: _by_text("float", _float_text, float),
    datetime: _by_text("datetime", _datetime_text, datetime.fromisoformat),
    date: _by_text("date", _date_text, date.fromisoformat),
    UUID: _by_text("UUID", _uuid_text, UUID),
    bytes: _by_text("bytes", _bytes_text, _bytes_from),
}


LITERALS: Final = (str, int, bool, types.NoneType)


def literal(values: tuple[Any, ...], name: str = "Literal") -> TypeCodec:
    """One of the given plain values."""
    # Looked up together with their types, since 1 == True.
    allowed = {(type(value), SINGLE[type(value)].encode(value)) for value in values}
    word = f"{name}[{', '.join(map(repr, values))}]"

    def same(value: Any) -> Any:
        if type(value) not in LITERALS:
            raise _misfit(word, value)
        if (type(value), value) not in allowed:
            raise Fault(f"none of {word}", "Give one of the declared values.")
        return value

    return TypeCodec(word, same, same)


def enumeration(kind: type[enum.Enum]) -> TypeCodec:
    """A member of an enum whose values are plain."""
    plain = literal(tuple(member.value for member in kind), kind.__name__)
    members = {(type(member.value), member.value): member for member in kind}

    def encode(value: Any) -> Json:
        if type(value) is not kind:
            raise _misfit(kind.__name__, value)
        return typing.cast("str | int", value.value)

    def decode(value: Any) -> enum.Enum:
        return members[type(value), plain.decode(value)]

    return TypeCodec(plain.word, encode, decode)


# --- values that hold others ---------------------------------------------------------------------


def _each(convert: Convert, values: Iterable[Any]) -> list[Any]:
    converted: list[Any] = []
    try:
        for value in values:
            converted.append(convert(value))
    except Fault as fault:
        fault.trail.append(len(converted))
        raise
    return converted


def _of_kind(kind: type, word: str, value: Any) -> Any:
    if type(value) is not kind:
        raise _misfit(word, value)
    return value


def optional(inner: TypeCodec) -> TypeCodec:
    """None, or the inner type."""
    encode, decode = inner.encode, inner.decode
    return TypeCodec(
        f"{inner.word} | None",
        lambda value: None if value is None else encode(value),
        lambda plain: None if plain is None else decode(plain),
    )


def list_of(item: TypeCodec) -> TypeCodec:
    """``list[T]``, as an array."""
    word = f"list[{item.word}]"
    return TypeCodec(
        word,
        lambda value: _each(item.encode, _of_kind(list, word, value)),
        lambda plain: _each(item.decode, _of_kind(list, word, plain)),
    )


def tuple_of(item: TypeCodec) -> TypeCodec:
    """``tuple[T, ...]``, as an array."""
    word = f"tuple[{item.word}, ...]"
    return TypeCodec(
        word,
        lambda value: _each(item.encode, _of_kind(tuple, word, value)),
        lambda plain: tuple(_each(item.decode, _of_kind(list, word, plain))),
    )


def fixed_tuple(items: list[TypeCodec]) -> TypeCodec:
    """``tuple[A, B]``, as an array of that length."""
    word = f"tuple[{', '.join(item.word for item in items)}]"

    def all_of(kind: type, value: Any) -> Any:
        if len(_of_kind(kind, word, value)) != len(items):
            raise Fault(f"{len(value)} items, where {len(items)} were expected", "Give each one.")
        return zip(items, value, strict=True)

    return TypeCodec(
        word,
        lambda value: _each(lambda pair: pair[0].encode(pair[1]), all_of(tuple, value)),
        lambda plain: tuple(_each(lambda pair: pair[0].decode(pair[1]), all_of(list, plain))),
    )


def set_of(kind: type) -> TypeCodec:
    """``set[str]`` or ``frozenset[str]``, as a sorted array."""
    word = f"{kind.__name__}[str]"

    def decode(plain: Any) -> Any:
        items = _each(_str, _of_kind(list, word, plain))
        if items != sorted(set(items)):
            raise Fault("not sorted, or with an item twice", "Take it as it was written.")
        return kind(items)

    return TypeCodec(
        word,
        lambda value: sorted([_str(item) for item in _of_kind(kind, word, value)]),
        decode,
    )


def dict_of(item: TypeCodec) -> TypeCodec:
    """``dict[str, T]``, as an object."""
    word = f"dict[str, {item.word}]"

    def each(convert: Convert, value: Any) -> dict[str, Any]:
        converted: dict[str, Any] = {}
        key: Any = None
        try:
            for key, inner in _of_kind(dict, word, value).items():
                converted[_str(key)] = convert(inner)
        except Fault as fault:
            if type(key) is str:
                fault.trail.append(key)
            raise
        return converted

    return TypeCodec(
        word,
        lambda value: each(item.encode, value),
        lambda plain: each(item.decode, plain),
    )


def record(kind: type, members: Members) -> TypeCodec:
    """A dataclass, Struct or NamedTuple, as an object with a member for each field."""
    name, names = kind.__name__, tuple(members.members)

    def encode(value: Any) -> Json:
        _of_kind(kind, name, value)
        return members.encode({field: getattr(value, field) for field in names})

    def decode(plain: Any) -> Any:
        fields = members.decode(_of_kind(dict, name, plain))
        try:
            return kind(**fields)
        except (TypeError, ValueError) as error:
            refused = f"fields that {name} itself refuses ({type(error).__name__})"
            raise Fault(refused, f"Give what {name} accepts.") from error

    return TypeCodec(f"{name}({members.word})", encode, decode)


def typed_dict(kind: type, members: Members) -> TypeCodec:
    """A TypedDict, as an object; keys that are not required may be absent."""
    name = kind.__name__
    return TypeCodec(
        f"{name}({members.word})",
        lambda value: members.encode(_of_kind(dict, name, value)),
        lambda plain: members.decode(_of_kind(dict, name, plain)),
    )
