"""The keyring: the keys of a journal's fingerprints, beside it, shared by its workers.

A fingerprint is keyed, so that the digest of an amount does not leak it (DESIGN 2). Old
keys stay, to compare with; without them nobody can tell whether an id is reused.
"""

from __future__ import annotations

import base64
import binascii
import os
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from ascertain.core.codec import FingerprintKey, Json, decode, encode
from ascertain.errors import DocumentMalformed, InputRefused, JournalUnavailable, KeyringMissing

SECRET_BYTES = 32


@dataclass(frozen=True, slots=True)
class Keyring:
    """The keys: the one in use, and every one that is known, by id."""

    path: Path
    active: FingerprintKey
    secrets: dict[str, bytes]

    @classmethod
    def load_or_create(cls, path: Path, *, must_exist: bool) -> Keyring:
        """Read the file, or make it with a first key; two processes agree on one.

        ``must_exist``: the journal has records, so a new key would compare with none of
        them. Raises KeyringMissing, DocumentMalformed or JournalUnavailable.
        """
        try:
            raw = path.read_bytes()
        except FileNotFoundError:
            if must_exist:
                raise KeyringMissing(
                    f"the keyring {path} is gone, and the journal has records",
                    fix="Put it back from a backup: without it a reused action id cannot be told "
                    "from a repeated one.",
                ) from None
            name = f"k{secrets.token_hex(6)}"
            first = cls(
                path,
                FingerprintKey(name, secrets.token_bytes(SECRET_BYTES)),
                {},
            )
            _write_once(path, first._bytes({name: first.active.secret}, name))
            raw = path.read_bytes()
        except OSError as error:
            raise _unusable(path, error) from None
        return cls._parse(path, raw)

    @classmethod
    def none(cls, path: Path) -> Keyring:
        """Stands for keys that are not there: it compares with nothing that was recorded."""
        return cls(path, FingerprintKey("none", secrets.token_bytes(SECRET_BYTES)), {})

    @classmethod
    def _parse(cls, path: Path, raw: bytes) -> Keyring:
        try:
            found = cast(dict[str, Json], decode(raw))
            listed = cast(dict[str, str], found["keys"])
            known = {name: base64.b64decode(text, validate=True) for name, text in listed.items()}
            active = cast(str, found["active"])
            return cls(path, FingerprintKey(active, known[active]), known)
        except (InputRefused, KeyError, TypeError, AttributeError, binascii.Error) as error:
            raise DocumentMalformed(
                f"{path} is not a keyring: {type(error).__name__}",
                fix="Put the journal's own keyring.json back.",
            ) from None

    def rotate(self) -> Keyring:
        """A new key for what comes; the old ones stay. The file is replaced at once."""
        name = f"k{secrets.token_hex(6)}"
        new = {**self.secrets, name: secrets.token_bytes(SECRET_BYTES)}
        place = self.path.with_suffix(".new")
        place.unlink(missing_ok=True)
        _write(place, self._bytes(new, name))
        os.replace(place, self.path)
        _sync_folder(self.path.parent)
        return Keyring._parse(self.path, self.path.read_bytes())

    @staticmethod
    def _bytes(known: dict[str, bytes], active: str) -> bytes:
        listed: dict[str, Json] = {
            name: base64.b64encode(secret).decode() for name, secret in known.items()
        }
        return encode({"active": active, "keys": listed})


def _unusable(path: Path, error: OSError) -> JournalUnavailable:
    return JournalUnavailable(
        f"{path} cannot be used: {error.strerror}",
        fix="Check the directory, its rights and the space on its disk.",
    )


def _write(path: Path, raw: bytes) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        os.write(handle, raw)
        os.fsync(handle)
    finally:
        os.close(handle)


def _write_once(path: Path, raw: bytes) -> None:
    """Make the file whole or not at all; whoever is second finds the first one's."""
    place = path.with_name(f"{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    try:
        _write(place, raw)
        try:
            os.link(place, path)
        except FileExistsError:
            pass
        finally:
            place.unlink()
        _sync_folder(path.parent)
    except OSError as error:
        raise _unusable(path, error) from None


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
