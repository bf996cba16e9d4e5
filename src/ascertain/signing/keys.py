"""Ed25519 signing keys, and the file that one is kept in.

A key file is an unencrypted PKCS #8 PEM with mode 0600. It is made in one step: written in full to
a new file of its own (``O_EXCL``, 0600), synced, and only then given its name by a hard link, which
fails where the name is taken. So no process can see half a key, none can replace a key that another
has made, and of two that race one wins and both end with the winner's key. A crash in between can
leave a file named ``.<name>.<random>.new``: a key that never signed anything, safe to delete.

Sources: RFC 8032 (Ed25519), RFC 8410 and RFC 5958 (its PKCS #8 form).
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from ascertain.errors import InputRefused
from ascertain.signing.disk import read_bounded, sync_directory, write_new

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

PUBLIC_BYTES: Final = 32
SIGNATURE_BYTES: Final = 64
KEY_ID_LENGTH: Final = 16
_KEY_FILE_BYTES_MAX: Final = 4_096
_FIELD: Final = 2**255 - 19
_SMALL_ORDER: Final = frozenset(
    {
        0,
        1,
        _FIELD - 1,
        0x05FC536D880238B13933C6D305ACDFD5F098EFF289F4C345B027B2C28F95E826,
        0x7A03AC9277FDC74EC6CC392CFA53202A0F67100D760B3CBA4FD84D3D706A17C7,
    }
)
"""The y coordinates of the eight points whose order divides 8; anybody can sign under those."""


def key_id_of(public: bytes) -> str:
    """The name of a key: the first 16 hex digits of the SHA-256 of its 32 raw public bytes.

    A name only. Whoever counts signers or looks for duplicates compares the raw key.
    Raises :class:`InputRefused` unless ``public`` has 32 bytes (RFC 8032 section 5.1.5).
    """
    if len(public) != PUBLIC_BYTES:
        raise InputRefused(f"an Ed25519 public key has {PUBLIC_BYTES} bytes, not {len(public)}")
    return hashlib.sha256(public).hexdigest()[:KEY_ID_LENGTH]


def is_sound(public: bytes) -> bool:
    """Whether 32 raw bytes can be somebody's public key.

    No: a y coordinate that is not reduced (RFC 8032 section 5.1.3), and the points of small order.
    A verifier that follows the RFC accepts forged signatures under those, an all-zero placeholder
    among them.
    """
    y = int.from_bytes(public, "little") & ((1 << 255) - 1)
    return len(public) == PUBLIC_BYTES and y < _FIELD and y not in _SMALL_ORDER


def matches(public: bytes, signature: bytes, message: bytes) -> bool:
    """Whether ``signature`` is an Ed25519 signature of ``message`` under a raw public key.

    The algorithm is fixed here; nothing in a document can choose another (RFC 8032 section 5.1.7).
    """
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, message)
    except (InvalidSignature, ValueError):
        return False
    return True


class SigningKey:
    """An Ed25519 private key. Never printed, compared or pickled; ``public`` and ``key_id`` are."""

    __slots__ = ("_private", "key_id", "public")

    def __init__(self, private: Ed25519PrivateKey) -> None:
        """Wrap a key of the ``cryptography`` package.

        Raises :class:`InputRefused` for a key of another algorithm.
        """
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        if not isinstance(private, Ed25519PrivateKey):
            raise InputRefused(f"not an Ed25519 private key: {type(private).__name__}")
        self._private: Final = private
        self.public: Final[bytes] = private.public_key().public_bytes_raw()
        self.key_id: Final[str] = key_id_of(self.public)

    def __repr__(self) -> str:
        return f"SigningKey({self.key_id})"

    def __reduce__(self) -> str | tuple[object, ...]:
        raise TypeError("a signing key is not pickled: load it from its file")

    def sign(self, message: bytes) -> bytes:
        """The 64-byte signature of ``message``; the same every time (RFC 8032 section 5.1.6)."""
        return self._private.sign(message)

    @classmethod
    def generate(cls) -> Self:
        """A new key from the operating system's randomness, kept nowhere."""
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        return cls(Ed25519PrivateKey.generate())

    @classmethod
    def from_seed(cls, seed: bytes) -> Self:
        """The key of a 32-byte seed (RFC 8032 section 5.1.5), for vectors and seeded runs.

        Raises :class:`InputRefused` unless ``seed`` has 32 bytes.
        """
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        if len(seed) != PUBLIC_BYTES:
            raise InputRefused(f"an Ed25519 seed has {PUBLIC_BYTES} bytes, not {len(seed)}")
        return cls(Ed25519PrivateKey.from_private_bytes(seed))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """The key in a file.

        Raises :class:`InputRefused` where the file is missing or unreadable, open to everybody or
        writable by its group, too large, or anything but an unencrypted Ed25519 PKCS #8 PEM.
        """
        return cls(_parse(_read_private(Path(path)), Path(path)))

    @classmethod
    def load_or_create(cls, path: str | os.PathLike[str]) -> tuple[Self, bool]:
        """The key in a file, made first where there is none. True: it was made by this call.

        However many processes race, they all return the same key and one of them True. The key is
        durable before it is returned. Raises :class:`InputRefused` as :meth:`load` does, or where
        the file cannot be made.
        """
        place = Path(path)
        created = False
        if not os.path.lexists(place):
            try:
                created = _create(place, cls.generate()._pem())
            except OSError as error:
                raise InputRefused(
                    f"the signing key {place} could not be created: {error.strerror}",
                    fix="Give a directory that exists, is writable, and whose filesystem has hard"
                    " links; or create the key elsewhere and copy it there with mode 0600.",
                ) from error
        key = cls.load(place)
        # Whoever lost the race may be here before the winner has synced the directory. On a
        # read-only place there is nothing left to sync.
        with contextlib.suppress(OSError):
            sync_directory(place.parent)
        return key, created

    def _pem(self) -> bytes:
        from cryptography.hazmat.primitives import serialization

        return self._private.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )


