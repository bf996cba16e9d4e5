"""DSSE envelopes, in one exact byte form.

The form is the canonical JSON of the envelope, without a newline::

    {
        "payload": "<base64>",
        "payloadType": "application/vnd.in-toto+json",
        "signatures": [{"keyid": "<16 hex digits>", "sig": "<base64 of 64 bytes>"}],
    }

(on one line). The signature covers payload and payload type; everything else in such a file is
unsigned, and so may say nothing: :func:`open_envelope` takes an envelope only where writing it
anew gives the same bytes. That leaves no room for other white space, order, escapes, further or
doubled members, url-safe or unpadded base64, base64 with stray bits, or a key that the document
brings along.

There is no algorithm member: every signature is Ed25519, by the type of the key in the manifest.

Sources: DSSE v1.0 (protocol: PAE; envelope: JSON form, ``keyid`` is an unauthenticated hint),
RFC 4648 section 3.5 (canonical base64), RFC 8032.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from ascertain.core.codec import digest
from ascertain.errors import (
    DocumentTooLarge,
    EnvelopeRefused,
    InputRefused,
    KeyNotTrusted,
    SignatureRefused,
)
from ascertain.signing.keys import SIGNATURE_BYTES, SigningKey, matches
from ascertain.signing.manifest import KeyManifest, Role, TrustedKey
from ascertain.signing.times import write_utc

PAYLOAD_TYPE: Final = "application/vnd.in-toto+json"
ENVELOPE_BYTES_MAX: Final = 1_000_000
SIGNATURES_MAX: Final = 4

_ONE_SIGNATURE: Final = rb'\{"keyid":"([0-9a-f]{16})","sig":"([A-Za-z0-9+/=]*)"\}'
_SIGNATURE: Final = re.compile(_ONE_SIGNATURE)
_ENVELOPE: Final = re.compile(
    rb'\{"payload":"([A-Za-z0-9+/=]*)","payloadType":"([ -!#-\[\]-~]*)",'
    rb'"signatures":\[([^\[\]]*)\]\}'
)
_CHANGED: Final = (
    "The file was changed or written anew after it was issued, if only in white space. Get the"
    " bytes as they were issued."
)


@dataclass(frozen=True, slots=True)
class Opened:
    """A statement whose signatures all match. ``keys``: the manifest's entries, one a signer."""

    statement: bytes
    keys: tuple[TrustedKey, ...]

    @property
    def key_id(self) -> str:
        """The key id of the first signer."""
        return self.keys[0].key_id

    @property
    def key_domain(self) -> str:
        """The control domain of the first signer, by the manifest."""
        return self.keys[0].control_domain


def pae(payload_type: str, payload: bytes) -> bytes:
    """The bytes that are signed: the Pre-Authentication Encoding of DSSE v1.0."""
    kind = payload_type.encode("utf-8")
    return b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)


def envelope_digest(raw: bytes) -> str:
    """SHA-256 of the envelope's bytes, in hex: how one certificate names another."""
    return digest(raw)


def seal(statement: bytes, *keys: SigningKey) -> bytes:
    """The envelope of a statement: the exact bytes to store, send and verify. Never format them.

    Several keys sign for dual control; the same keys give the same bytes in any order.
    Raises :class:`InputRefused` for no key, too many or one key twice, and
    :class:`DocumentTooLarge` for a statement whose envelope nobody would open.
    """
    if not 1 <= len(keys) <= SIGNATURES_MAX:
        raise InputRefused(f"an envelope has 1 to {SIGNATURES_MAX} signatures, not {len(keys)}")
    if len({key.public for key in keys}) != len(keys):
        raise InputRefused("one raw key signs an envelope once")
    message = pae(PAYLOAD_TYPE, statement)
    signatures = sorted((key.key_id, key.sign(message)) for key in keys)
    raw = _emit(statement, PAYLOAD_TYPE, signatures)
    if len(raw) > ENVELOPE_BYTES_MAX:
        raise DocumentTooLarge(f"the envelope would have more than {ENVELOPE_BYTES_MAX} bytes")
    return raw


