"""The same payments with Ascertain: declared once, performed, and recovered until none is open.

What `naive` does with a retry loop is done here with a contract that says what the provider
does, an observer that reads it, and one SQLite journal that all workers share. A worker is
``python -m ascertain.demo.guarded pay …`` or ``… recover …``; either may be killed anywhere.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import ascertain
from ascertain.demo.payments import Payment, read_payments
from ascertain.demo.provider import API_KEY, CLIENT_TIMEOUT_S, load_stripe
from ascertain.errors import AscertainError

POLICY = ascertain.limits({"amount_pence": 250_000}, actor="treasury-limits")
PROVIDER_TIME = 2_500 * ascertain.SECOND // 1_000
"""How long a request that has arrived may wait and work at the provider, on a busy machine."""
READ_TIMEOUT_S = 5.0
PAGE = 100
POLL_S = 0.05


def contract(longest_delay_ms: int) -> ascertain.Contract:
    """What is known of a supplier payment at this provider, behind this network.

    It ignores keys. Its list is complete, immediate, and keeps every payment. No request
    arrives later than ``longest_delay_ms`` after it left, and no request arrives twice.
    """
    bound = longest_delay_ms * ascertain.SECOND // 1_000 + PROVIDER_TIME
    return ascertain.Contract(
        name="supplier-payment",
        domain="localstripe",
        governed="committed",
        surface=(ascertain.Surface(effect="the supplier's bank account", inside=False),),
        key=ascertain.Key(scope=ascertain.Scope.NONE),
        replies=ascertain.Replies(refusals=("code:card_declined",)),
        readback=ascertain.Readback(
            by="client_reference",
            consistency=ascertain.Consistency.LINEARIZABLE,
            keeps_records=True,
            retention=ascertain.FOR_EVER,
        ),
        in_flight=ascertain.InFlight(after_release=bound, after_close=bound),
        observation=ascertain.Observation(
            first=ascertain.SECOND, longest=2 * ascertain.SECOND, looks=20
        ),
        reversibility=ascertain.Reversibility.BUSINESS_OFFSET,
        attempts=8,
    )


class Rail:
    """The official client, one connection and no retry for each request.

    A connection is never used twice: the network may double a reply, and the second copy
    must not be taken for the answer to the next request.
    """

    def __init__(self, url: str, payment_method: str) -> None:
        stripe = load_stripe()
        self._method = payment_method
        self._once: Any = {"headers": {"Connection": "close"}}
        self._writes = self._client(stripe, url, CLIENT_TIMEOUT_S)
        self._reads = self._client(stripe, url, READ_TIMEOUT_S)
        self._listed: dict[str, list[str]] = {}
        self._last = ""

    def _client(self, stripe: Any, url: str, timeout_s: float) -> Any:
        return stripe.StripeClient(
            API_KEY,
            base_addresses={"api": url},
            max_network_retries=0,
            http_client=stripe.RequestsClient(timeout=timeout_s),
        )

    def pay(self, action_id: str, payee: str, amount_pence: int) -> str:
        """One payment; its reference. Raises RuntimeError for a reply that speaks of another."""
        intent = self._writes.v1.payment_intents.create(
            {
                "amount": amount_pence,
                "currency": "gbp",
                "payment_method": self._method,
                "confirm": True,
                "metadata": {"action_id": action_id, "payee": payee},
            },
            self._once,
        )
        if intent.metadata["action_id"] != action_id or intent.status != "succeeded":
            raise RuntimeError(f"the reply is about {intent.id}, which is {intent.status}")
        return str(intent.id)

    def find(self, action_id: str) -> list[Any]:
        """Every payment that carries the action's id, as it is now.

        The list is oldest first and loses nothing, so that it is read on from where the
        last read ended; the payments found are read again.
        """
        more = True
        while more:
            query: dict[str, Any] = {"limit": PAGE}
            if self._last:
                query["starting_after"] = self._last
            page = self._reads.v1.payment_intents.list(query, self._once)
            for intent in page.data:
                name = intent.metadata.to_dict().get("action_id", "")
                self._listed.setdefault(name, []).append(intent.id)
                self._last = intent.id
            more = page.has_more
        found = self._listed.get(action_id, [])
        return [self._reads.v1.payment_intents.retrieve(name, {}, self._once) for name in found]

    def refund(self, reference: str) -> str:
        """Give one payment back; the refund's reference."""
        refund = self._writes.v1.refunds.create({"payment_intent": reference}, self._once)
        return str(refund.id)