def _create(place: Path, pem: bytes) -> bool:
    """Give ``pem`` the name ``place``; False where the name was taken meanwhile."""
    draft = place.with_name(f".{place.name}.{secrets.token_hex(8)}.new")
    write_new(draft, pem, mode=0o600)
    try:
        os.link(draft, place)
    except FileExistsError:
        return False
    finally:
        draft.unlink()
    sync_directory(place.parent)
    return True


def _read_private(place: Path) -> bytes:
    try:
        pem, found = read_bounded(place, _KEY_FILE_BYTES_MAX)
    except OSError as error:
        raise InputRefused(f"the signing key {place} cannot be read: {error.strerror}") from error
    if found.st_mode & (stat.S_IRWXO | stat.S_IWGRP | stat.S_IXGRP):
        raise InputRefused(
            f"the signing key {place} has mode {stat.S_IMODE(found.st_mode):04o}:"
            " others than its owner can use it",
            fix="If nobody else can have read it: chmod 600. Otherwise make a new key, and enter"
            " compromised_from for this one in the key manifest.",
        )
    if len(pem) > _KEY_FILE_BYTES_MAX:
        raise InputRefused(f"{place} is too large to be a signing key")
    return pem


def _parse(pem: bytes, place: Path) -> Ed25519PrivateKey:
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        private = load_pem_private_key(pem, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        # The parser's own words may quote the file: they are not passed on.
        raise InputRefused(
            f"{place} is not an unencrypted PKCS #8 PEM private key",
            fix="Restore it from where it is kept. A new key needs an entry of its own in the"
            " key manifest; what the old one signed stays checkable by its public key.",
        ) from error
    if not isinstance(private, Ed25519PrivateKey):
        raise InputRefused(f"{place} holds a key of another algorithm; only Ed25519 is taken")
    return private
