"""The key manifest: which raw keys may sign what, for whom, and from when until when.

It is all that a verifier trusts, so it is read strictly: unknown members, a key id that does not
belong to its key, a key under two control domains, keys that anybody could sign under, and times in
any form but ``2030-01-01T09:00:00Z`` are refused with the path of what is wrong. ::

    {
        "keys": [
            {
                "compromised_from": null,
                "control_domain": "payments",
                "key_id": "1f…",
                "public": "…",
                "role": "certificate",
                "valid_from": "2030-01-01T00:00:00Z",
                "valid_until": null,
            }
        ],
        "manifest": "urn:ascertain:key-manifest:1",
    }

A manifest never carries a private key. How it reaches the verifier unaltered is outside of it: hand
it over once, by a way of its own, and compare :attr:`KeyManifest.digest`.
"""

from __future__ import annotations

import base64
import binascii
import fcntl
import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Final, Self

from ascertain.core.codec import MAX_BYTES, Json, decode, digest, encode
from ascertain.errors import DocumentMalformed, DocumentTooLarge, InputRefused, KeyNotTrusted
from ascertain.signing.disk import read_bounded, sync_directory, write_new
from ascertain.signing.keys import is_sound, key_id_of
from ascertain.signing.times import read_utc, write_utc

MANIFEST_TYPE: Final = "urn:ascertain:key-manifest:1"
_MEMBERS: Final = frozenset(
    {
        "compromised_from",
        "control_domain",
        "key_id",
        "public",
        "role",
        "valid_from",
        "valid_until",
    }
)


class Role(StrEnum):
    """What a key may sign. One raw key may hold several roles, by one entry for each."""

    CERTIFICATE = "certificate"
    CHECKPOINT = "checkpoint"
    AUTHORITY = "authority"
    RECEIPT = "receipt"


@dataclass(frozen=True, slots=True)
class TrustedKey:
    """One entry. Valid in ``[valid_from_us, valid_until_us)``; microseconds since 1970, UTC.

    ``compromised_from_us``: from here on somebody else may hold the key too. Whoever does can also
    write an earlier date into what they sign; only a witness from outside (a timestamp, a log)
    settles whether a document that claims to be older really is.

    Raises :class:`InputRefused` for a key, domain or time that cannot stand in a manifest.
    """

    role: Role
    control_domain: str
    public: bytes
    valid_from_us: int
    valid_until_us: int | None = None
    compromised_from_us: int | None = None

    def __post_init__(self) -> None:
        if self.role not in set(Role):
            raise InputRefused(f"the role {self.role!r} is none of {', '.join(Role)}")
        if not self.control_domain or not self.control_domain.isprintable():
            raise InputRefused("the control domain is empty or not printable")
        key_id_of(self.public)
        if not is_sound(self.public):
            raise InputRefused("the public key is one that anybody could sign under")
        for at_us in (self.valid_from_us, self.valid_until_us, self.compromised_from_us):
            if at_us is not None:
                write_utc(at_us)
        if self.valid_until_us is not None and self.valid_until_us <= self.valid_from_us:
            raise InputRefused("valid_until is not after valid_from")

    @property
    def key_id(self) -> str:
        """The name of the key, made from its raw bytes."""
        return key_id_of(self.public)

    def objection(self, at_us: int) -> str | None:
        """Why the key cannot have signed at an instant, or None where it can."""
        if at_us < self.valid_from_us:
            return f"it is valid from {write_utc(self.valid_from_us)}"
        if self.valid_until_us is not None and at_us >= self.valid_until_us:
            return f"it was valid until {write_utc(self.valid_until_us)}"
        if self.compromised_from_us is not None and at_us >= self.compromised_from_us:
            return f"it is compromised from {write_utc(self.compromised_from_us)}"
        return None

    def document(self) -> dict[str, Json]:
        """The entry as it stands in the manifest."""
        return {
            "compromised_from": _written(self.compromised_from_us),
            "control_domain": self.control_domain,
            "key_id": self.key_id,
            "public": base64.b64encode(self.public).decode("ascii"),
            "role": str(self.role),
            "valid_from": write_utc(self.valid_from_us),
            "valid_until": _written(self.valid_until_us),
        }