def declare(journal: ascertain.Ascertain, rail: Rail, *, longest_delay_ms: int) -> ascertain.Action:
    """The supplier payment as an action: its call, its observer and its compensator."""

    @journal.action("supplier-payment", contract=contract(longest_delay_ms), target="payee")
    def pay(call: Any, *, payee: str, amount_pence: int) -> ascertain.Done:
        return ascertain.Done(reference=rail.pay(call.action_id, payee, amount_pence))

    @pay.observer
    def listed(question: ascertain.Question) -> Any:
        found = [_reading(intent) for intent in rail.find(question.action_id)]
        return found or ascertain.Absent()

    @pay.compensator(reversibility="business_offset")
    def refund(call: Any, effect: Any) -> ascertain.Done:
        return ascertain.Done(reference=rail.refund(effect.reference))

    return pay


def _reading(intent: Any) -> ascertain.Seen | ascertain.Declined | ascertain.Unreadable:
    """What one payment in the provider's list says."""
    if intent.status == "succeeded":
        return ascertain.Seen(
            reference=intent.id,
            fields={"payee": intent.metadata["payee"], "amount_pence": intent.amount},
            action_id=intent.metadata["action_id"],
            reversed_by="a refund" if intent.latest_charge.refunded else None,
        )
    if intent.last_payment_error is not None:
        return ascertain.Declined(str(intent.last_payment_error.code), reference=intent.id)
    return ascertain.Unreadable(f"{intent.id} is {intent.status}")


def pay_share(
    journal: ascertain.Ascertain, pay: ascertain.Action, share: Collection[Payment]
) -> None:
    """Perform what the journal does not know yet; what it knows is for recovery to resolve."""
    for payment in share:
        if journal.journal.action(payment.action_id) is not None:
            continue
        print("begin", payment.action_id, flush=True)
        pay.perform(
            payment.action_id,
            payee=payment.payee,
            amount_pence=payment.amount_pence,
            intent=ascertain.Intent(subject="acct-7", purpose="supplier-payment"),
        )
        print("end", payment.action_id, flush=True)


def recover_share(journal: ascertain.Ascertain, share: Collection[Payment]) -> None:
    """Recover what is open, each when it is due, until nothing of the share is open."""
    mine = {payment.action_id for payment in share}
    while any(row.root_id in mine for row in journal.journal.open_actions()):
        due = [row for row in journal.due() if row.root_id in mine]
        for row in due:
            print("begin", row.action_id, flush=True)
            journal.recover(row.action_id)
            print("end", row.action_id, flush=True)
        if not due:
            time.sleep(POLL_S)


def main(arguments: Sequence[str] | None = None) -> int:
    """A worker: pay the share of one slot, or recover it."""
    parser = argparse.ArgumentParser(prog="python -m ascertain.demo.guarded")
    parser.add_argument("phase", choices=("pay", "recover"))
    parser.add_argument("--journal", type=Path, required=True)
    parser.add_argument("--payments", type=Path, required=True)
    parser.add_argument("--url", required=True)
    parser.add_argument("--payment-method", required=True)
    parser.add_argument("--longest-delay-ms", type=int, required=True)
    parser.add_argument("--slot", type=int, required=True)
    parser.add_argument("--slots", type=int, required=True)
    options = parser.parse_args(arguments)
    share = read_payments(options.payments, slot=options.slot, slots=options.slots)
    try:
        rail = Rail(options.url, options.payment_method)
        with ascertain.open(options.journal, policy=POLICY) as journal:
            pay = declare(journal, rail, longest_delay_ms=options.longest_delay_ms)
            if options.phase == "pay":
                pay_share(journal, pay, share)
            else:
                recover_share(journal, share)
    except AscertainError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