def open_envelope(
    raw: bytes,
    manifest: KeyManifest,
    *,
    role: Role,
    at_us: int | Callable[[bytes], int],
    threshold: int = 1,
) -> Opened:
    """The statement of an envelope that is exactly as issued and signed by trusted keys.

    Every signature must match a key that the manifest allows ``role`` at the instant ``at_us``, and
    at least ``threshold`` different raw keys must have signed. A function as ``at_us`` reads the
    instant from the statement, and is called only after all signatures have matched.

    Raises :class:`EnvelopeRefused` for other bytes than :func:`seal` makes, too many of them, or
    fewer signers than asked; :class:`KeyNotTrusted` for an unknown key, one without the role, or
    one outside its validity or compromised at that instant; :class:`SignatureRefused`; and
    :class:`InputRefused` for a threshold or an instant that cannot be meant.
    """
    if threshold < 1:
        raise InputRefused(f"a threshold of {threshold} signatures asks for none")
    if isinstance(at_us, int):
        write_utc(at_us)
    statement, signatures = _dissect(raw)
    keys = tuple(manifest.find(key_id, role) for key_id, _ in signatures)
    message = pae(PAYLOAD_TYPE, statement)
    for key, (_, signature) in zip(keys, signatures, strict=True):
        if not matches(key.public, signature, message):
            raise SignatureRefused(
                f"the signature by {key.key_id} does not match",
                fix="The document was altered, or another key signed it under this name."
                " Do not use what it says.",
            )
    signers = len({key.public for key in keys})
    if signers < threshold:
        raise EnvelopeRefused(f"signed by {signers} of at least {threshold} different keys")
    moment = at_us if isinstance(at_us, int) else at_us(statement)
    for key in keys:
        if objection := key.objection(moment):
            raise KeyNotTrusted(
                f"the key {key.key_id} cannot have signed at {write_utc(moment)}: {objection}",
                fix="A later document under a current key can replace this one.",
            )
    return Opened(statement, keys)


def _dissect(raw: bytes) -> tuple[bytes, list[tuple[str, bytes]]]:
    """Payload and signatures, or :class:`EnvelopeRefused` for anything but exact bytes."""
    if len(raw) > ENVELOPE_BYTES_MAX:
        raise EnvelopeRefused(f"more than {ENVELOPE_BYTES_MAX} bytes: not read further")
    if not raw:
        raise EnvelopeRefused("the envelope is empty", fix=_CHANGED)
    found = _ENVELOPE.fullmatch(raw)
    if found is None:
        raise EnvelopeRefused("not an envelope in the form it is issued in", fix=_CHANGED)
    payload, kind, tail = found[1], found[2].decode("ascii"), found[3]
    if kind != PAYLOAD_TYPE:
        raise EnvelopeRefused(f"the payload type is {kind}, not {PAYLOAD_TYPE}")
    pairs = _SIGNATURE.findall(tail)
    if not 1 <= len(pairs) <= SIGNATURES_MAX:
        raise EnvelopeRefused(f"{len(pairs)} signatures, not 1 to {SIGNATURES_MAX}")
    signatures = [(key_id.decode("ascii"), _plain(signature)) for key_id, signature in pairs]
    names = [key_id for key_id, _ in signatures]
    if names != sorted(set(names)):
        raise EnvelopeRefused("the signatures are not in the order of their key ids, each once")
    if any(len(signature) != SIGNATURE_BYTES for _, signature in signatures):
        raise EnvelopeRefused(f"a signature does not have {SIGNATURE_BYTES} bytes", fix=_CHANGED)
    statement = _plain(payload)
    if _emit(statement, kind, signatures) != raw:
        raise EnvelopeRefused("not an envelope in the form it is issued in", fix=_CHANGED)
    return statement, signatures


def _plain(encoded: bytes) -> bytes:
    try:
        plain = base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError) as error:
        raise EnvelopeRefused("a member is not base64", fix=_CHANGED) from error
    if base64.b64encode(plain) != encoded:
        raise EnvelopeRefused("a member is not base64 in its one form", fix=_CHANGED)
    return plain


def _emit(statement: bytes, kind: str, signatures: Sequence[tuple[str, bytes]]) -> bytes:
    """The one form. Every member is base64, hex or a fixed word: nothing needs an escape."""
    listed = b",".join(
        b'{"keyid":"%b","sig":"%b"}' % (key_id.encode("ascii"), base64.b64encode(signature))
        for key_id, signature in signatures
    )
    return b'{"payload":"%b","payloadType":"%b","signatures":[%b]}' % (
        base64.b64encode(statement),
        kind.encode("ascii"),
        listed,
    )
