"""The strict JSON profile: its limits, how a refusal names its place, and its reader.

DESIGN §2, "Canonical bytes": JSON of RFC 8259 in UTF-8, without floats, with integers within
±(2**53 - 1), without duplicate keys and lone surrogates. ``codec`` is the way in; this module is
what it and ``parameters`` share.
"""

from __future__ import annotations

import json
import re
from typing import Final, NoReturn, TypeAlias

from ascertain.errors import DocumentMalformed, ProfileViolation

Json: TypeAlias = "dict[str, Json] | list[Json] | str | int | bool | None"

MAX_BYTES: Final = 65_536
"""The most bytes that a document may have, read or written."""

MAX_DEPTH: Final = 64
"""How deep objects and arrays may stand in each other; ``[[1]]`` is two deep."""

MAX_ITEMS: Final = MAX_BYTES // 2
"""The most members of one object or array: each takes two bytes or more, so no more can fit."""

MAX_INTEGER: Final = 2**53 - 1
"""The greatest integer that every JSON implementation keeps exactly (RFC 7493 §2.2)."""

SURROGATE: Final = re.compile("[\ud800-\udfff]")
"""A code point that is half a character, and that UTF-8 cannot carry."""

FIX_SIZE: Final = "Keep the large part outside, and give its digest and where it is."
FIX_TEXT: Final = "Give text that can be written as UTF-8; declare binary content as bytes."

_PLAIN_KEY: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_LONGEST_KEY_SHOWN: Final = 64


class Fault(Exception):
    """A refusal on its way out of a value: each container that it leaves adds its key or index.

    Internal to the core; whoever started the walk turns it into a public error with ``path``.
    """

    def __init__(self, message: str, fix: str = "") -> None:
        self.message = message
        self.fix = fix
        self.trail: list[str | int] = []
        super().__init__(message)

    @property
    def path(self) -> str:
        """Where the value stands: ``$.a[3].b``, and ``$["a b"]`` where a key is no plain word."""
        return "$" + "".join(_step(step) for step in reversed(self.trail))

    def violation(self) -> ProfileViolation:
        """The public form for a value that a caller gave."""
        return ProfileViolation(self.message, path=self.path, fix=self.fix)


def _step(step: str | int) -> str:
    if isinstance(step, int):
        return f"[{step}]"
    cut = len(step) > _LONGEST_KEY_SHOWN
    shown = step[:_LONGEST_KEY_SHOWN] + "…" if cut else step
    return f".{shown}" if _PLAIN_KEY.match(shown) else f"[{json.dumps(shown)}]"


def too_large() -> Fault:
    """More bytes than ``MAX_BYTES`` when written."""
    return Fault(f"larger than {MAX_BYTES} bytes", FIX_SIZE)


def too_deep() -> Fault:
    """More levels than ``MAX_DEPTH``."""
    return Fault(f"more than {MAX_DEPTH} levels deep", "Flatten it, or give inner parts as text.")


def too_big_integer() -> Fault:
    """An integer that JSON does not keep exactly."""
    return Fault("an integer outside ±(2**53 - 1)", "Give it as text; declare it as Decimal.")


def lone_surrogate() -> Fault:
    """Text that is not a sequence of characters."""
    return Fault("text with a lone surrogate, which is half a character", FIX_TEXT)


_BLANK: Final = re.compile(r"[ \t\n\r]*")
_NUMBER: Final = re.compile(r"(-?)(0|[1-9][0-9]*)((?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)")
_LONGEST_INTEGER: Final = len(str(MAX_INTEGER))
_WORDS: Final[dict[str, tuple[str, Json]]] = {
    "t": ("true", True),
    "f": ("false", False),
    "n": ("null", None),
}
_strings: Final = json.JSONDecoder()


