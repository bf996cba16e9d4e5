"""`open`: a journal with a policy, ready to declare actions on and to recover.

::

    journal = ascertain.open("payments.db", policy=limits({"amount_pence": 200_000}))


    @journal.action("supplier-payment", contract=CONTRACT)
    def pay(call, *, payee: str, amount_pence: int): ...


    outcome = pay.perform("pay-run-190-v3", payee="Northwind", amount_pence=125_000)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ascertain.authority import Authority
from ascertain.core.contract import Consistency, Contract
from ascertain.core.records import Need
from ascertain.declaration import (
    ActionType,
    add_observer,
    check_complete,
    compensator_of,
    declare,
)
from ascertain.errors import ChainBroken, DeclarationRefused, InputRefused, RecoveryRefused
from ascertain.journal import ActionRow, Journal, StoredCertificate
from ascertain.observers.marker import Marker
from ascertain.options import check_needs
from ascertain.outcomes import Outcome, Unknown
from ascertain.ports import Steps
from ascertain.presented import Intent, Precondition, Presented, present
from ascertain.recovery.attest import attest_steps
from ascertain.recovery.controller import Recovered, recover_steps, undo_steps
from ascertain.recovery.known import perform_steps
from ascertain.runtime import Runtime
from ascertain.settling import report
from ascertain.sharing import apply_steps


class Action:
    """A declared action: perform it, look at it, say how to observe and how to undo it."""

    def __init__(self, runtime: Runtime, declared: ActionType) -> None:
        self._runtime = runtime
        self.declared = declared
        self._checked = False

    # -- declaring ------------------------------------------------------------------------

    def observer(
        self,
        function: Callable[..., Any] | None = None,
        *,
        domain: str | None = None,
        consistency: Consistency | None = None,
    ) -> Any:
        """Decorate the function that looks: from a `Question` to a reading, or several.

        ``domain``: its control domain, the contract's if left out. ``consistency``: what its
        reads may miss, the contract's readback's if left out. Raises DeclarationRefused.
        """

        def add(given: Callable[..., Any]) -> Callable[..., Any]:
            add_observer(self.declared, given, domain=domain, consistency=consistency)
            return given

        return add if function is None else add(function)

    def compensator(
        self,
        *,
        reversibility: str,
        contract: Contract | None = None,
        observe: Callable[..., Any] | None = None,
        commutes: bool = False,
    ) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Decorate the function that counteracts: ``(call, effect)``.

        ``reversibility``: exact_inverse, business_offset or best_effort_repair. ``contract``:
        its own effect contract; without one it has the action's replies and no readback.
        ``observe``: looks for the compensation, where that contract has a readback.
        ``commutes``: it may be made whatever came after the effect. Raises DeclarationRefused.
        """

        def add(given: Callable[..., Any]) -> Callable[..., Any]:
            self.declared.compensator = compensator_of(
                self.declared,
                given,
                reversibility,
                contract,
                observe=observe,
                commutes=commutes,
            )
            return given

        return add

    def precondition(
        self, predicate: str
    ) -> Callable[[Callable[[str], str]], Callable[[str], str]]:
        """Decorate the function that returns the present version of a resource."""

        def add(given: Callable[[str], str]) -> Callable[[str], str]:
            self.declared.preconditions[predicate] = given
            return given

        return add

    # -- performing -----------------------------------------------------------------------

    def present(
        self,
        action_id: str,
        *,
        intent: Intent | None = None,
        preconditions: Sequence[Precondition] = (),
        needs: Iterable[str | Need] = (),
        deadline: int | None = None,
        **parameters: Any,
    ) -> Presented:
        """Check and fingerprint a call without performing it. Raises InputRefused kinds."""
        if not self._checked:
            check_complete(self.declared)
            self._checked = True
        return present(
            self.declared,
            self._runtime.keys,
            action_id,
            parameters,
            intent=intent,
            preconditions=preconditions,
            needs=check_needs(action_id, needs) if needs != () else (),
            deadline=deadline,
        )

    def perform(
        self,
        action_id: str,
        *,
        intent: Intent | None = None,
        preconditions: Sequence[Precondition] = (),
        needs: Iterable[str | Need] = (),
        deadline: int | None = None,
        authority: Authority | None = None,
        **parameters: Any,
    ) -> Outcome:
        """Let the effect happen once, or say what is known of it.

        ``action_id``: the business key. ``needs``: actions that must be verified first.
        ``deadline``: microseconds after which nothing is released. ``authority``: instead of
        the journal's policy. Returns a typed outcome.

        Raises IntentConflict if the id is known with another intent, InputRefused kinds for
        bad input (nothing is recorded), JournalError kinds if the journal cannot be used.
        """
        p = self.present(
            action_id,
            intent=intent,
            preconditions=preconditions,
            needs=needs,
            deadline=deadline,
            **parameters,
        )
        runtime = self._runtime
        return runtime.ports.drive(perform_steps(runtime, p, authority or runtime.policy))

    async def perform_async(
        self,
        action_id: str,
        *,
        intent: Intent | None = None,
        preconditions: Sequence[Precondition] = (),
        needs: Iterable[str | Need] = (),
        deadline: int | None = None,
        authority: Authority | None = None,
        **parameters: Any,
    ) -> Outcome:
        """`perform` for coroutines; the declared function may be one."""
        p = self.present(
            action_id,
            intent=intent,
            preconditions=preconditions,
            needs=needs,
            deadline=deadline,
            **parameters,
        )
        runtime = self._runtime
        flow = perform_steps(runtime, p, authority or runtime.policy)
        return await runtime.ports.drive_async(flow)

    def apply(
        self,
        action_id: str,
        *,
        connection: Any,
        intent: Intent | None = None,
        preconditions: Sequence[Precondition] = (),
        needs: Iterable[str | Need] = (),
        authority: Authority | None = None,
        **parameters: Any,
    ) -> Outcome:
        """Let an effect inside your database happen once, on your own connection.

        ``connection``: a sqlite3 connection, or a SQLAlchemy session, to the database of the
        action's store. Inside a transaction of yours the outcome is `Pending` until that
        commits; otherwise `apply` commits. Whatever your function raises takes the effect
        back and is raised again. Raises what `perform` raises.
        """
        p = self.present(
            action_id, intent=intent, preconditions=preconditions, needs=needs, **parameters
        )
        runtime = self._runtime
        flow = apply_steps(runtime, p, authority or runtime.policy, connection)
        return runtime.ports.drive(flow)

    async def apply_async(self, action_id: str, *, connection: Any, **given: Any) -> Outcome:
        """`apply` for coroutines; the connection is used on this thread."""
        names = ("intent", "preconditions", "needs", "authority")
        options = {name: given.pop(name) for name in names if name in given}
        authority = options.pop("authority", None)
        p = self.present(action_id, **options, **given)
        runtime = self._runtime
        flow = apply_steps(runtime, p, authority or runtime.policy, connection)
        return await runtime.ports.drive_async(flow)

    def outcome(self, action_id: str) -> Outcome | None:
        """What is recorded of the action now; None if the journal does not know it."""
        return report(self._runtime, self._runtime.journal, action_id)

    def compensate(self, action_id: str, *, authority: Authority | None = None) -> Outcome:
        """Counteract a verified effect by a second, linked action with its own decision.

        Raises RecoveryRefused where there is nothing to compensate, or no capability.
        """
        runtime = self._runtime
        return runtime.ports.drive(undo_steps(runtime, action_id, authority or runtime.policy))


