"""Every error that Ascertain raises.

::

    AscertainError
    ├── InputRefused             a value or document from outside is not acceptable
    │   ├── ProfileViolation     a value outside the strict JSON profile (has .path)
    │   ├── DocumentMalformed    bytes that are not a document of the profile (has .path)
    │   └── DocumentTooLarge     refused before parsing
    ├── DeclarationRefused       an action, contract or policy that cannot be registered
    ├── IntentConflict           the action id is known under another fingerprint
    ├── NotVerified              a result was asked of an outcome that is not VERIFIED_APPLIED
    ├── AppNotLoaded             the user's module:object could not be imported
    ├── RecoveryRefused          recovery was asked for something that it may not do
    ├── JournalError             the journal could not be used
    │   ├── JournalUnavailable   full disk, read-only place, missing or locked file
    │   ├── NotAJournal          the file is something else
    │   ├── SchemaTooNew         written by a newer version
    │   ├── IncarnationChanged   a copy, a restored backup, or behind its witness
    │   ├── KeyringMissing       the keys that its fingerprints were made with are gone
    │   ├── ChainBroken          a record was altered, removed or reordered
    │   ├── PositionTaken        compare-and-append lost: the lineage has moved on
    │   ├── StaleEpoch           the lease was taken over by somebody else
    │   └── AmbiguousCommit      the barrier may or may not be durable
    └── VerificationFailed       a signed document does not verify
        ├── EnvelopeRefused      not exactly an envelope as it is issued
        ├── SignatureRefused     the signature does not match
        ├── KeyNotTrusted        no key of the manifest may sign this
        └── PredicateRefused     signed, but not a valid certificate

Each error says what is wrong in its first line, and what to do next in ``fix``.
"""

from __future__ import annotations


class AscertainError(Exception):
    """Base of the tree. ``message``: what is wrong. ``fix``: what to do next."""

    def __init__(self, message: str, *, fix: str = "") -> None:
        self.message = message
        self.fix = fix
        super().__init__(f"{message}\n{fix}" if fix else message)


class InputRefused(AscertainError):
    """A value or document from outside is not acceptable."""


class ProfileViolation(InputRefused):
    """A value outside the strict JSON profile. ``path``: where, as ``$.a[3].b``."""

    def __init__(self, message: str, *, path: str, fix: str = "") -> None:
        self.path = path
        super().__init__(f"{path}: {message}", fix=fix)


class DocumentMalformed(InputRefused):
    """Bytes that are not a document of the profile. ``path``: where, if it is known."""

    def __init__(self, message: str, *, path: str = "$", fix: str = "") -> None:
        self.path = path
        super().__init__(f"{path}: {message}", fix=fix)


class DocumentTooLarge(InputRefused):
    """Refused before parsing: more bytes than the cap."""


class DeclarationRefused(AscertainError):
    """An action, contract or policy that cannot be registered as it was written."""


class IntentConflict(AscertainError):
    """The action id is already bound to another fingerprint."""


class NotVerified(AscertainError):
    """A result was asked of an outcome that is not VERIFIED_APPLIED."""


class AppNotLoaded(AscertainError):
    """The user's ``module:object`` could not be imported."""


class RecoveryRefused(AscertainError):
    """Recovery was asked for something that it may not do."""


class JournalError(AscertainError):
    """The journal could not be used."""


class JournalUnavailable(JournalError):
    """Full disk, read-only place, missing or locked file."""


class NotAJournal(JournalError):
    """The file is not a journal."""


class SchemaTooNew(JournalError):
    """The journal was written by a newer version."""


class IncarnationChanged(JournalError):
    """The journal is a copy, a restored backup, or behind its witness."""


class KeyringMissing(JournalError):
    """The keys that the journal's fingerprints were made with are gone."""


class ChainBroken(JournalError):
    """A record was altered, removed or reordered."""


class PositionTaken(JournalError):
    """Compare-and-append lost: the lineage has moved on."""


class StaleEpoch(JournalError):
    """The lease was taken over by somebody else."""


class AmbiguousCommit(JournalError):
    """The barrier may or may not be durable; nothing may be concluded from it."""


class VerificationFailed(AscertainError):
    """A signed document does not verify."""


class EnvelopeRefused(VerificationFailed):
    """Not exactly an envelope as it is issued."""


class SignatureRefused(VerificationFailed):
    """The signature does not match."""


class KeyNotTrusted(VerificationFailed):
    """No key of the manifest may sign this."""


class PredicateRefused(VerificationFailed):
    """Signed, but not a valid certificate."""