@dataclass(frozen=True, slots=True)
class KeyManifest:
    """An immutable set of entries; equal sets have equal bytes.

    Raises :class:`InputRefused` where one raw key has one role twice or stands under two control
    domains, or where two raw keys have one key id.
    """

    keys: tuple[TrustedKey, ...] = ()

    def __post_init__(self) -> None:
        ordered = tuple(sorted(self.keys, key=lambda entry: (entry.role, entry.public)))
        object.__setattr__(self, "keys", ordered)
        roles: set[tuple[bytes, Role]] = set()
        domains: dict[bytes, str] = {}
        named: dict[str, bytes] = {}
        for entry in ordered:
            if (entry.public, entry.role) in roles:
                raise InputRefused(f"the raw key of {entry.key_id} is twice a {entry.role} key")
            if domains.setdefault(entry.public, entry.control_domain) != entry.control_domain:
                raise InputRefused(
                    f"the raw key of {entry.key_id} stands under two control domains"
                )
            if named.setdefault(entry.key_id, entry.public) != entry.public:
                raise InputRefused(f"two raw keys have the key id {entry.key_id}")
            roles.add((entry.public, entry.role))

    @classmethod
    def parse(cls, raw: bytes) -> Self:
        """Read a manifest; white space and member order are free.

        Raises :class:`DocumentMalformed` with the path of what is wrong, and
        :class:`DocumentTooLarge`.
        """
        document = decode(raw)
        if not isinstance(document, dict) or set(document) != {"manifest", "keys"}:
            raise DocumentMalformed('not an object of exactly "manifest" and "keys"')
        if document["manifest"] != MANIFEST_TYPE:
            raise DocumentMalformed(f"is not {MANIFEST_TYPE}", path="$.manifest")
        items = document["keys"]
        if not isinstance(items, list):
            raise DocumentMalformed("is not a list", path="$.keys")
        keys = tuple(_entry(item, f"$.keys[{index}]") for index, item in enumerate(items))
        try:
            return cls(keys)
        except InputRefused as error:
            raise DocumentMalformed(error.message, path="$.keys") from error

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a manifest file. Raises as :meth:`parse` does, and :class:`InputRefused`."""
        place = Path(path)
        try:
            raw, _ = read_bounded(place, MAX_BYTES)
        except OSError as error:
            raise InputRefused(
                f"the key manifest {place} cannot be read: {error.strerror}"
            ) from error
        if len(raw) > MAX_BYTES:
            raise DocumentTooLarge(f"{place} has more than {MAX_BYTES} bytes")
        return cls.parse(raw)

    def to_bytes(self) -> bytes:
        """The canonical bytes (RFC 8785)."""
        return encode(
            {"manifest": MANIFEST_TYPE, "keys": [entry.document() for entry in self.keys]}
        )

    @property
    def digest(self) -> str:
        """SHA-256 of the canonical bytes, in hex: what two people compare."""
        return digest(self.to_bytes())

    def save(self, path: str | os.PathLike[str]) -> None:
        """Replace a manifest file in one step; readers see the old or the new one, whole.

        Raises :class:`InputRefused` where it cannot be written, or has more than 64 kB and could
        not be loaded again. Concurrent changes are for :func:`enrol`.
        """
        place, raw = Path(path), self.to_bytes()
        draft = place.with_name(f".{place.name}.{secrets.token_hex(8)}.new")
        try:
            write_new(draft, raw, mode=0o644)
            try:
                os.replace(draft, place)
            except OSError:
                draft.unlink()
                raise
            sync_directory(place.parent)
        except OSError as error:
            raise InputRefused(
                f"the key manifest {place} cannot be written: {error.strerror}"
            ) from error

    def add(self, entry: TrustedKey) -> Self:
        """A manifest with one more entry. Raises :class:`InputRefused` as the class does."""
        return type(self)((*self.keys, entry))

    def retire(self, key_id: str, *, at_us: int) -> Self:
        """End the validity of a key in all its roles; what it signed before stays valid.

        An earlier end stays. Raises :class:`KeyNotTrusted` for a key id that is not in the
        manifest, and :class:`InputRefused` for an instant not after the key's beginning.
        """
        return self._each(
            key_id,
            lambda entry: replace(entry, valid_until_us=_earliest(entry.valid_until_us, at_us)),
        )

    def compromise(self, key_id: str, *, from_us: int) -> Self:
        """Mark a key as known to somebody else from an instant on, in all its roles.

        An earlier mark stays. Raises :class:`KeyNotTrusted` for a key id that is not in the
        manifest.
        """
        return self._each(
            key_id,
            lambda entry: replace(
                entry, compromised_from_us=_earliest(entry.compromised_from_us, from_us)
            ),
        )

    def find(self, key_id: str, role: Role) -> TrustedKey:
        """The entry of a key id for a role, with the earliest compromise of its raw key.

        Raises :class:`KeyNotTrusted` for an unknown key id, or a key of other roles only.
        """
        named = self._named(key_id)
        compromised = _earliest(*(entry.compromised_from_us for entry in named))
        for entry in named:
            if entry.role == role:
                return replace(entry, compromised_from_us=compromised)
        raise KeyNotTrusted(
            f"the key {key_id} may not sign as {role}, only as"
            f" {', '.join(entry.role for entry in named)}"
        )

    def _named(self, key_id: str) -> list[TrustedKey]:
        named = [entry for entry in self.keys if entry.key_id == key_id]
        if not named:
            raise KeyNotTrusted(
                f"the key {key_id} is not in the manifest",
                fix="Get the current manifest from whoever issues the documents, by a way that"
                " does not go through the document itself.",
            )
        return named

    def _each(self, key_id: str, change: Callable[[TrustedKey], TrustedKey]) -> Self:
        named = self._named(key_id)
        return type(self)(tuple(change(entry) if entry in named else entry for entry in self.keys))


def enrol(path: str | os.PathLike[str], entry: TrustedKey) -> KeyManifest:
    """Add an entry to a manifest file, which is made where there is none, and return the result.

    Processes that do this at once wait for each other (a lock on ``.<name>.lock`` beside the file).
    A raw key that has its role already stays as it is, so doing it again changes nothing.
    Raises :class:`InputRefused`.
    """
    place = Path(path)
    with _locked(place.with_name(f".{place.name}.lock")):
        manifest = KeyManifest.load(place) if os.path.lexists(place) else KeyManifest()
        known = {(other.public, other.role) for other in manifest.keys}
        if (entry.public, entry.role) not in known:
            manifest = manifest.add(entry)
            manifest.save(place)
        return manifest


@contextmanager
def _locked(place: Path) -> Iterator[None]:
    try:
        descriptor = os.open(place, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise InputRefused(f"{place} cannot be opened: {error.strerror}") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _earliest(*instants: int | None) -> int | None:
    return min((at_us for at_us in instants if at_us is not None), default=None)


def _written(at_us: int | None) -> str | None:
    return None if at_us is None else write_utc(at_us)


def _entry(item: Json, path: str) -> TrustedKey:
    if not isinstance(item, dict):
        raise DocumentMalformed("is not an object", path=path)
    if unknown := sorted(set(item) - _MEMBERS):
        raise DocumentMalformed("is no member of an entry", path=f"{path}.{unknown[0]}")
    if missing := sorted(_MEMBERS - set(item)):
        raise DocumentMalformed("is missing", path=f"{path}.{missing[0]}")
    role = item["role"]
    if not isinstance(role, str) or role not in set(Role):
        raise DocumentMalformed(f"is none of {', '.join(Role)}", path=f"{path}.role")
    domain = item["control_domain"]
    if not isinstance(domain, str) or not domain:
        raise DocumentMalformed("is not a non-empty string", path=f"{path}.control_domain")
    valid_from = _instant(item["valid_from"], f"{path}.valid_from")
    if valid_from is None:
        raise DocumentMalformed("is null", path=f"{path}.valid_from")
    public = _public(item["public"], f"{path}.public")
    if item["key_id"] != key_id_of(public):
        raise DocumentMalformed(
            f"is not the key id of its key, {key_id_of(public)}", path=f"{path}.key_id"
        )
    try:
        return TrustedKey(
            role=Role(role),
            control_domain=domain,
            public=public,
            valid_from_us=valid_from,
            valid_until_us=_instant(item["valid_until"], f"{path}.valid_until"),
            compromised_from_us=_instant(item["compromised_from"], f"{path}.compromised_from"),
        )
    except DocumentMalformed:
        raise
    except InputRefused as error:
        raise DocumentMalformed(error.message, path=path) from error


def _instant(value: Json, path: str) -> int | None:
    if value is None:
        return None
    at_us = read_utc(value) if isinstance(value, str) else None
    if at_us is None:
        raise DocumentMalformed("is not an instant such as 2030-01-01T09:00:00Z", path=path)
    return at_us


def _public(value: Json, path: str) -> bytes:
    try:
        public = base64.b64decode(value, validate=True) if isinstance(value, str) else b""
    except (binascii.Error, ValueError):
        public = b""
    if len(public) != 32 or base64.b64encode(public).decode("ascii") != value:
        raise DocumentMalformed("is not the base64 of 32 raw bytes", path=path)
    return public
