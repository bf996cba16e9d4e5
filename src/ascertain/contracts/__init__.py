"""Ready contracts. Facts about real providers arrive with their observers; these are ours."""

from __future__ import annotations

from ascertain.core.contract import (
    FOR_EVER,
    Consistency,
    Contract,
    InFlight,
    Key,
    Readback,
    Reversibility,
    Scope,
    Seal,
    Surface,
)


def local(
    name: str,
    *,
    version: str = "1",
    domain: str = "database",
    surface: tuple[Surface, ...] = (),
    reversibility: Reversibility = Reversibility.EXACT_INVERSE,
) -> Contract:
    """The contract of an effect inside a database of yours, fenced by `apply`.

    The fence row stands in the effect's own transaction: it deduplicates, it is the
    readback, and it can be sealed. Nothing of an attempt can land after its transaction.
    """
    return Contract(
        name=name,
        version=version,
        domain=domain,
        surface=surface,
        reversibility=reversibility,
        key=Key(
            scope=Scope.APPLICATION,
            carried_in="ascertain_fence.action_id",
            retention=FOR_EVER,
            first_result=True,
            on_mismatch="IntentConflict",
            on_concurrent="waits for the running transaction",
        ),
        readback=Readback(
            by="marker",
            consistency=Consistency.LINEARIZABLE,
            keeps_records=True,
            retention=FOR_EVER,
        ),
        in_flight=InFlight(after_release=0, after_close=0),
        seal=Seal(reach="action", store="ascertain_fence"),
    )
