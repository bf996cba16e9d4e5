"""What came back from the user's code, in the words that a contract uses (DESIGN 3, replies).

A reply has *names*, the most exact first; the contract lists some of them as success,
refusal or no effect, and what it lists none of is UNKNOWN.

======================  ==========================================================
``returned``            a normal return (with a 2xx status, if it has one)
``http:402``            an integer ``status_code`` or ``http_status`` of it
``code:card_declined``  a text ``code`` of it
``raised:pkg.Class``    an exception's class, and each of its bases
``declined``            the adapter raised `Refusal`; also ``declined:<word>``
``no_effect``           the adapter raised `NoEffect`; also ``no_effect:<word>``
======================  ==========================================================
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from ascertain.core.codec import Json, encode
from ascertain.core.contract import LEVELS, Contract
from ascertain.core.evidence import Reply
from ascertain.errors import InputRefused

_WORD = re.compile(r"[\w.:-]{1,80}")


class Refusal(Exception):
    """Raised by an adapter: the provider declined the command for good. ``word``: why."""

    def __init__(self, word: object = "") -> None:
        self.word = str(word)
        super().__init__(word)


class NoEffect(Exception):
    """Raised by an adapter: this attempt did nothing, and the action may run again."""

    def __init__(self, word: object = "") -> None:
        self.word = str(word)
        super().__init__(word)


class Done(msgspec.Struct, frozen=True, kw_only=True):
    """What an adapter may return to say more than its value.

    ``reference``: the provider's name for the effect. ``result``: a plain value to keep.
    ``reaches``: accepted, committed or settled, where one reply can mean either.
    """

    reference: str | None = None
    result: Json = None
    reaches: str | None = None
    version: str | None = None


def _status(value: object) -> int | None:
    for name in ("status_code", "http_status"):
        status = getattr(value, name, None)
        if isinstance(status, int) and not isinstance(status, bool):
            return status
    return None


def names_of_return(value: object) -> tuple[str, ...]:
    """The names of a normal return. A response with a status is what its status says."""
    status = _status(value)
    if status is None:
        return ("returned",)
    return (f"http:{status}", "returned") if 200 <= status < 300 else (f"http:{status}",)


def _names_of_error(error: BaseException) -> Iterator[str]:
    word = getattr(error, "word", "")
    if isinstance(error, Refusal | NoEffect):
        base = "declined" if isinstance(error, Refusal) else "no_effect"
        if word and _WORD.fullmatch(word):
            yield f"{base}:{word}"
        yield base
        return
    code = getattr(error, "code", None)
    if isinstance(code, str) and _WORD.fullmatch(code):
        yield f"code:{code}"
    status = _status(error)
    if status is not None:
        yield f"http:{status}"
    for kind in type(error).__mro__:
        if kind not in (BaseException, Exception, object):
            yield f"raised:{kind.__module__}.{kind.__qualname__}"


def names_of_error(error: BaseException) -> tuple[str, ...]:
    """The names of an exception, the most exact first."""
    return tuple(_names_of_error(error))


def _transport(error: BaseException) -> str:
    if _status(error) is not None or isinstance(error, Refusal | NoEffect):
        return "replied"
    if isinstance(error, TimeoutError):
        return "timed_out"
    return "lost" if isinstance(error, ConnectionError) else "raised"


def reply_to_error(contract: Contract, error: BaseException) -> Reply:
    """The reply that an exception stands for. Its text is kept short, as a clue."""
    named = contract.classify(names_of_error(error))
    text = f"{type(error).__name__}: {error}"
    # A name that covers a timeout or a lost connection never settles anything, whatever
    # the contract lists: the exact class may be a subclass of what it meant.
    if isinstance(error, TimeoutError | ConnectionError) and not _refused(error):
        named = ""
    return Reply(transport=_transport(error), named=named, detail=_clue(text))


def _refused(error: BaseException) -> bool:
    """A connection that was refused: nothing of the request has left."""
    return isinstance(error, ConnectionRefusedError)


def _clue(text: str) -> str:
    return text.encode("utf-8", "replace").decode("utf-8")[:200]


def reply_to_return(contract: Contract, value: Any) -> Reply:
    """The reply that a normal return stands for."""
    if isinstance(value, Done):
        level = value.reaches is None or value.reaches in LEVELS
        return Reply(
            transport="replied",
            named=contract.classify(("returned",)) if level else "",
            reference=_text(value.reference),
            reaches=value.reaches if level else None,
            version=_text(value.version),
            result=kept(value.result),
            detail=None if level else _clue(f"reaches {value.reaches!r}, which is no level"),
        )
    names = names_of_return(value)
    named = contract.classify(names)
    detail = None if named else _clue(f"returned {names[0]}")
    return Reply(
        transport="replied",
        named=named,
        reference=_reference(value),
        result=kept(value),
        detail=detail,
    )


def _reference(value: Any) -> str | None:
    """The provider's reference: an ``id`` of what was returned, as text."""
    found = value.get("id") if isinstance(value, dict) else getattr(value, "id", None)
    return _text(found)


def _text(value: object) -> str | None:
    """Text that a record can hold, else None: evidence must never fail to be written."""
    if not isinstance(value, str) or not 0 < len(value) <= 500:
        return None
    return value if value.encode("utf-8", "ignore").decode() == value else None


_MOST_KEPT = 16_384


def kept(value: Any) -> Json:
    """The value, if it is plain and fits the profile; else None: the reference stays."""
    if type(value) not in (dict, list, str, int, bool):
        return None
    try:
        small = len(encode(value)) <= _MOST_KEPT
    except InputRefused:
        return None
    plain: Json = value
    return plain if small else None
