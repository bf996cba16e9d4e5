"""Issues certificates: reads the cut, signs what the core composes, keeps it with its record.

The signing key stands in a directory beside the journal, and its public half in a key
manifest there. The manifest is what a verifier needs; the key never leaves the process.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

import msgspec

from ascertain.core.certificate import Certified, certify
from ascertain.core.codec import digest, encode
from ascertain.core.contract import Contract
from ascertain.core.cut import Cut, View
from ascertain.core.decision import decide
from ascertain.core.facts import Compensation, Facts, Needs, Preconditions
from ascertain.core.judgement import Context, Judgement, judge
from ascertain.core.records import (
    CapabilityGranted,
    CertificateIssued,
    Chain,
    Entry,
    IntentRecorded,
    RecoveryDecided,
)
from ascertain.core.written import read_facts
from ascertain.errors import InputRefused, PositionTaken, RecoveryRefused
from ascertain.journal import ActionRow, StoredCertificate, Transaction
from ascertain.ports import Steps
from ascertain.runtime import Runtime, compensation_of, needs_now
from ascertain.signing.consistency import SKEW_US
from ascertain.signing.dsse import seal
from ascertain.signing.keys import SigningKey
from ascertain.signing.manifest import KeyManifest, Role, TrustedKey, enrol
from ascertain.signing.statement import CERTIFICATE_TYPE, REPORT_TYPE, read_statement, statement
from ascertain.signing.verify import CERTIFICATES_AND_REPORTS, verify

KEY_FILE: Final = "signing.pem"
MANIFEST_FILE: Final = "manifest.json"
_ROUNDS: Final = 20
"""How often an issue starts again because the lineage was certified by somebody else meanwhile."""

UNASKED: Final = (
    "nobody was asked what may be done now: no authority, and no capability but to observe, counts"
)


class Issuer:
    """Signs under one key of one control domain, both kept in a directory.

    The key is made on first use. ``created``: it was made by this object, so that a person
    can be told to keep it: whoever has the file can issue in this domain's name.
    """

    def __init__(self, directory: Path, *, domain: str = "ascertain") -> None:
        self.directory = directory
        self.domain = domain
        self.created = False
        self._key: SigningKey | None = None

    @property
    def key_path(self) -> Path:
        """The file of the private key."""
        return self.directory / KEY_FILE

    @property
    def manifest_path(self) -> Path:
        """The file of the key manifest: the one thing that a verifier needs beside a document."""
        return self.directory / MANIFEST_FILE

    def ready(self, now: int) -> KeyManifest:
        """Load or make the key, enrol it in the manifest, and return the manifest.

        ``now``: microseconds; a new entry is valid from a clock's skew before it, since other
        processes sign under the same key by clocks of their own. Raises InputRefused.
        """
        if self._key is None:
            try:
                self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            except OSError as error:
                raise InputRefused(
                    f"the directory {self.directory} cannot be made: {error.strerror}",
                    fix="Certificates need a place for their signing key: give a writable one.",
                ) from error
            key, created = SigningKey.load_or_create(self.key_path)
            entry = TrustedKey(Role.CERTIFICATE, self.domain, key.public, now - SKEW_US)
            enrol(self.manifest_path, entry)
            self._key, self.created = key, self.created or created
        return KeyManifest.load(self.manifest_path)

    def sign(self, action_id: str, subject: str, certified: Certified, *, now: int) -> bytes:
        """The envelope's bytes, once they verify under the manifest beside the key.

        ``subject``: the digest that the action is known by. Raises InputRefused for a key or
        manifest that cannot be used, VerificationFailed where nobody could verify the result.
        """
        manifest = self.ready(now)
        assert self._key is not None
        kind = CERTIFICATE_TYPE if certified.form == "certificate" else REPORT_TYPE
        said = statement(action_id, subject, certified.predicate, predicate_type=kind)
        raw = seal(said, self._key)
        verify(
            raw,
            manifest,
            expect_action=action_id,
            expect_lineage=None,
            expect_audience=None,
            at_us=now,
            accept=CERTIFICATES_AND_REPORTS,
        )
        return raw

    def issue_steps(
        self,
        runtime: Runtime,
        action_id: str,
        judgement: Judgement | None = None,
        *,
        context: Context | None = None,
        audience: str | None = None,
        limitations: Sequence[str] = (),
    ) -> Steps[StoredCertificate]:
        """Sign and keep a certificate, or a report where none is possible, of the action now.

        ``judgement``: what was just decided; it is taken where it is about what the journal
        holds. Else it is judged in ``context``; else the newest recorded decision is taken, if no
        evidence came later; else nothing counts as allowed, which is named as a limitation.

        Where nothing was recorded since the newest certificate of the action, that one is
        returned, unless another audience is asked for, or ``judgement`` or ``context`` come to
        another row of the table.

        Raises RecoveryRefused for an unknown action, InputRefused, VerificationFailed or
        JournalError kinds.
        """
        for _ in range(_ROUNDS):
            done = yield from self._once_steps(
                runtime, action_id, judgement, context, audience, limitations
            )
            if done is not None:
                return done
        raise PositionTaken(
            f"the lineage of {action_id!r} is certified by others again and again",
            fix="Try again in a moment.",
        )

    def _once_steps(
        self,
        runtime: Runtime,
        action_id: str,
        judgement: Judgement | None,
        context: Context | None,
        audience: str | None,
        limitations: Sequence[str],
    ) -> Steps[StoredCertificate | None]:
        """One round; None if the lineage has got another certificate in the meantime."""
        row, entries = yield from _read(runtime, action_id)
        now = yield runtime.ports.now()
        cut = runtime.cut(entries, now)
        view = cut.views.get(action_id) or View(action_id)
        contract = runtime.contract(row.contract if view.intent is None else view.intent.contract)
        judged, asked = yield from _judged(runtime, cut, view, contract, judgement, context)
        asserted = None if judgement is None and context is None else judged
        known = yield from _known(runtime, entries, action_id, asserted, audience)
        if known is not None:
            return known
        previous = _last(entries)
        certified = certify(
            cut,
            action_id,
            contract,
            judged,
            issued_at=now,
            versions=_versions(view),
            previous=previous,
            audience=audience,
            recovery=_carrier(entries, action_id, judged) if asked else None,
            limitations=[*limitations, *(() if asked else (UNASKED,))],
        )
        raw = yield runtime.ports.adapter(
            "sign", lambda: self.sign(action_id, _subject(view), certified, now=now)
        )
        kept = StoredCertificate(
            digest=digest(raw),
            action_id=action_id,
            root_id=row.root_id,
            position=cut.position,
            form=certified.form,
            body=raw,
        )
        return (yield from _keep(runtime, row, kept, previous, now))


def _read(runtime: Runtime, action_id: str) -> Steps[tuple[ActionRow, list[Entry]]]:
    journal = runtime.journal
    row = yield runtime.ports.read("row", lambda: journal.action(action_id))
    if row is None:
        raise RecoveryRefused(
            f"the journal does not know action {action_id!r}",
            fix="`ascertain actions` lists what it knows.",
        )
    entries = yield runtime.ports.read("entries", lambda: journal.entries(row.root_id))
    return row, entries


# --- which judgement ----------------------------------------------------------------------


def _judged(
    runtime: Runtime,
    cut: Cut,
    view: View,
    contract: Contract,
    given: Judgement | None,
    context: Context | None,
) -> Steps[tuple[Judgement, bool]]:
    """The judgement to certify, and whether anybody was asked what may be done now."""
    intent: IntentRecorded | None = view.intent
    needs, compensation = Needs.MET, Compensation.NONE
    if view.compensations or (intent is not None and intent.needs):
        needs, compensation = yield runtime.ports.read(
            "needs",
            lambda: (
                needs_now(runtime.journal, () if intent is None else intent.needs),
                compensation_of(runtime.journal, view),
            ),
        )
    unasked = Context(
        observable=contract.readback.by != "none",
        needs=needs,
        verbs=frozenset({"observe"}),
        preconditions=Preconditions.UNVERIFIED if view.preconditions else Preconditions.HOLD,
        compensation=compensation,
    )
    fresh = judge(cut, view.action_id, contract, context or unasked)
    if given is not None and (same := _on_facts(fresh, given.facts)):
        return same._replace(next_observation=given.next_observation), True
    if context is not None:
        return fresh, True
    decided = _decided_since(view)
    facts = None if decided is None else read_facts(decided.facts)
    if decided is not None and facts is not None and (same := _on_facts(fresh, facts)):
        return same._replace(next_observation=decided.next_observation), True
    return fresh, False


_OF_THE_CUT: Final = ("closure", "finding", "effects", "exact", "settled", "sources")
"""The facts that follow from the cut and its contract alone."""


def _on_facts(fresh: Judgement, facts: Facts) -> Judgement | None:
    """The same conclusion with these facts, where they are about the same cut; else None."""
    if any(getattr(fresh.facts, name) != getattr(facts, name) for name in _OF_THE_CUT):
        return None
    return fresh._replace(facts=facts, row=decide(facts))


def _decided_since(view: View) -> RecoveryDecided | None:
    """The newest decision on the action, if no evidence about it came later."""
    if not view.recoveries:
        return None
    entry = view.recoveries[-1]
    later = (
        *view.intents,
        *view.decisions,
        *view.revoked,
        *view.preconditions,
        *view.released.values(),
        *view.returned.values(),
        *view.effects,
        *view.seals,
        *view.receipts,
        *view.checks,
        *view.attested,
    )
    if any(item.position > entry.position for item in later):
        return None
    record: RecoveryDecided = entry.record
    return record


def _carrier(entries: list[Entry], action_id: str, judged: Judgement) -> Entry | None:
    """The capability that was recorded with the newest decision, where it is this one."""
    decided = [
        entry
        for entry in entries
        if isinstance(entry.record, RecoveryDecided) and entry.record.action_id == action_id
    ]
    if not decided or decided[-1].record.row != judged.row.name:
        return None
    after, before = decided[-1].record.cut, decided[-1].position
    granted = [
        entry
        for entry in entries
        if isinstance(entry.record, CapabilityGranted)
        and entry.record.action_id == action_id
        and after < entry.position < before
    ]
    return granted[-1] if granted else None


# --- what is known of the lineage -----------------------------------------------------------


def _issued(entries: list[Entry]) -> list[Entry]:
    return [entry for entry in entries if isinstance(entry.record, CertificateIssued)]


def _last(entries: list[Entry]) -> str | None:
    """The digest of the lineage's newest certificate."""
    issued = _issued(entries)
    return issued[-1].record.digest if issued else None


