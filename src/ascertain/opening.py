"""`ascertain.open`: from a path or URL to an open journal with its policy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ascertain.authority import Authority
from ascertain.errors import DeclarationRefused, JournalUnavailable
from ascertain.executor import LockingExecutor, ReadingExecutor
from ascertain.journal.sqlite import SqliteJournal
from ascertain.opened import Ascertain
from ascertain.ports import Clock, Ids, Ports, Seam
from ascertain.presented import Keys
from ascertain.runtime import LEASE, Runtime


def path_of(url: str | Path) -> Path:
    """The file that a path or ``sqlite:`` URL names. Raises JournalUnavailable for others."""
    given: object = url
    text = str(given) if isinstance(given, str | Path) else ""
    if not text:
        raise JournalUnavailable(
            f"{url!r} names no journal", fix="Give a path to a SQLite file, or sqlite:///path."
        )
    scheme, found, rest = text.partition("://")
    if not found:
        return Path(text.removeprefix("sqlite:"))
    if scheme == "sqlite" and rest:
        return Path(rest)
    raise JournalUnavailable(
        f"{scheme}:// journals are not there yet",
        fix="Give a path to a SQLite file, or sqlite:///path.",
    )


def open_journal(
    url: str | Path,
    *,
    policy: Authority,
    read_only: bool = False,
    create: bool = True,
    lease: int = LEASE,
    clock: Clock | None = None,
    ids: Ids | None = None,
    seam: Seam | None = None,
) -> Ascertain:
    """Open a journal, or make a new one where no file is.

    ``policy``: who decides; there is no implicit allow. ``lease``: microseconds for which a
    claim drives an action. ``clock``, ``ids``, ``seam``: the ports, for tests and explorers.
    ``read_only``: another incarnation is opened too; its `sources` are then not complete.

    Raises DeclarationRefused without a policy; NotAJournal, SchemaTooNew, KeyringMissing,
    IncarnationChanged or JournalUnavailable where the file cannot be used.
    """
    if not hasattr(policy, "decide") or not hasattr(policy, "grants"):
        raise DeclarationRefused(
            "the journal has no policy",
            fix="Write policy=limits({'amount_pence': 200_000}), or an Authority of your own.",
        )
    path = path_of(url)
    journal = SqliteJournal(path, create=create, read_only=read_only)
    ring = journal.sidecar.keyring
    locks = journal.sidecar.locks
    executor: Any = ReadingExecutor(locks) if read_only else LockingExecutor(locks)
    runtime = Runtime(
        journal,
        Ports(journal, clock=clock, ids=ids, seam=seam),
        policy,
        Keys(ring.active, ring.secrets),
        executor,
        lease=lease,
    )
    if not read_only:
        from ascertain.certify import Issuer

        runtime.issuer = Issuer(journal.sidecar.folder)
    return Ascertain(runtime)
