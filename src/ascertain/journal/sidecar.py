"""What stands beside a journal's file, in the folder ``<path>.ascertain`` (DESIGN 2, 6, 10).

``keyring.json``  the keys of its fingerprints, shared by its workers
``witness``       how far the journal has got, so that a restored copy is recognised
``locks/``        one lock for each executor: the proof that it is gone
``signing.pem``, ``manifest.json``  made by `ascertain.certify`
"""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

from ascertain.errors import (
    IncarnationChanged,
    JournalError,
    JournalUnavailable,
    KeyringMissing,
)

from .keyring import Keyring
from .witness import Witness, Witnessed


class Sidecar:
    """The folder of one journal. ``used``: the journal has records already.

    ``tolerant``: what is wrong with the witness becomes a doubt. ``read_only``: nothing is
    made, and missing keys are a doubt too. With a doubt the journal is not `complete`: that
    a record is missing proves nothing.

    Raises KeyringMissing where its keys are gone, JournalUnavailable where the folder
    cannot be made.
    """

    def __init__(
        self,
        path: Path,
        incarnation: str,
        *,
        used: bool,
        read_only: bool,
        tolerant: bool = False,
    ) -> None:
        self.folder = path.with_name(path.name + ".ascertain")
        self.incarnation = incarnation
        self.doubts: list[JournalError] = []
        self._path = path
        self._tolerant = tolerant
        if read_only and not self.folder.exists():
            self.doubt(
                IncarnationChanged(
                    f"{path} is a copy: the folder {self.folder.name} is not beside it",
                    fix="Reading works. To write to it, put the folder there too, and reconcile.",
                )
            )
        if not (read_only or used):
            self._make_folder()
        self.keyring = self._keys(must_exist=used or read_only, read_only=read_only)
        if used and not read_only:
            self._make_folder()
        place = self.folder / "witness"
        there = place.exists() or not (read_only or used)
        self._witness = Witness.open(place, read_only=read_only) if there else None
        self.witnessed: Witnessed | None = self._seen()
        if self.witnessed is None and self._witness is not None and not read_only and not used:
            self._witness.begin(incarnation, path.stat().st_ino)

    @property
    def complete(self) -> bool:
        """Can no record be missing, as far as the witness knows?"""
        return not self.doubts

    def doubt(self, error: JournalError) -> None:
        """Something speaks against the journal being whole. Raises it, unless it is tolerated."""
        if not self._tolerant:
            raise error
        self.doubts.append(error)

    def _keys(self, *, must_exist: bool, read_only: bool) -> Keyring:
        place = self.folder / "keyring.json"
        try:
            return Keyring.load_or_create(place, must_exist=must_exist)
        except KeyringMissing as error:
            if not read_only:
                raise
            self.doubt(error)
            return Keyring.none(place)

    def _seen(self) -> Witnessed | None:
        try:
            return None if self._witness is None else self._witness.read()
        except JournalError as error:
            self.doubt(error)
            return None

    def _make_folder(self) -> None:
        try:
            (self.folder / "locks").mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            raise JournalUnavailable(
                f"{self.folder} cannot be made: {error.strerror}",
                fix="Make the journal's directory writable for this user.",
            ) from None

    @property
    def locks(self) -> Path:
        """Where executors hold their locks."""
        return self.folder / "locks"

    def matches(self, body: bytes) -> bool:
        """Is this record the one that the witness saw last?"""
        seen = self.witnessed
        return seen is None or sha256(body).digest() == seen.digest

    def witness_record(self, lineage: int, position: int, digest: str) -> None:
        """Show the outside that a record is durable."""
        if self._witness is not None:
            self._witness.update(lineage, position, bytes.fromhex(digest))

    def reconcile(self, incarnation: str) -> None:
        """Begin a new incarnation: what the file holds now is what counts from here on."""
        if self._witness is None:
            self._witness = Witness.open(self.folder / "witness")
        self._witness.begin(incarnation, self._path.stat().st_ino)
        self.witnessed = self._witness.read()
        self.incarnation = incarnation
        self.doubts.clear()

    def close(self) -> None:
        """Release the files."""
        if self._witness is not None:
            self._witness.close()
