"""The witness: how far a journal has got, kept outside its database (DESIGN 6, 10).

It is written after each commit without waiting for the disk, so it may lag behind the
database after a power cut and is never ahead of what was durable. A database that is
behind it was restored; another inode, or another incarnation, is a copy.
"""

from __future__ import annotations

import os
import struct
import time
import zlib
from itertools import count
from pathlib import Path
from typing import NamedTuple

from ascertain.errors import IncarnationChanged, JournalError, JournalUnavailable

_SLOT = struct.Struct("<8sQQQQ32s32s")
_CRC = struct.Struct("<I")
_SIZE = _SLOT.size + _CRC.size
_MARK = b"ascwit01"
_STRIDE = 256
_NAME = 32  # bytes of an incarnation, from _NAME_AT on
_NAME_AT = struct.calcsize("<8sQQQQ")
_LOOKS = 5


class Witnessed(NamedTuple):
    """What was seen last: the record at ``position`` of ``lineage``, with its ``digest``.

    ``turn`` grows with each write, in every process (nanoseconds, or one more). ``inode``:
    of the database file. ``position`` 0: none yet.
    """

    turn: int
    inode: int
    lineage: int
    position: int
    incarnation: str
    digest: bytes


class Witness:
    """The file: two slots, written in turn, so that one of them is always whole."""

    def __init__(self, path: Path, handle: int) -> None:
        self._path = path
        self._handle = handle
        self._seen: Witnessed | None = None
        self._writes = count()

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
        for _ in range(_LOOKS):  # two processes may be in the middle of writing a slot each
            raw = os.pread(self._handle, 2 * _STRIDE, 0)
            found = [_unpack(raw[start : start + _SIZE]) for start in (0, _STRIDE)]
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
        """Start to witness an incarnation, from no record on. Durable when it returns.

        What stands there, and is another incarnation's or no witness, is written over.
        """
        if len(incarnation.encode()) > _NAME:
            raise JournalError(
                f"the incarnation {incarnation!r} is longer than {_NAME} bytes",
                fix="Name it with 32 hexadecimal digits.",
            )
        try:
            seen = self.read()
        except JournalError:
            os.ftruncate(self._handle, 0)
            seen = None
        turn = max(0 if seen is None else seen.turn + 1, time.time_ns())
        for more in (0, 1):  # both slots, so that a torn write never brings the old one back
            seen = Witnessed(turn + more, inode, 0, 0, incarnation, bytes(32))
            self._put(seen, more * _STRIDE)
        os.fsync(self._handle)
        folder = os.open(self._path.parent, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def update(self, lineage: int, position: int, digest: bytes) -> None:
        """See a record that is durable now.

        Processes do not wait for each other here: whichever record is seen last, a journal
        that lacks it was restored. The turns are times, so that what one process sees never
        stands behind an old record of another's. Threads may call it at once.

        Raises:
            IncarnationChanged: another process has begun a new incarnation since.
        """
        seen = self._seen or self.read()
        if seen is None:
            return
        turn = max(seen.turn + 1, time.time_ns())
        place = next(self._writes) % 2 * _STRIDE
        name = os.pread(self._handle, _NAME, _STRIDE - place + _NAME_AT)  # in the other slot
        if name.strip(b"\0") and name.rstrip(b"\0") != seen.incarnation.encode():
            raise IncarnationChanged(
                "the journal was reconciled, or put back, while this process had it open",
                fix="Stop this process, find out what it did last, and open the journal again.",
            )
        self._put(Witnessed(turn, seen.inode, lineage, position, seen.incarnation, digest), place)

    def _put(self, seen: Witnessed, place: int) -> None:
        body = _SLOT.pack(
            _MARK,
            seen.turn,
            seen.inode,
            seen.lineage,
            seen.position,
            seen.incarnation.encode(),
            seen.digest,
        )
        os.pwrite(self._handle, body + _CRC.pack(zlib.crc32(body)), place)
        self._seen = seen

    def close(self) -> None:
        """Release the file."""
        os.close(self._handle)


def _unpack(raw: bytes) -> Witnessed | None:
    if len(raw) != _SIZE or zlib.crc32(raw[: _SLOT.size]) != _CRC.unpack(raw[_SLOT.size :])[0]:
        return None
    mark, turn, inode, lineage, position, incarnation, digest = _SLOT.unpack(raw[: _SLOT.size])
    if mark != _MARK:
        return None
    return Witnessed(turn, inode, lineage, position, incarnation.rstrip(b"\0").decode(), digest)