class Ascertain:
    """An open journal with its policy and its declared actions. Made by `ascertain.open`."""

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime

    @property
    def journal(self) -> Journal:
        """The store of the records."""
        return self.runtime.journal

    def action(
        self,
        name: str,
        *,
        contract: Contract | None = None,
        fingerprint: tuple[str, ...] | None = None,
        target: str | None = None,
    ) -> Callable[[Callable[..., Any]], Action]:
        """Declare an action whose effect is outside. Raises DeclarationRefused.

        ``contract``: what the provider promises; there is none that fits all.

        ``fingerprint``: the parameters whose change makes it another intent (default: all).
        ``target``: the parameter that names what is acted upon.
        """

        def compile_action(function: Callable[..., Any]) -> Action:
            declared = declare(
                function, name=name, contract=contract, fingerprint=fingerprint, target=target
            )
            return self.register(declared)

        return compile_action

    def local_action(
        self,
        name: str,
        *,
        contract: Contract | None = None,
        store: Marker | None = None,
        fingerprint: tuple[str, ...] | None = None,
        target: str | None = None,
    ) -> Callable[[Callable[..., Any]], Action]:
        """Declare an action whose effect is inside a database of yours. Raises DeclarationRefused.

        ``store``: its fence, `sqlite_marker(path)` or `sqlalchemy_marker(engine)`. The
        function writes over ``call.connection`` and neither commits nor rolls back.
        """

        def compile_action(function: Callable[..., Any]) -> Action:
            if store is None:
                raise DeclarationRefused(
                    f"action {name!r} names no database for its fence",
                    fix="Write store=sqlite_marker(path), or store=sqlalchemy_marker(engine).",
                )
            declared = declare(
                function,
                name=name,
                contract=contract,
                fingerprint=fingerprint,
                target=target,
                local=True,
                observers=(store,),
                sealer=store,
            )
            return self.register(declared)

        return compile_action

    def register(self, declared: ActionType) -> Action:
        """Register a declared type that was built without the decorator."""
        known = self.runtime.types.get(declared.name)
        if known is not None and known.release is not declared.release:
            raise DeclarationRefused(
                f"an action type {declared.name!r} is declared already",
                fix="Give each action type a name of its own.",
            )
        self.runtime.types[declared.name] = declared
        return Action(self.runtime, declared)

    # -- recovering -----------------------------------------------------------------------

    def recover(
        self, action_id: str, *, authority: Authority | None = None, act: bool = True
    ) -> Recovered:
        """Recover one action: find out what happened, decide, certify, then act.

        ``act=False`` decides and certifies, and releases nothing. Raises RecoveryRefused or
        JournalError kinds.
        """
        runtime = self.runtime
        flow = recover_steps(runtime, action_id, authority or runtime.policy, act=act)
        return runtime.ports.drive(flow)

    async def recover_async(
        self, action_id: str, *, authority: Authority | None = None, act: bool = True
    ) -> Recovered:
        """`recover` for coroutines."""
        runtime = self.runtime
        flow = recover_steps(runtime, action_id, authority or runtime.policy, act=act)
        return await runtime.ports.drive_async(flow)

    def due(self, *, most: int = 1000) -> list[ActionRow]:
        """Open actions that are due for recovery now, or whose holder is proved to be gone."""
        now = self.runtime.ports.clock.now()
        gone: dict[str, bool] = {}
        due: list[ActionRow] = []
        for row in self.journal.open_actions(most=most):
            if row.next_at > now and row.holder not in ("", self.runtime.executor.name):
                if row.holder not in gone:
                    gone[row.holder] = self.runtime.executor.gone(row.holder) is not None
                if not gone[row.holder]:
                    continue
            elif row.next_at > now:
                continue
            due.append(row)
        return due

    def recover_all(
        self, *, authority: Authority | None = None, act: bool = True, most: int = 1000
    ) -> list[Recovered]:
        """Recover every open action that is due.

        One that is refused, as where its type is not declared here, does not stop the rest:
        its `Recovered` says so in ``refused``.
        """
        return [
            self._recover_or_say(row.action_id, authority, act=act) for row in self.due(most=most)
        ]

    def _recover_or_say(
        self, action_id: str, authority: Authority | None, *, act: bool
    ) -> Recovered:
        try:
            return self.recover(action_id, authority=authority, act=act)
        except (RecoveryRefused, ChainBroken) as error:
            unread = Unknown(action_id=action_id, reason=error.message)
            return Recovered(action_id, unread, "", "", refused=error.message)

    def attest(
        self,
        action_id: str,
        *,
        claim: str,
        operator: str,
        reason: str,
        authority: str,
        reference: str | None = None,
    ) -> Outcome:
        """Record an operator's evidence; the outcome that follows from it.

        ``claim``: applied, not_applied, rejected or reversed. ``authority``: on what grounds
        the operator may say so. Raises InputRefused, RecoveryRefused.
        """
        flow = attest_steps(
            self.runtime,
            action_id,
            claim=claim,
            operator=operator,
            reason=reason,
            authority=authority,
            reference=reference,
        )
        return self.runtime.ports.drive(flow)

    def outcome(self, action_id: str) -> Outcome | None:
        """What is recorded of an action now; None if the journal does not know it."""
        return report(self.runtime, self.journal, action_id)

    def certificate(self, action_id: str) -> StoredCertificate:
        """A certificate, or a report where none is possible, of the action as it stands now.

        Raises InputRefused where the journal has no signing key (opened read-only).
        """
        issuer = self.runtime.issuer
        if issuer is None:
            raise InputRefused(
                "this journal was opened without a signing key",
                fix="Open it for writing; `ascertain certificate` does.",
            )
        flow: Steps[StoredCertificate] = issuer.issue_steps(self.runtime, action_id, None)
        return self.runtime.ports.drive(flow)

    def close(self) -> None:
        """Release files and locks."""
        self.journal.close()

    def __enter__(self) -> Ascertain:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
