"""The usual way: a retry loop around the client, and a file of what is done.

It does what good advice says: timeouts, retries with backoff, an ``Idempotency-Key`` for each
payment, a note on disk after each reply. The provider ignores the key, as many do.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import TextIO

from ascertain.demo.driver import Driver, Event, plan_kills
from ascertain.demo.payments import Payment, payments, read_payments, write_payments
from ascertain.demo.provider import API_KEY, CLIENT_TIMEOUT_S, Provider, load_stripe
from ascertain.demo.report import Row, count
from ascertain.errors import AscertainError

TRIES = 3
CLIENT_RETRIES = 2
PAUSE_S = 0.2


def run_naive(
    seed: int,
    directory: Path,
    *,
    number: int = 200,
    workers: int = 4,
    kills: int = 12,
    on_event: Callable[[Event], None] = lambda event: None,
) -> Row:
    """Pay the run with this seed the usual way, and count at the provider what came of it."""
    run = payments(seed, number)
    write_payments(directory / "payments.json", run)
    with Provider(seed=seed, journal=directory / "fates.jsonl") as provider:
        arguments = ["--spool", str(directory), "--url", provider.url]
        arguments += ["--payment-method", provider.payment_method]
        driven = Driver(
            module=__name__,
            arguments=arguments,
            slots=workers,
            kills=plan_kills(seed, kills=kills, slots=workers, share=number // workers),
            logs=directory,
            on_event=on_event,
        ).run()
        effects = provider.effects()
    paid = {effect.action_id for effect in effects}
    untold = _noted(directory, "failed") & paid
    return count("naive", run, effects, open_ids=untold, kills=driven.kills)


def _noted(spool: Path, word: str) -> set[str]:
    return {line for path in spool.glob(f"{word}-*.txt") for line in path.read_text().splitlines()}


def _work(spool: Path, slot: int, slots: int, pay: Callable[[Payment], bool]) -> None:
    """Take up each payment of the share that is not noted as done or failed."""
    share = read_payments(spool / "payments.json", slot=slot, slots=slots)
    finished = _noted(spool, "done") | _noted(spool, "failed")
    with (
        open(spool / f"done-{slot}.txt", "a", encoding="utf-8") as done,
        open(spool / f"failed-{slot}.txt", "a", encoding="utf-8") as failed,
    ):
        for payment in _unfinished(share, finished):
            print("begin", payment.action_id, flush=True)
            _note(done if pay(payment) else failed, payment.action_id)
            print("end", payment.action_id, flush=True)


def _unfinished(share: Collection[Payment], finished: set[str]) -> list[Payment]:
    return [payment for payment in share if payment.action_id not in finished]


def _note(file: TextIO, action_id: str) -> None:
    file.write(action_id + "\n")
    file.flush()
    os.fsync(file.fileno())


def _payer(url: str, payment_method: str) -> Callable[[Payment], bool]:
    """The call with the official client and the retry loop around it."""
    stripe = load_stripe()
    client = stripe.StripeClient(
        API_KEY,
        base_addresses={"api": url},
        max_network_retries=CLIENT_RETRIES,
        http_client=stripe.RequestsClient(timeout=CLIENT_TIMEOUT_S),
    )

    def pay(payment: Payment) -> bool:
        for _ in range(TRIES):
            try:
                client.v1.payment_intents.create(
                    {
                        "amount": payment.amount_pence,
                        "currency": "gbp",
                        "payment_method": payment_method,
                        "confirm": True,
                        "metadata": {"action_id": payment.action_id, "payee": payment.payee},
                    },
                    {"idempotency_key": payment.action_id},
                )
            except stripe.CardError:
                return False
            except stripe.StripeError:
                time.sleep(PAUSE_S)
            else:
                return True
        return False

    return pay


def main(arguments: Sequence[str] | None = None) -> int:
    """A worker: pay the share of one slot."""
    parser = argparse.ArgumentParser(prog="python -m ascertain.demo.naive")
    parser.add_argument("--spool", type=Path, required=True)
    parser.add_argument("--url", required=True)
    parser.add_argument("--payment-method", required=True)
    parser.add_argument("--slot", type=int, required=True)
    parser.add_argument("--slots", type=int, required=True)
    options = parser.parse_args(arguments)
    try:
        pay = _payer(options.url, options.payment_method)
        _work(options.spool, options.slot, options.slots, pay)
    except AscertainError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
