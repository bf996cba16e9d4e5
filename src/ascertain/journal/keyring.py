"""The keyring: the keys of a journal's fingerprints, beside it, shared by its workers.

A fingerprint is keyed, so that the digest of an amount does not leak it (DESIGN 2). Old keys
stay, to compare with; without them nobody can tell whether an id is reused. The file is always
whole: it is written beside its place and then linked or moved there.
"""

from __future__ import annotations

import base64
import contextlib
import fcntl
import os
import secrets as chance
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from ascertain.core.codec import FingerprintKey, Json, decode, encode
from ascertain.errors import DocumentMalformed, InputRefused, JournalUnavailable, KeyringMissing

__all__ = ["SECRET_BYTES", "Keyring"]

SECRET_BYTES = 32
"""The length of each key."""


@dataclass(frozen=True, slots=True)
class Keyring:
    """The keys: the one in use, and every one that is known, by id.

    Attributes:
        path: the file, readable by its owner alone.
        active: what new fingerprints are made with.
        secrets: what old ones are compared with. A key that another process has added since is
            found too: the file is read again for an id that is not known.
    """

    path: Path
    active: FingerprintKey
    secrets: Mapping[str, bytes] = field(repr=False)

    @classmethod
    def load_or_create(cls, path: Path, *, must_exist: bool) -> Keyring:
        """Read the file, or make it with a first key; processes that race agree on one.

        Args:
            path: the file.
            must_exist: the journal has records, so a new key would compare with none of them.

        Raises:
            KeyringMissing: it must exist and does not.
            DocumentMalformed: it is not a keyring.
            JournalUnavailable: the file system refuses.
        """
        try:
            try:
                return cls._parse(path, path.read_bytes())
            except FileNotFoundError:
                if must_exist:
                    raise _missing(path) from None
            name, secret = _new_key()
            with _written(path, _text({name: secret}, name)) as new:
                with contextlib.suppress(FileExistsError):  # whoever is second finds the first's
                    os.link(new, path)
                new.unlink()
            return cls._parse(path, path.read_bytes())
        except OSError as error:
            raise _unusable(path, error) from error

    @classmethod
    def none(cls, path: Path) -> Keyring:
        """Stands for keys that are not there: it compares with nothing that was recorded."""
        return cls(path, FingerprintKey("none", chance.token_bytes(SECRET_BYTES)), {})

    def rotate(self) -> Keyring:
        """Add a key and use it from now on; the old ones stay. Other processes lose none of theirs.

        Returns:
            The keyring as it stands in the file now.

        Raises:
            KeyringMissing, DocumentMalformed, JournalUnavailable: as `load_or_create`.
        """
        try:
            with _alone_with(self.path) as raw:
                name, secret = _new_key()
                known = {**_read(self.path, raw)[1], name: secret}
                with _written(self.path, _text(known, name)) as new:
                    os.replace(new, self.path)
            return Keyring._parse(self.path, self.path.read_bytes())
        except FileNotFoundError:
            raise _missing(self.path) from None
        except OSError as error:
            raise _unusable(self.path, error) from error

    @classmethod
    def _parse(cls, path: Path, raw: bytes) -> Keyring:
        active, known = _read(path, raw)
        return cls(path, FingerprintKey(active, known[active]), _Secrets(path, known))


class _Secrets(Mapping[str, bytes]):
    """Key ids to secrets. Reads the file again for an id that it does not know."""

    def __init__(self, path: Path, known: dict[str, bytes]) -> None:
        self._path = path
        self._known = known

    def __getitem__(self, key_id: str) -> bytes:
        if key_id not in self._known:
            with contextlib.suppress(OSError, InputRefused):  # then it stays unknown
                self._known = {**self._known, **_read(self._path, self._path.read_bytes())[1]}
        return self._known[key_id]

    def __iter__(self) -> Iterator[str]:
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)


def _read(path: Path, raw: bytes) -> tuple[str, dict[str, bytes]]:
    """The id of the key in use, and all keys. Raises DocumentMalformed."""
    try:
        found = cast(dict[str, Json], decode(raw))
        listed = cast(dict[str, str], found["keys"])
        known = {name: base64.b64decode(text, validate=True) for name, text in listed.items()}
        active = cast(str, found["active"])
        if set(found) != {"active", "keys"} or active not in known:
            raise ValueError("not the members of a keyring")
        for name, secret in known.items():
            FingerprintKey(name, secret)
            if len(secret) != SECRET_BYTES:
                raise ValueError("a key of another length")
    except (InputRefused, KeyError, TypeError, AttributeError, ValueError):
        raise DocumentMalformed(
            f"{path} is not a keyring",
            fix="Put the journal's own keyring.json back from a backup. Do not delete it: what "
            "was recorded with its keys could not be compared any more.",
        ) from None  # the cause could show a secret
    return active, known


def _new_key() -> tuple[str, bytes]:
    return f"k{chance.token_hex(6)}", chance.token_bytes(SECRET_BYTES)


def _text(known: dict[str, bytes], active: str) -> bytes:
    listed: dict[str, Json] = {
        name: base64.b64encode(secret).decode() for name, secret in known.items()
    }
    return encode({"active": active, "keys": listed})


@contextlib.contextmanager
def _written(path: Path, raw: bytes) -> Iterator[Path]:
    """A new file beside ``path``, durable; the folder is made durable after the body."""
    new = path.with_name(f".{path.name}.{chance.token_hex(8)}.new")
    try:
        with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as out:
            out.write(raw)
            out.flush()
            os.fsync(out.fileno())
        yield new
    finally:
        new.unlink(missing_ok=True)
    folder = os.open(path.parent, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


@contextlib.contextmanager
def _alone_with(path: Path) -> Iterator[bytes]:
    """The file's content, while no other process replaces it."""
    while True:
        with path.open("rb") as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            if os.path.samestat(os.fstat(held.fileno()), path.stat()):
                yield held.read()
                return  # another's file may stand there now: then wait for that one


def _missing(path: Path) -> KeyringMissing:
    return KeyringMissing(
        f"the keyring {path} is gone, and the journal has records",
        fix="Put it back from a backup: without it a reused action id cannot be told from a "
        "repeated one.",
    )


def _unusable(path: Path, error: OSError) -> JournalUnavailable:
    return JournalUnavailable(
        f"{path} cannot be used: {error.strerror or error}",
        fix="Check the directory, its rights and the space on its disk.",
    )
