"""The matrix's external system: a ledger that may know keys and may be read (seed 000).

It stands outside of every worker: what it committed is in a file that a killed worker leaves
behind. `declare` says what the library is told about it.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import ascertain
from ascertain.core.codec import digest, encode

PREDICATE = "account-version"
ACCOUNT = "acct-7"
ACCOUNT_VERSION = "41"
MAXIMUM_PENCE = 200_000


class RemoteLedger:
    """A synthetic external system with optional idempotency and readback."""

    def __init__(self, path: Path, *, idempotent: bool, readable: bool) -> None:
        self.path = path
        self.idempotent = idempotent
        self.readable = readable

    @property
    def commits(self) -> list[dict[str, Any]]:
        """Everything that was ever committed."""
        if not self.path.exists():
            return []
        return [json.loads(line) for line in self.path.read_text("utf-8").splitlines()]

    @property
    def by_action_id(self) -> dict[str, dict[str, Any]]:
        """The newest commit of each action."""
        return {receipt["action_id"]: receipt for receipt in self.commits}

    def commit(self, action_id: str, *, payee: str, amount_pence: int) -> dict[str, Any]:
        """Let the effect happen; a known key gets its first receipt where keys are known."""
        known = self.by_action_id.get(action_id)
        if self.idempotent and known is not None:
            return known
        receipt = {
            "external_reference": f"EXT-{len(self.commits) + 1:04d}",
            "action_id": action_id,
            "payload_hash": digest(encode({"payee": payee, "amount_pence": amount_pence})),
            "amount_pence": amount_pence,
            "payee": payee,
        }
        with open(self.path, "a", encoding="utf-8") as file:
            file.write(json.dumps(receipt) + "\n")
            file.flush()
            os.fsync(file.fileno())
        return receipt

    def query(self, action_id: str) -> dict[str, Any] | None:
        """The commit of an action, where the ledger can be read."""
        if not self.readable:
            raise RuntimeError("readback unsupported")
        return self.by_action_id.get(action_id)


def contract(*, idempotent: bool, readable: bool) -> ascertain.Contract:
    """The terms under which the seed's cells follow (DESIGN 7).

    The key is kept for ever; a read may lag by no stated time and there is no in-flight
    bound, so that an empty read never proves absence; a commit is what counts, and one
    witness is enough.
    """
    key = ascertain.Key(
        scope=ascertain.Scope.PROVIDER,
        carried_in="action_id",
        retention=ascertain.FOR_EVER,
        first_result=True,
    )
    return ascertain.Contract(
        name="synthetic-ledger",
        domain="ledger",
        governed="committed",
        surface=(),
        key=key if idempotent else ascertain.Key(),
        readback=ascertain.Readback(
            by="action_id" if readable else "none", consistency=ascertain.Consistency.EVENTUAL
        ),
        preconditions=(PREDICATE,),
        evidence=ascertain.Evidence(witnesses=1),
    )


def declare(
    journal: ascertain.Ascertain, directory: Path, *, idempotent: bool, readable: bool
) -> ascertain.Action:
    """The payment as an action on ledgers with these properties, one file for each action."""

    def ledger(action_id: str) -> RemoteLedger:
        return ledger_of(directory, action_id, idempotent=idempotent, readable=readable)

    name = f"supplier-payment/{'keyed' if idempotent else 'keyless'}/"
    name += "readable" if readable else "unreadable"

    @journal.action(name, contract=contract(idempotent=idempotent, readable=readable))
    def pay(call: Any, *, payee: str, amount_pence: int) -> ascertain.Done:
        receipt = ledger(call.action_id).commit(call.key, payee=payee, amount_pence=amount_pence)
        return ascertain.Done(reference=receipt["external_reference"])

    if readable:

        @pay.observer
        def find(
            question: ascertain.Question,
        ) -> ascertain.Seen | ascertain.Absent:
            receipt = ledger(question.action_id).query(question.action_id)
            if receipt is None:
                return ascertain.Absent()
            return ascertain.Seen(
                reference=receipt["external_reference"],
                fields={name: receipt[name] for name in ("payee", "amount_pence")},
                action_id=receipt["action_id"],
            )

    @pay.precondition(PREDICATE)
    def version(account: str) -> str:
        return ACCOUNT_VERSION

    return pay


def ledger_of(directory: Path, action_id: str, *, idempotent: bool, readable: bool) -> RemoteLedger:
    """The ledger that one action acts on: each cell of the matrix has its own."""
    path = directory / f"{action_id}.jsonl"
    return RemoteLedger(path, idempotent=idempotent, readable=readable)
