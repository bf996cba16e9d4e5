"""An operator's attestation: a person's evidence, with a reason and an authority."""

from __future__ import annotations

from ascertain.core.cut import View
from ascertain.core.records import Chain, OperatorAttested
from ascertain.errors import InputRefused, RecoveryRefused
from ascertain.outcomes import Outcome
from ascertain.ports import Steps
from ascertain.runtime import Runtime
from ascertain.settling import report_of

from .looking import append_steps
from .rebuilt import intent_of

CLAIMS = ("applied", "not_applied", "rejected", "reversed")


def attest_steps(
    runtime: Runtime,
    action_id: str,
    *,
    claim: str,
    operator: str,
    reason: str,
    authority: str,
    reference: str | None,
) -> Steps[Outcome]:
    """Append what a person vouches for; the outcome that follows from all evidence.

    ``not_applied`` says that nothing is there *and* that nothing of it can still act.
    Raises InputRefused for what is missing, RecoveryRefused for an unknown action.
    """
    _check(claim, operator, reason, authority)
    row = yield runtime.ports.read("row", lambda: runtime.journal.action(action_id))
    if row is None:
        raise RecoveryRefused(
            f"the journal does not know action {action_id!r}",
            fix="`ascertain actions` lists what it knows.",
        )
    now = yield runtime.ports.now()

    def write(chain: Chain, view: View) -> None:
        chain.add(
            OperatorAttested(
                action_id=action_id,
                at=now,
                causes=(intent_of(view).digest,),
                operator=operator,
                claim=claim,
                reason=reason,
                authority=authority,
                reference=reference,
            )
        )

    row, cut = yield from append_steps(runtime, row, "attest", write)
    return report_of(runtime, row, list(cut.entries), None)


def _check(claim: str, operator: str, reason: str, authority: str) -> None:
    if claim not in CLAIMS:
        raise InputRefused(f"claim {claim!r} is none", fix=f"Write one of {', '.join(CLAIMS)}.")
    for name, value in (("operator", operator), ("reason", reason), ("authority", authority)):
        if not value.strip() or len(value) > 2000:
            raise InputRefused(
                f"an attestation needs {name}",
                fix="Say who vouches, why, and on what grounds; up to 2000 characters each.",
            )