class Reader:
    """A parser that knows where it is. ``document()`` gives the value or raises DocumentMalformed.

    ``codec.decode`` runs it only on what is not canonical. The cap on bytes is the caller's.
    """

    def __init__(self, raw: bytes) -> None:
        # A byte that is not UTF-8 becomes a surrogate, and is met where it stands.
        self.text = raw.decode("utf-8", "surrogateescape")
        self.at = 0
        self.trail: list[str | int] = []

    def document(self) -> Json:
        """The value of the whole text."""
        if self.text.startswith("\ufeff"):
            self._refuse("a byte order mark", "Write the document as UTF-8 without one.")
        value = self._value()
        if self._peek():
            self._refuse("something after the end of the document")
        return value

    def _value(self) -> Json:
        first = self._peek()
        if first == "{":
            return self._object()
        if first == "[":
            return self._array()
        if first == '"':
            return self._string()
        if first == "-" or first.isdecimal():
            return self._number()
        word, meaning = _WORDS.get(first, ("", None))
        if not word or not self.text.startswith(word, self.at):
            self._unexpected("a value")
        self.at += len(word)
        return meaning

    def _object(self) -> Json:
        members: dict[str, Json] = {}
        self._open()
        while self._more("}", first=not members):
            if self._peek() != '"':
                self._unexpected("a key")
            key = self._string()
            self.trail.append(key)
            if key in members:
                self._refuse("a key that is there twice", "Write each key once.")
            if self._peek() != ":":
                self._unexpected("a colon")
            self.at += 1
            members[key] = self._value()
            self.trail.pop()
        return members

    def _array(self) -> Json:
        items: list[Json] = []
        self._open()
        while self._more("]", first=not items):
            self.trail.append(len(items))
            items.append(self._value())
            self.trail.pop()
        return items

    def _open(self) -> None:
        self.at += 1
        if len(self.trail) >= MAX_DEPTH:
            self._refuse_as(too_deep())

    def _more(self, end: str, *, first: bool) -> bool:
        """Whether another member follows; steps over the comma before it, or over the end."""
        found = self._peek()
        if found == end:
            self.at += 1
            return False
        if not first:
            if found != ",":
                self._unexpected(f"a comma or {end}")
            self.at += 1
        return True

    def _string(self) -> str:
        start = self.at
        try:
            value, self.at = _strings.raw_decode(self.text, start)
        except json.JSONDecodeError as error:
            self.at = error.pos
            self._refuse("text that is not closed, or has a bare control character or odd escape")
        if not value.isascii() and SURROGATE.search(value):
            if SURROGATE.search(self.text, start, self.at):
                self._refuse("bytes that are not UTF-8", FIX_TEXT)
            self._refuse_as(lone_surrogate())
        return str(value)

    def _number(self) -> int:
        found = _NUMBER.match(self.text, self.at)
        if found is None:
            self._unexpected("a number")
        sign, digits, rest = found.groups()
        if rest:
            self._refuse("a number with a fraction or exponent", "Write an integer, or text.")
        if sign and digits == "0":
            self._refuse("minus zero", "Write 0.")
        if len(digits) > _LONGEST_INTEGER or int(digits) > MAX_INTEGER:
            self._refuse_as(too_big_integer())
        self.at = found.end()
        return int(found.group())

    def _peek(self) -> str:
        """The next character that is not blank; empty at the end."""
        blank = _BLANK.match(self.text, self.at)
        assert blank is not None, "the pattern matches the empty text"
        self.at = blank.end()
        return self.text[self.at : self.at + 1]

    def _unexpected(self, wanted: str) -> NoReturn:
        found = self.text[self.at : self.at + 1]
        if not found:
            self._refuse(f"the end of the document, where {wanted} was expected")
        if SURROGATE.match(found):
            self._refuse("bytes that are not UTF-8", FIX_TEXT)
        self._refuse(f"{json.dumps(found)}, where {wanted} was expected")

    def _refuse_as(self, fault: Fault) -> NoReturn:
        self._refuse(fault.message, fault.fix)

    def _refuse(self, message: str, fix: str = "Write it as JSON (RFC 8259).") -> NoReturn:
        fault = Fault(message)
        fault.trail = self.trail[::-1]
        raise DocumentMalformed(f"{message} (character {self.at})", path=fault.path, fix=fix)
