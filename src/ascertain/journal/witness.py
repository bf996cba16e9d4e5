"""The witness: how far a journal has got, kept outside its database (DESIGN 6, 10).

It is written after each commit without waiting for the disk, so it may lag behind the
database after a power cut and is never ahead of what was durable. A database that is
behind it was restored; another inode, or another incarnation, is a copy.
"""

from __future__ import annotations

import fcntl
import os
import struct
import zlib
from pathlib import Path
from typing import NamedTuple

from ascertain.errors import JournalError, JournalUnavailable

_SLOT = struct.Struct("<8sQQQ32s32sI")
_MARK = b"ascwit01"
_STRIDE = 128


class Witnessed(NamedTuple):
    """What was seen last. ``turn`` counts the writes; ``digest``: of record ``sequence``."""

    turn: int
    inode: int
    sequence: int
    incarnation: str
    digest: bytes


class Witness:
    """The file: two slots, written in turn, so that one of them is always whole."""

    def __init__(self, path: Path, handle: int) -> None:
        self._path = path
        self._handle = handle

    @classmethod
    def open(cls, path: Path, *, read_only: bool = False) -> Witness:
        """Open or make it. Raises JournalUnavailable."""
        flags = os.O_RDONLY if read_only else os.O_RDWR | os.O_CREAT
        try:
            return cls(path, os.open(path, flags | os.O_CLOEXEC, 0o600))
        except OSError as error:
            raise JournalUnavailable(
                f"{path} cannot be opened: {error.strerror}",
                fix="Make the journal's folder writable for this user.",
            ) from None

    def read(self) -> Witnessed | None:
        """What it saw last, None if it is new. Raises JournalError if it is neither."""
        raw = os.pread(self._handle, 2 * _STRIDE, 0)
        found = [_unpack(raw[start : start + _SLOT.size]) for start in (0, _STRIDE)]
        whole = [item for item in found if item is not None]
        if whole:
            return max(whole, key=lambda item: item.turn)
        if not raw.strip(b"\0"):
            return None
        raise JournalError(
            f"{self._path} is not a witness",
            fix="Find out whether the journal is whole (`ascertain journal check`), then run "
            "`ascertain journal reconcile`.",
        )

    def begin(self, incarnation: str, inode: int) -> None:
        """Start to witness an incarnation, from no record on."""
        fcntl.flock(self._handle, fcntl.LOCK_EX)
        try:
            seen = self.read()
            turn = 1 if seen is None else seen.turn + 1
            self._put(Witnessed(turn, inode, 0, incarnation, bytes(32)))
        finally:
            fcntl.flock(self._handle, fcntl.LOCK_UN)

    def update(self, sequence: int, digest: bytes) -> None:
        """See record ``sequence``; a smaller one than was seen is not news."""
        fcntl.flock(self._handle, fcntl.LOCK_EX)
        try:
            seen = self.read()
            if seen is not None and sequence > seen.sequence:
                news = seen._replace(turn=seen.turn + 1, sequence=sequence, digest=digest)
                self._put(news)
        finally:
            fcntl.flock(self._handle, fcntl.LOCK_UN)

    def _put(self, seen: Witnessed) -> None:
        body = _SLOT.pack(
            _MARK, seen.turn, seen.inode, seen.sequence, seen.incarnation.encode(), seen.digest, 0
        )[:-4]
        raw = body + struct.pack("<I", zlib.crc32(body))
        os.pwrite(self._handle, raw, (seen.turn % 2) * _STRIDE)

    def close(self) -> None:
        """Release the file."""
        os.close(self._handle)


def _unpack(raw: bytes) -> Witnessed | None:
    if len(raw) != _SLOT.size or zlib.crc32(raw[:-4]) != struct.unpack("<I", raw[-4:])[0]:
        return None
    mark, turn, inode, sequence, incarnation, digest, _ = _SLOT.unpack(raw)
    if mark != _MARK:
        return None
    return Witnessed(turn, inode, sequence, incarnation.rstrip(b"\0").decode(), digest)
