"""Canonical bytes: what is hashed, signed and stored.

RFC 8785 (JSON Canonicalization Scheme) under the strict profile of DESIGN §2 (``profile``).

* ``encode`` checks every value on the way, and is for what comes from callers.
* ``encode_struct`` is for our own records, whose values were checked before.
* ``decode`` is for documents from outside; ``decode_canonical`` for those that must be canonical.

msgspec writes the bytes. Inside the profile its output with ``order="sorted"`` is that of RFC 8785
but for one thing: it sorts keys by code point, and the RFC by UTF-16 code unit. The two can differ
only in a document that has both characters beyond U+FFFF and some of U+E000 to U+FFFF; such a
document is put in order here.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

import msgspec

from ascertain.core.profile import (
    FIX_SIZE,
    MAX_BYTES,
    MAX_DEPTH,
    MAX_INTEGER,
    MAX_ITEMS,
    SURROGATE,
    Fault,
    Json,
    Reader,
    lone_surrogate,
    too_big_integer,
    too_deep,
    too_large,
)
from ascertain.errors import DocumentMalformed, DocumentTooLarge, InputRefused, ProfileViolation

__all__ = [
    "MAX_BYTES",
    "MAX_DEPTH",
    "MAX_INTEGER",
    "MAX_ITEMS",
    "FingerprintKey",
    "Json",
    "decode",
    "decode_canonical",
    "digest",
    "encode",
    "encode_checked",
    "encode_struct",
    "fingerprint",
    "fingerprint_matches",
    "keyed",
]

_sorted_bytes: Final = msgspec.json.Encoder(order="sorted").encode
_ordered_bytes: Final = msgspec.json.Encoder().encode
_parsed: Final = msgspec.json.Decoder().decode

_BEYOND_BMP: Final = re.compile(rb"[\xf0-\xf4]")
_ABOVE_SURROGATES: Final = re.compile(rb"[\xee\xef]")
_STRUCTURE: Final = re.compile(rb'"(?:[^"\\]|\\.)*"|[\[\]{}]')


def encode(value: object) -> bytes:
    """The canonical bytes of a plain value.

    Only ``dict``, ``list``, ``str``, ``int``, ``bool`` and ``None`` themselves are taken, not their
    subclasses: what a subclass means is for a declared parameter type to say. Raises
    ``ProfileViolation`` with the path of the value.
    """
    try:
        if _weigh(value, 1) > MAX_BYTES:
            raise too_large()
        raw = _sorted_bytes(value)
    except Fault as fault:
        raise fault.violation() from None
    except UnicodeEncodeError:
        raise _surrogate_in(value) from None
    if len(raw) > MAX_BYTES:
        raise too_large().violation()
    return raw if raw.isascii() else _by_code_unit(raw)


def encode_checked(value: dict[str, Json]) -> bytes:
    """`encode` for a plain value whose parts were checked already: by it, or by a codec.

    Lone surrogates, size and depth are looked at all the same. Raises ``ProfileViolation``.
    """
    return _encoded(value)


def encode_struct(struct: msgspec.Struct) -> bytes:
    """The canonical bytes of one of our own records, its tag sorted in like any other field.

    The contract of this fast path: field names are ASCII; no field can hold a float by its type;
    integers are our own counters and times; what callers gave came through ``encode`` or
    ``Parameters.encode``; a ``msgspec.Raw`` holds canonical bytes. What is checked all the same is
    what could be written and then never read again: lone surrogates, size and depth. Raises
    ``ProfileViolation``.
    """
    return _encoded(struct)


def _encoded(value: object) -> bytes:
    try:
        raw = _sorted_bytes(value)
    except UnicodeEncodeError:
        raise _surrogate_in(value) from None
    if len(raw) > MAX_BYTES:
        raise too_large().violation()
    if raw.count(b"{") + raw.count(b"[") > MAX_DEPTH and _depth(raw) > MAX_DEPTH:
        raise too_deep().violation()
    return raw if raw.isascii() else _by_code_unit(raw)


def _weigh(value: Any, depth: int) -> int:
    """A lower bound of the bytes that ``value`` takes; raises Fault for what the profile refuses.

    The bound stops what is small in memory and huge when written: one list many times in itself.
    """
    kind = type(value)
    if kind is str:
        return len(value)
    if kind is int:
        if not -MAX_INTEGER <= value <= MAX_INTEGER:
            raise too_big_integer()
    elif kind is dict:
        return _weigh_object(value, depth)
    elif kind is list:
        return _weigh_array(value, depth)
    elif kind is not bool and value is not None:
        raise _not_plain(value)
    return 1


def _weigh_object(value: dict[object, object], depth: int) -> int:
    weight = _room_for(value, depth)
    key: object = None
    try:
        for key, item in value.items():
            if type(key) is not str:
                raise Fault(f"a key of type {type(key).__name__}", "Write the key as str.")
            # Text is most of what there is: not worth a call.
            weight += len(key) + (len(item) if type(item) is str else _weigh(item, depth + 1))
    except Fault as fault:
        if type(key) is str:
            fault.trail.append(key)
        raise
    if weight > MAX_BYTES:
        raise too_large()
    return weight


def _weigh_array(value: list[object], depth: int) -> int:
    weight = _room_for(value, depth)
    index = -1
    try:
        for item in value:
            index += 1
            weight += len(item) if type(item) is str else _weigh(item, depth + 1)
    except Fault as fault:
        fault.trail.append(index)
        raise
    if weight > MAX_BYTES:
        raise too_large()
    return weight


def _room_for(value: dict[object, object] | list[object], depth: int) -> int:
    if depth > MAX_DEPTH:
        raise too_deep()
    if len(value) > MAX_ITEMS:
        raise Fault(f"more than {MAX_ITEMS} items", FIX_SIZE)
    return len(value)


def _not_plain(value: object) -> Fault:
    name = type(value).__name__
    if isinstance(value, float):
        return Fault(f"a {name}", "Declare it as float or Decimal: it then travels as text.")
    if isinstance(value, str | int):
        return Fault(f"a {name}, not a plain str or int", "Give the plain value (enums: .value).")
    if isinstance(value, dict | list | tuple):
        return Fault(f"a {name}, not a plain dict or list", "Give a plain dict or list.")
    return Fault(f"a {name}, which JSON does not have", "Declare the parameter with its type.")


def _surrogate_in(value: object) -> ProfileViolation:
    fault = lone_surrogate()
    fault.trail = (_way_to_surrogate(value) or [])[::-1]
    return fault.violation()


def _way_to_surrogate(value: object) -> list[str | int] | None:
    """Keys and indexes down to the first lone surrogate. Runs only after msgspec met one."""
    if isinstance(value, str):
        return [] if SURROGATE.search(value) else None
    for step, item in _members(value):
        if isinstance(step, str) and SURROGATE.search(step):
            return [step]
        below = _way_to_surrogate(item)
        if below is not None:
            return [step, *below]
    return None


def _members(value: object) -> list[tuple[str | int, object]]:
    if isinstance(value, msgspec.Struct):
        names = zip(value.__struct_encode_fields__, value.__struct_fields__, strict=True)
        return [(shown, getattr(value, name)) for shown, name in names]
    if isinstance(value, Mapping):
        return list(value.items())
    if isinstance(value, list | tuple):
        return list(enumerate(value))
    return []


def _by_code_unit(raw: bytes) -> bytes:
    """The same document with its keys in the order of RFC 8785 §3.2.3."""
    if _BEYOND_BMP.search(raw) is None or _ABOVE_SURROGATES.search(raw) is None:
        return raw
    return _ordered_bytes(_in_order(_parsed(raw)))


def _in_order(value: Json) -> Json:
    if isinstance(value, dict):
        return {key: _in_order(value[key]) for key in sorted(value, key=_code_units)}
    if isinstance(value, list):
        return [_in_order(item) for item in value]
    return value


def _code_units(key: str) -> bytes:
    return key.encode("utf-16-be")


def _depth(raw: bytes) -> int:
    """How deep a well-formed document goes, by its brackets outside text."""
    deepest = level = 0
    for token in _STRUCTURE.findall(raw):
        if token in (b"{", b"["):
            level += 1
            deepest = max(deepest, level)
        elif token in (b"}", b"]"):
            level -= 1
    return deepest


def decode(raw: bytes) -> Json:
    """The value of a document from outside.

    Strict: JSON of RFC 8259 in UTF-8 without byte order mark, and nothing that the profile does
    not have. Raises ``DocumentTooLarge`` before anything is parsed, else ``DocumentMalformed`` with
    the path of the value.
    """
    known = _canonical(raw)
    return known[0] if known else Reader(raw).document()


def decode_canonical(raw: bytes) -> Json:
    """``decode``, and the bytes must be exactly those that ``encode`` writes for the value.

    Raises ``DocumentTooLarge`` or ``DocumentMalformed``.
    """
    known = _canonical(raw)
    if known:
        return known[0]
    expected = encode(Reader(raw).document())
    pairs = zip(raw, expected, strict=False)
    at = next((at for at, (given, due) in enumerate(pairs) if given != due), len(expected))
    raise DocumentMalformed(
        f"not canonical (RFC 8785) from byte {at} on",
        fix="Take the document as its issuer wrote it, byte for byte.",
    )


def _canonical(raw: bytes) -> tuple[Json] | None:
    """The value, if the bytes are exactly what ``encode`` writes for it: nothing is left to check.

    That holds whatever the parser lets pass (a key that is there twice, -0): it is never written.
    """
    if len(raw) > MAX_BYTES:
        raise DocumentTooLarge(f"{len(raw)} bytes, where {MAX_BYTES} are allowed", fix=FIX_SIZE)
    try:
        value: Json = _parsed(raw)
        return (value,) if encode(value) == raw else None
    except (msgspec.DecodeError, InputRefused, RecursionError):
        return None


_KEY_ID: Final = re.compile(r"[A-Za-z0-9._-]{1,64}\Z")
_SHORTEST_SECRET: Final = 16


def digest(raw: bytes) -> str:
    """SHA-256 in hex: names a record, a payload or a piece of evidence."""
    return hashlib.sha256(raw).hexdigest()


def keyed(secret: bytes, raw: bytes) -> str:
    """HMAC-SHA-256 in hex: without the secret, not even a small value can be guessed from it."""
    started = _begun(secret).copy()
    started.update(raw)
    return started.hexdigest()


@lru_cache(maxsize=64)
def _begun(secret: bytes) -> hmac.HMAC:
    """The hash with the secret in it, once for many: only copies of it are used."""
    return hmac.new(secret, None, "sha256")


@dataclass(frozen=True, slots=True)
class FingerprintKey:
    """A named secret of the journal's keyring.

    ``key_id``: letters, digits, ``.``, ``_``, ``-``. ``secret``: 16 bytes or more, never shown.
    Raises ``InputRefused``.
    """

    key_id: str
    secret: bytes = field(repr=False)

    def __post_init__(self) -> None:
        if not _KEY_ID.match(self.key_id):
            raise InputRefused(
                "The id of a fingerprint key has 1 to 64 characters of A-Z a-z 0-9 . _ -",
                fix="Name the key, for example, k1.",
            )
        if len(self.secret) < _SHORTEST_SECRET:
            raise InputRefused(
                f"The secret of a fingerprint key has at least {_SHORTEST_SECRET} bytes.",
                fix="Make it with secrets.token_bytes(32).",
            )


def fingerprint(key: FingerprintKey, raw: bytes) -> str:
    """The keyed fingerprint of canonical bytes, as ``<key id>:<hex>`` (DESIGN §2)."""
    return f"{key.key_id}:{keyed(key.secret, raw)}"


def fingerprint_matches(keys: Mapping[str, bytes], fingerprint: str, raw: bytes) -> bool | None:
    """Whether ``fingerprint`` was made of ``raw``. ``keys``: key id to secret.

    None if its key is not among ``keys``: no answer, so a missing keyring and never another
    intent. Compares in constant time.
    """
    key_id, _, _ = fingerprint.partition(":")
    secret = keys.get(key_id)
    if secret is None:
        return None
    expected = f"{key_id}:{keyed(secret, raw)}"
    return hmac.compare_digest(expected.encode(), fingerprint.encode("utf-8", "surrogatepass"))