def _known(
    runtime: Runtime,
    entries: list[Entry],
    action_id: str,
    judged: Judgement | None,
    audience: str | None,
) -> Steps[StoredCertificate | None]:
    """The action's newest certificate, if nothing was recorded since and it says the same."""
    mine = [entry for entry in _issued(entries) if entry.record.action_id == action_id]
    if not mine:
        return None
    newest: CertificateIssued = mine[-1].record
    if any(
        entry.position > newest.cut and not isinstance(entry.record, CertificateIssued)
        for entry in entries
    ):
        return None
    kept = yield runtime.ports.read("certificates", lambda: runtime.journal.certificates(action_id))
    found: StoredCertificate | None = next((c for c in kept if c.digest == newest.digest), None)
    return found if found is not None and _says(found, judged, audience) else None


def _says(kept: StoredCertificate, judged: Judgement | None, audience: str | None) -> bool:
    """Whether a kept document is for this audience and names this row; None: whatever row."""
    said = read_statement(base64.b64decode(json.loads(kept.body)["payload"])).predicate
    decision = said.get("decision")
    row = decision.get("row") if isinstance(decision, dict) else None
    return said.get("audience") == audience and (judged is None or row == judged.row.name)


def _keep(
    runtime: Runtime, row: ActionRow, kept: StoredCertificate, previous: str | None, now: int
) -> Steps[StoredCertificate | None]:
    """Keep the document and record it; None if the lineage has another newest one by now."""

    def work(tx: Transaction) -> StoredCertificate | None:
        current, known = tx.action(row.action_id), tx.entries(row.root_id)
        assert current is not None
        if _last(known) != previous:
            return None
        chain = Chain(row.root_id, known[-1].position, known[-1].digest)
        entry = chain.add(
            CertificateIssued(
                action_id=row.action_id,
                at=now,
                causes=(known[kept.position - 1].digest,),
                cut=kept.position,
                digest=kept.digest,
                form=kept.form,
            )
        )
        certificate = msgspec.structs.replace(kept, position=entry.position)
        tx.append(chain, current)
        tx.keep_certificate(certificate)
        return certificate

    done: StoredCertificate | None = yield runtime.ports.transact("certify", work)
    return done


def _subject(view: View) -> str:
    """The digest that the statement's subject carries: the intent record's, if there is one."""
    return view.intents[-1].digest if view.intents else digest(encode(view.action_id))


@cache
def _code_version() -> str:
    try:
        return version("ascertain")
    except PackageNotFoundError:
        return "unknown"


def _versions(view: View) -> dict[str, str]:
    """Versions of code and policy that the document was made by."""
    versions = {"ascertain": _code_version()}
    if view.decisions:
        versions["policy"] = view.decisions[-1].record.policy_version
    return versions
