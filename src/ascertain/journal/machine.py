"""What this machine is, and on what a file lies: as far as it bears on proof of death."""

from __future__ import annotations

import os
import re
from pathlib import Path

__all__ = ["boot", "file_system", "is_local", "machine"]

# File systems on which a lock that is free is free everywhere. All others may be shared with
# machines whose locks are not seen here, so nothing is concluded on them.
_LOCAL = frozenset(
    {"bcachefs", "btrfs", "ext2", "ext3", "ext4", "f2fs", "jfs", "nilfs2", "overlay", "ramfs"}
    | {"reiserfs", "rootfs", "tmpfs", "xfs", "zfs"}
)
_IN_A_CONTAINER = ("/.dockerenv", "/run/.containerenv", "/run/systemd/container")
_ESCAPED = re.compile(r"\\([0-7]{3})")


def machine() -> str | None:
    """This machine's own name, the same after a restart and on no other; None if it has none.

    In a container there is none: an image may carry a machine-id, and a container of the same
    host name may be started on another machine while the first still runs.
    """
    if any(Path(path).exists() for path in _IN_A_CONTAINER):
        return None
    if "KUBERNETES_SERVICE_HOST" in os.environ or "container" in os.environ:
        return None
    found = _read("/etc/machine-id")
    return found if re.fullmatch(r"[0-9a-f]{32}", found) else None


def boot() -> str:
    """This start of this kernel, "" where the system does not say."""
    return _read("/proc/sys/kernel/random/boot_id")


def file_system(path: Path) -> str:
    """The type of the file system that ``path`` lies on, "" if that cannot be told."""
    where = os.path.realpath(path)
    best, kind = "", ""
    for line in _read("/proc/self/mountinfo").splitlines():
        left, _, right = line.partition(" - ")
        fields, kinds = left.split(" "), right.split(" ")
        if len(fields) < 5 or not kinds[0]:
            continue
        mount = _ESCAPED.sub(lambda found: chr(int(found[1], 8)), fields[4])
        inside = where == mount or where.startswith(mount.rstrip("/") + "/")
        if inside and len(mount) >= len(best):  # the last of equals lies on top
            best, kind = mount, kinds[0]
    return kind


def is_local(kind: str) -> bool:
    """Is a lock on a file system of that type seen by everybody who could hold it?"""
    return kind in _LOCAL


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="surrogateescape").strip()
    except OSError:
        return ""
