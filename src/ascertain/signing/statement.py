"""The in-toto Statement v1 that a certificate or a report travels in.

One subject: the action, by its id and a digest. The bytes are canonical (RFC 8785), and a reader
refuses any others. Sources: in-toto Attestation Framework, Statement v1 (``_type``, ``subject``,
``predicateType``, ``predicate``) and DigestSet (lower-case hex).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ascertain.core.codec import Json, decode_canonical, encode
from ascertain.errors import InputRefused, PredicateRefused

STATEMENT_TYPE: Final = "https://in-toto.io/Statement/v1"
CERTIFICATE_TYPE: Final = "urn:ascertain:recovery-cut-certificate:1"
REPORT_TYPE: Final = "urn:ascertain:recovery-cut-report:1"
PREDICATE_TYPE: Final = CERTIFICATE_TYPE
PREDICATE_TYPES: Final = frozenset({CERTIFICATE_TYPE, REPORT_TYPE})

_SHA256: Final = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Statement:
    """What a statement says, taken apart. ``predicate`` is not checked yet."""

    predicate_type: str
    action_id: str
    subject_digest: str
    predicate: dict[str, Json]


def statement(
    action_id: str,
    digest_hex: str,
    predicate: Mapping[str, Json],
    *,
    predicate_type: str = CERTIFICATE_TYPE,
) -> bytes:
    """The canonical bytes of a statement about one action.

    ``digest_hex``: SHA-256 of what the action is known by, in lower-case hex. ``predicate_type``:
    :data:`CERTIFICATE_TYPE`, or :data:`REPORT_TYPE` for what the certificate's schema cannot say
    truthfully.

    Raises :class:`InputRefused` for an empty id, another digest or an unknown type, and
    ``ProfileViolation`` for a predicate outside the strict JSON profile or larger than 64 kB.
    """
    if not action_id:
        raise InputRefused("the action id is empty")
    if not _SHA256.fullmatch(digest_hex):
        raise InputRefused("the subject's digest is not 64 lower-case hex digits")
    if predicate_type not in PREDICATE_TYPES:
        raise InputRefused(f"the predicate type {predicate_type!r} is not known")
    return encode(
        {
            "_type": STATEMENT_TYPE,
            "subject": [{"name": action_id, "digest": {"sha256": digest_hex}}],
            "predicateType": predicate_type,
            "predicate": dict(predicate),
        }
    )


def read_statement(raw: bytes) -> Statement:
    """Take a statement apart that is exactly as :func:`statement` writes it.

    Raises :class:`PredicateRefused` for bytes that are not canonical, members that are missing or
    not known, another type, or a subject that is not one action.
    """
    try:
        document = decode_canonical(raw)
    except InputRefused as error:
        raise PredicateRefused(f"the statement is not a canonical document: {error}") from error
    members = {"_type", "subject", "predicateType", "predicate"}
    if not isinstance(document, dict) or set(document) != members:
        raise PredicateRefused("not an in-toto Statement v1 with exactly its four members")
    if document["_type"] != STATEMENT_TYPE:
        raise PredicateRefused(f"the statement's _type is not {STATEMENT_TYPE}")
    predicate_type, predicate = document["predicateType"], document["predicate"]
    if not isinstance(predicate_type, str) or predicate_type not in PREDICATE_TYPES:
        raise PredicateRefused(f"the predicate type {predicate_type!r} is not known")
    if not isinstance(predicate, dict):
        raise PredicateRefused("the predicate is not an object")
    action_id, subject_digest = _subject(document["subject"])
    return Statement(predicate_type, action_id, subject_digest, predicate)


def _subject(subjects: Json) -> tuple[str, str]:
    match subjects:
        case [{"name": str(name), "digest": {"sha256": str(sha256), **others}, **more}] if (
            name and not others and not more and _SHA256.fullmatch(sha256)
        ):
            return name, sha256
        case _:
            raise PredicateRefused("the subject is not one action with one SHA-256 digest")
