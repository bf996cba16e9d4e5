"""The offline verifier: a file and a key manifest, nothing else.

:func:`verify` raises or returns what was verified; there is no third way. In this order it checks

1. the envelope: exact bytes, signatures by trusted keys of the role ``certificate``;
2. the statement: canonical bytes, known types, one subject;
3. the keys, at the predicate's own ``issued_at``;
4. the predicate: valid under the RCC schema, about the subject's action, consistent in itself, and
   with the decision that the table makes of the facts it carries, where it carries them;
5. what the caller expects: action, lineage, audience.

**What issued_at means.** The key that signed the document also signed that date. A retired key's
old certificates so stay valid; but whoever stole a key can write any date before it was retired or
reported. Where the manifest marks a signer as compromised later than ``issued_at``, the document is
still taken, and :attr:`Verified.cautions` says so: only a witness from outside (a timestamp, a log
checkpoint) shows that it is as old as it says. Where that matters, treat a caution as a refusal.

**What it does not show.** That the issuer told the truth, that evidence behind the digests exists,
or that no later certificate replaces this one. No clock is read: ``at_us`` is the caller's.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ascertain.core.codec import Json
from ascertain.errors import EnvelopeRefused, PredicateRefused
from ascertain.signing.consistency import (
    SKEW_US,
    consistency,
    decision_again,
    is_decided_again,
)
from ascertain.signing.disk import read_bounded
from ascertain.signing.dsse import ENVELOPE_BYTES_MAX, envelope_digest, open_envelope
from ascertain.signing.manifest import KeyManifest, Role, TrustedKey
from ascertain.signing.schema import problems
from ascertain.signing.statement import CERTIFICATE_TYPE, REPORT_TYPE, Statement, read_statement
from ascertain.signing.times import read_utc, write_utc

CERTIFICATES: Final = frozenset({CERTIFICATE_TYPE})
CERTIFICATES_AND_REPORTS: Final = frozenset({CERTIFICATE_TYPE, REPORT_TYPE})


@dataclass(frozen=True, slots=True)
class Verified:
    """A signed document that passed every check.

    ``digest`` is the SHA-256 of the envelope's bytes. ``unchecked`` names the bindings (action,
    lineage, audience, time) that the caller expected nothing of. ``cautions`` says in words what
    the signature alone cannot settle. ``audience`` is None where the document names none.
    ``decided_again``: its decision was made again from its facts, and is the same.
    """

    predicate_type: str
    action_id: str
    lineage: str
    audience: str | None
    issued_at_us: int
    subject_digest: str
    predicate: dict[str, Json]
    statement: bytes
    digest: str
    keys: tuple[TrustedKey, ...]
    unchecked: tuple[str, ...]
    cautions: tuple[str, ...]
    decided_again: bool = False

    @property
    def is_report(self) -> bool:
        """A signed report: it names what is missing or disagrees, and certifies nothing."""
        return self.predicate_type == REPORT_TYPE


def verify(
    raw: bytes,
    manifest: KeyManifest,
    *,
    expect_action: str | None,
    expect_lineage: str | None,
    expect_audience: str | None,
    at_us: int | None,
    accept: frozenset[str] = CERTIFICATES,
    threshold: int = 1,
) -> Verified:
    """Check a signed document offline; see the module for what is checked and in which order.

    None as an expectation checks nothing and is listed in :attr:`Verified.unchecked`. ``at_us``:
    the present, to refuse what claims to come from the future. ``accept``: the predicate types that
    will do; a report passes only with :data:`CERTIFICATES_AND_REPORTS`. ``threshold``: how many
    different raw keys must have signed.

    Raises only ``VerificationFailed``: :class:`EnvelopeRefused`, ``SignatureRefused``,
    ``KeyNotTrusted`` or :class:`PredicateRefused`; but ``InputRefused`` for a threshold below 1 or
    an ``at_us`` outside the years 0000 to 9999, which are the caller's own.
    """
    if at_us is not None:
        write_utc(at_us)
    opened = open_envelope(
        raw, manifest, role=Role.CERTIFICATE, at_us=_issued_at_of, threshold=threshold
    )
    said = read_statement(opened.statement)
    if said.predicate_type not in accept:
        raise PredicateRefused(
            f"a document of type {said.predicate_type}, which will not do here",
            fix="A report names what is missing or disagrees; it is no certificate."
            if said.predicate_type == REPORT_TYPE
            else "",
        )
    issued_at_us = _issued_at(said)
    if at_us is not None and issued_at_us > at_us + SKEW_US:
        raise PredicateRefused(
            f"it says it was issued at {write_utc(issued_at_us)}, which is still to come",
            fix="Compare the clocks of the issuer and of this machine.",
        )
    _check_predicate(said)
    lineage = _member(said.predicate, "lineage")
    if lineage is None:
        raise PredicateRefused("$.lineage: is missing")
    audience = _member(said.predicate, "audience")
    unchecked = [
        binding
        for binding, expected, found in (
            ("action", expect_action, said.action_id),
            ("lineage", expect_lineage, lineage),
            ("audience", expect_audience, audience),
        )
        if not _expected(binding, expected, found)
    ]
    return Verified(
        predicate_type=said.predicate_type,
        action_id=said.action_id,
        lineage=lineage,
        audience=audience,
        issued_at_us=issued_at_us,
        subject_digest=said.subject_digest,
        predicate=said.predicate,
        statement=opened.statement,
        digest=envelope_digest(raw),
        keys=opened.keys,
        unchecked=(*unchecked, *(() if at_us is not None else ("time",))),
        cautions=(*_cautions(opened.keys), *_undecided(said.predicate)),
        decided_again=is_decided_again(said.predicate),
    )


def verify_file(
    path: str | os.PathLike[str],
    manifest: KeyManifest,
    *,
    expect_action: str | None,
    expect_lineage: str | None,
    expect_audience: str | None,
    at_us: int | None,
    accept: frozenset[str] = CERTIFICATES,
    threshold: int = 1,
) -> Verified:
    """:func:`verify` for a file, of which never more than the cap is read.

    Raises as :func:`verify` does, and :class:`EnvelopeRefused` for what is not a readable file.
    """
    try:
        raw, _ = read_bounded(Path(path), ENVELOPE_BYTES_MAX)
    except OSError as error:
        raise EnvelopeRefused(f"{path} cannot be read: {error.strerror}") from error
    return verify(
        raw,
        manifest,
        expect_action=expect_action,
        expect_lineage=expect_lineage,
        expect_audience=expect_audience,
        at_us=at_us,
        accept=accept,
        threshold=threshold,
    )


def _issued_at_of(statement: bytes) -> int:
    return _issued_at(read_statement(statement))


def _issued_at(said: Statement) -> int:
    text = said.predicate.get("issued_at")
    at_us = read_utc(text) if isinstance(text, str) else None
    if at_us is None:
        raise PredicateRefused("$.issued_at: is not an instant such as 2030-01-01T09:00:00Z")
    return at_us


def _check_predicate(said: Statement) -> None:
    """Schema and consistency for a certificate; a report names its action and decides rightly."""
    if said.predicate_type == CERTIFICATE_TYPE and (found := problems(said.predicate)):
        path, message = found[0]
        more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
        raise PredicateRefused(f"{path}: {message}{more}")
    action = said.predicate.get("action")
    if not isinstance(action, dict) or action.get("action_id") != said.action_id:
        raise PredicateRefused("$.action.action_id: is not the subject of the statement")
    is_certificate = said.predicate_type == CERTIFICATE_TYPE
    if doubts := (consistency if is_certificate else decision_again)(said.predicate):
        raise PredicateRefused(
            f"it contradicts itself: {'; '.join(doubts)}",
            fix="Its issuer has a defect or is not honest: do not act on it.",
        )


def _member(predicate: dict[str, Json], name: str) -> str | None:
    value = predicate.get(name)
    if value is None and name not in predicate:
        return None
    if not isinstance(value, str) or not value:
        raise PredicateRefused(f"$.{name}: is not a non-empty string")
    return value


def _expected(binding: str, expected: str | None, found: str | None) -> bool:
    """False where nothing is expected. Raises :class:`PredicateRefused` where something else is."""
    if expected is None:
        return False
    if found != expected:
        shown = "none" if found is None else repr(found)
        raise PredicateRefused(
            f"its {binding} is {shown}, not {expected!r}",
            fix="It is a document for something else, shown here by mistake or on purpose.",
        )
    return True


def _cautions(keys: tuple[TrustedKey, ...]) -> list[str]:
    return [
        f"the key {key.key_id} is compromised from {write_utc(key.compromised_from_us)}: without"
        " a witness from outside, this document may be younger than it says"
        for key in keys
        if key.compromised_from_us is not None
    ]


def _undecided(predicate: dict[str, Json]) -> list[str]:
    """A word on facts that were decided by another table than the one known here."""
    if "decision" not in predicate or is_decided_again(predicate):
        return []
    return [
        "it was decided by another decision table than the one of this version: its facts were not"
        " decided again"
    ]
