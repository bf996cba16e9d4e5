"""The guarded run as a whole: paid under kills, recovered under kills, certified, verified."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from pathlib import Path

import ascertain
from ascertain.demo.driver import LAST_SPARED, Driver, Event, Kill, plan_kills
from ascertain.demo.guarded import POLICY
from ascertain.demo.payments import Payment, payments, write_payments
from ascertain.demo.provider import Effect, Provider
from ascertain.demo.report import Row, count
from ascertain.errors import VerificationFailed
from ascertain.signing.manifest import KeyManifest
from ascertain.signing.verify import verify_file

JOURNAL, MANIFEST, CERTIFICATES = "payments.db", "manifest.json", "certificates"
MODULE = "ascertain.demo.guarded"
RECOVERY_KILLS_AMONG = 3
"""Kills in recovery fall into this many first recoveries of each worker."""

OPEN = (ascertain.Unknown, ascertain.Pending, ascertain.Conflict)
"""Outcomes that leave a question."""

Listener = Callable[[Event], None]


def run_guarded(
    seed: int,
    directory: Path,
    *,
    number: int = 200,
    workers: int = 4,
    kills: int = 12,
    recovery_kills: int = 4,
    on_event: Listener = lambda event: None,
) -> Row:
    """Pay the run with this seed with Ascertain, and count at the provider what came of it.

    Journal, certificates and key manifest stay in the directory; what the workers said is
    in its folder ``guarded``. Events: ``begin`` and ``end`` of a payment, ``recover begin``
    and ``recover end``, then ``certified``.
    """
    spool = directory / "guarded"
    spool.mkdir(parents=True)
    run = payments(seed, number)
    write_payments(spool / "payments.json", run)
    share = number // workers
    phases = (
        ("pay", plan_kills(seed, kills=kills, slots=workers, share=share), on_event),
        ("recover", _recovery_kills(seed, recovery_kills, workers), _recovering(on_event)),
    )
    struck = 0
    with Provider(seed=seed, journal=spool / "fates.jsonl") as provider:
        arguments = ["--journal", str(directory / JOURNAL)]
        arguments += ["--payments", str(spool / "payments.json"), "--url", provider.url]
        arguments += ["--payment-method", provider.payment_method]
        arguments += ["--longest-delay-ms", str(provider.longest_delay_ms)]
        for phase, plan, listener in phases:
            driver = Driver(MODULE, [phase, *arguments], workers, plan, spool, listener)
            struck += driver.run().kills
        effects = provider.effects()
    certificates, unresolved = certify(directory, run, on_event)
    return count(
        "ascertain",
        run,
        effects,
        open_ids=unresolved,
        kills=struck,
        certificates=certificates,
        verified=verified(directory, run, effects),
    )


def _recovery_kills(seed: int, kills: int, workers: int) -> tuple[Kill, ...]:
    share = RECOVERY_KILLS_AMONG + LAST_SPARED
    return plan_kills(seed + 1, kills=kills, slots=workers, share=share)


def _recovering(on_event: Listener) -> Listener:
    return lambda event: on_event(replace(event, word=f"recover {event.word}"))


def certify(directory: Path, run: Collection[Payment], on_event: Listener) -> tuple[int, set[str]]:
    """Issue a certificate for every payment, as a file; their number, and what is unresolved."""
    place = directory / CERTIFICATES
    place.mkdir()
    certificates, unresolved = 0, set()
    with ascertain.open(directory / JOURNAL, policy=POLICY) as journal:
        for payment in run:
            outcome = journal.outcome(payment.action_id)
            if outcome is None or isinstance(outcome, OPEN):
                unresolved.add(payment.action_id)
            if outcome is not None:
                issued = journal.certificate(payment.action_id)
                certificates += issued.form == "certificate"
                certificate_path(directory, payment.action_id).write_bytes(issued.body)
            on_event(Event(0, "certified", payment.action_id))
    sidecar = directory / f"{JOURNAL}.ascertain"
    shutil.copyfile(sidecar / MANIFEST, directory / MANIFEST)
    return certificates, unresolved


def certificate_path(directory: Path, action_id: str) -> Path:
    """Where the certificate of a payment is kept."""
    return directory / CERTIFICATES / f"{action_id}.json"


def verified(directory: Path, run: Collection[Payment], effects: Iterable[Effect]) -> int:
    """How many certificates verify, and name the effect that the provider lists.

    Verifying needs the file and the key manifest; the provider's word is only compared.
    """
    manifest = KeyManifest.load(directory / MANIFEST)
    references = {effect.action_id: effect.reference for effect in effects}
    good = 0
    for payment in run:
        try:
            found = verify_file(
                certificate_path(directory, payment.action_id),
                manifest,
                expect_action=payment.action_id,
                expect_lineage=payment.action_id,
                expect_audience=None,
                at_us=time.time_ns() // 1_000,
            )
        except VerificationFailed:
            continue
        effect = found.predicate["effect"]
        assert isinstance(effect, dict)
        reference = references.get(payment.action_id)
        good += reference is not None and effect.get("external_reference") == reference
    return good
