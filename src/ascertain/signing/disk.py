"""Small files that keys and manifests are kept in: written whole or not at all, read with a cap."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path


def write_new(place: Path, content: bytes, *, mode: int) -> None:
    """Write and sync a file that must not exist yet. Raises :class:`OSError`; leaves no part."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
    descriptor = os.open(place, flags, mode)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            os.fchmod(descriptor, mode)
            stream.write(content)
            stream.flush()
            os.fsync(descriptor)
    except BaseException:
        place.unlink()
        raise


def sync_directory(place: Path) -> None:
    """Make the names in a directory durable. Raises :class:`OSError`."""
    descriptor = os.open(place, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read_bounded(place: Path, cap: int) -> tuple[bytes, os.stat_result]:
    """The bytes of a regular file, at most ``cap + 1`` of them, and what it is.

    Raises :class:`OSError`, also for a directory, a pipe or a device: those are never waited for.
    """
    descriptor = os.open(place, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file")
        with os.fdopen(descriptor, "rb", closefd=False) as stream:
            return stream.read(cap + 1), found
    finally:
        os.close(descriptor)
