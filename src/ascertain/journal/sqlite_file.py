"""Opening a journal's SQLite file: pragmas, migrations and refusals (DESIGN 10)."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from ascertain.errors import (
    ChainBroken,
    IncarnationChanged,
    JournalError,
    JournalUnavailable,
    NotAJournal,
    SchemaTooNew,
)

from .sidecar import Sidecar
from .writer import unavailable

APPLICATION_ID = 0x41736372
"""Marks the file as a journal of ours (``PRAGMA application_id``)."""

BUSY_MS = 30_000


def connect(path: Path, *, read_only: bool) -> sqlite3.Connection:
    """A connection as the writer and the reader want it. Raises JournalError kinds."""
    mode = "ro" if read_only else "rw"
    try:
        conn = sqlite3.connect(
            f"{path.absolute().as_uri()}?mode={mode}",
            uri=True,
            isolation_level=None,
            check_same_thread=False,
            timeout=BUSY_MS / 1000,
            cached_statements=256,
        )
        conn.execute("PRAGMA synchronous = FULL")
        conn.execute("PRAGMA cache_size = -16000")
    except sqlite3.Error as error:
        raise _refusal(path, error, read_only=read_only) from error
    return conn


def prepare(path: Path, *, create: bool, read_only: bool, reconciling: bool = False) -> Sidecar:
    """Create or check the file and what stands beside it; the latter is returned.

    Where it is only read, or reconciled, another incarnation is no error but a doubt: the
    sidecar is then not complete.

    Raises NotAJournal, SchemaTooNew, KeyringMissing, IncarnationChanged or
    JournalUnavailable. Nothing is changed when it raises, but for a new, empty file.
    """
    fresh = _is_fresh(path)
    if fresh and (read_only or not create):
        raise JournalUnavailable(
            f"there is no journal at {path}",
            fix="Check the path; `ascertain.open(path)` and the first action make a new one.",
        )
    if fresh:
        _make(path)
    conn = connect(path, read_only=read_only)
    try:
        incarnation = _check(conn, path, read_only=read_only)
        used = conn.execute("SELECT 1 FROM record LIMIT 1").fetchone()
        sidecar = Sidecar(
            path,
            incarnation,
            used=used is not None,
            read_only=read_only,
            tolerant=read_only or reconciling,
        )
        objection = _compare(conn, path, sidecar, used=used is not None)
        if objection is not None:
            sidecar.doubt(objection)
    except sqlite3.Error as error:
        raise _refusal(path, error, read_only=read_only) from error
    finally:
        conn.close()
    return sidecar


def _is_fresh(path: Path) -> bool:
    """Is there no file yet, or an empty one? Raises NotAJournal, JournalUnavailable."""
    try:
        if path.is_dir():
            raise NotAJournal(f"{path} is a directory", fix="Name the journal's file.")
        return not path.exists() or path.stat().st_size == 0
    except OSError as error:
        raise JournalUnavailable(
            f"{path} cannot be looked at: {error.strerror}", fix="Check the path and its rights."
        ) from None


def _refusal(path: Path, error: sqlite3.Error, *, read_only: bool) -> JournalError:
    """Why the file could not be opened. Where it is only read, mostly its directory is why."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code == sqlite3.SQLITE_NOTADB:
        return _not_ours(path)
    if read_only and code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN):
        return JournalUnavailable(
            f"{path} cannot be read here: this user may not read it, or not write beside it",
            fix="SQLite keeps the locks of those who read in a file beside the journal. Run this "
            f"as the journal's user, or copy {path.name} and, where it is there, {path.name}-wal "
            "to a directory of yours and read the copy.",
        )
    return unavailable(error)


def _make(path: Path) -> None:
    """A new, empty file; the directory must be there."""
    try:
        conn = sqlite3.connect(path, isolation_level=None, timeout=BUSY_MS / 1000)
    except sqlite3.Error as error:
        raise unavailable(error) from error
    try:
        # EXTRA makes the directory entry durable before the log takes over: with WAL alone
        # the schema can be lost under a strict directory model.
        conn.execute("PRAGMA synchronous = EXTRA")
        conn.execute("BEGIN EXCLUSIVE")
        known = conn.execute("PRAGMA user_version").fetchone()[0]
        if not known:
            conn.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        conn.execute("COMMIT")
        conn.execute("PRAGMA journal_mode = WAL")
    except sqlite3.Error as error:
        raise unavailable(error) from error
    finally:
        conn.close()


def migrations() -> list[tuple[int, str]]:
    """Numbered SQL files, in order: (number, text)."""
    from importlib import resources

    folder = resources.files("ascertain.journal") / "sql"
    files = sorted(item.name for item in folder.iterdir() if item.name.endswith(".sql"))
    return [(int(name[:4]), (folder / name).read_text(encoding="utf-8")) for name in files]


def _check(conn: sqlite3.Connection, path: Path, *, read_only: bool) -> str:
    """Is it a journal of ours, not newer than this code? Migrate it; its incarnation."""
    try:
        mark = conn.execute("PRAGMA application_id").fetchone()[0]
        version = conn.execute("PRAGMA user_version").fetchone()[0]
    except sqlite3.DatabaseError as error:
        if error.sqlite_errorcode != sqlite3.SQLITE_NOTADB:
            raise
        raise _not_ours(path) from None
    if mark != APPLICATION_ID:
        raise _not_ours(path)
    known = migrations()
    newest = known[-1][0]
    if version > newest:
        raise SchemaTooNew(
            f"{path} has schema {version}; this version knows {newest}",
            fix="Upgrade ascertain; nothing was read or changed.",
        )
    if version < newest and read_only:
        raise JournalUnavailable(
            f"{path} has schema {version} and needs {newest}",
            fix="Open it once for writing, so that it is migrated.",
        )
    for number, text in known[version:]:
        _migrate(conn, number, text)
    return str(conn.execute("SELECT value FROM meta WHERE name = 'incarnation'").fetchone()[0])


def _migrate(conn: sqlite3.Connection, number: int, text: str) -> None:
    """One migration in one transaction; another process may have been faster."""
    conn.execute("BEGIN IMMEDIATE")
    try:
        if conn.execute("PRAGMA user_version").fetchone()[0] < number:
            for statement in _statements(text):
                conn.execute(statement)
            conn.execute(f"PRAGMA user_version = {number}")
            conn.execute(
                "INSERT OR IGNORE INTO meta VALUES ('incarnation', lower(hex(randomblob(16))))"
            )
        conn.execute("COMMIT")
    except BaseException:
        conn.execute("ROLLBACK")
        raise


def _statements(text: str) -> list[str]:
    """The statements of a script; a trigger's body holds semicolons of its own."""
    found: list[str] = []
    rest = ""
    for line in text.splitlines(keepends=True):
        rest += line
        if sqlite3.complete_statement(rest):
            found.append(rest)
            rest = ""
    return found


def _not_ours(path: Path) -> NotAJournal:
    return NotAJournal(
        f"{path} is not a journal",
        fix="Name a journal's file, or a path where no file is yet.",
    )


def _compare(
    conn: sqlite3.Connection, path: Path, sidecar: Sidecar, *, used: bool
) -> IncarnationChanged | ChainBroken | None:
    """Why the file is not the one that the witness saw, if it is not (DESIGN 10)."""
    seen = sidecar.witnessed
    fix = (
        "It is a copy, or was restored. Find out at the providers what happened since, then run "
        f"`ascertain journal reconcile --journal {path} --operator … --reason …`. Reading works: "
        f"`ascertain status --journal {path}`."
    )
    if seen is None:
        if not used or sidecar.doubts:
            return None
        return IncarnationChanged(f"{path} has records, and its witness is gone", fix=fix)
    if seen.inode != path.stat().st_ino or seen.incarnation != sidecar.incarnation:
        return IncarnationChanged(f"{path} is not the file that was written here last", fix=fix)
    if not seen.position:
        return None
    place = (seen.lineage << 20) + seen.position
    found = conn.execute("SELECT body FROM record WHERE number = ?", (place,)).fetchone()
    if found is None:
        return IncarnationChanged(
            f"{path} lacks record {seen.position} of lineage {seen.lineage}, which was durable",
            fix=fix,
        )
    if not sidecar.matches(bytes(found[0])):
        return ChainBroken(
            f"record {seen.position} of lineage {seen.lineage} in {path} was altered",
            fix="Run `ascertain journal check` and restore a checked backup.",
        )
    return None
