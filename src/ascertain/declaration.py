"""Declaring an action: its contract, its parameters, how to look and how to undo it.

The decorator compiles to a plain `ActionType`, which can be built without it. What is
missing or cannot be honoured is refused here, when the module is imported.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from ascertain.core.codec import decode
from ascertain.core.contract import Consistency, Contract, Reversibility, Scope, validate
from ascertain.core.evidence import Source
from ascertain.core.parameters import Parameters, compile_parameters
from ascertain.errors import DeclarationRefused
from ascertain.observers import Observer, Sealer
from ascertain.observers.function import FunctionObserver


@dataclass(frozen=True, slots=True)
class Compensator:
    """What counteracts the effect: ``function(call, effect)``, with a contract of its own."""

    function: Callable[..., Any]
    contract: Contract
    reversibility: Reversibility
    observers: tuple[Observer, ...] = ()
    commutes: bool = False


@dataclass(slots=True)
class ActionType:
    """One type of action, complete: everything that `perform` and recovery need.

    ``release(call, **parameters)`` lets the effect happen; it is called only by
    `action.py`. ``fingerprint``: the parameters whose change makes it another intent.
    ``target``: the parameter that names what is acted upon, or a fixed name.
    """

    name: str
    contract: Contract
    release: Callable[..., Any]
    parameters: Parameters
    fingerprint: tuple[str, ...]
    target: str
    local: bool = False
    observers: tuple[Observer, ...] = ()
    sealer: Sealer | None = None
    compensator: Compensator | None = None
    preconditions: dict[str, Callable[[str], str]] = field(default_factory=dict)


def declare(
    function: Callable[..., Any],
    *,
    name: str,
    contract: Contract | None,
    fingerprint: tuple[str, ...] | None = None,
    target: str | None = None,
    local: bool = False,
    observers: tuple[Observer, ...] = (),
    sealer: Sealer | None = None,
) -> ActionType:
    """Compile an action type from a function. Raises DeclarationRefused.

    ``fingerprint`` defaults to all parameters; ``target`` to the action type's name.
    """
    if not isinstance(contract, Contract):
        raise DeclarationRefused(
            f"action {name!r} has no contract",
            fix="Write contract=Contract(name=…, surface=…, …), or one of ascertain.contracts.",
        )
    validate(contract)
    _check_name(name)
    parameters = compile_parameters(function)
    unknown = [field for field in fingerprint or () if field not in parameters.names]
    if unknown:
        raise DeclarationRefused(
            f"action {name!r}: fingerprint names {', '.join(unknown)}, which it does not take",
            fix=f"Its parameters are {', '.join(parameters.names) or '(none)'}.",
        )
    _check_seal(name, contract, sealer)
    if inspect.iscoroutinefunction(function) and local:
        raise DeclarationRefused(
            f"action {name!r} writes to a database of yours in a coroutine",
            fix="Write it as a plain function: its transaction is on one connection.",
        )
    return ActionType(
        name,
        contract,
        function,
        parameters,
        tuple(parameters.names if fingerprint is None else fingerprint),
        target or name,
        local,
        observers,
        sealer,
    )


def _check_name(name: str) -> None:
    if not 0 < len(name) <= 100 or not name.isprintable():
        raise DeclarationRefused(
            f"{name!r} is not a name for an action type", fix="Use 1 to 100 printable characters."
        )


def _check_seal(name: str, contract: Contract, sealer: Sealer | None) -> None:
    if contract.seal.reach == "action" and sealer is None:
        raise DeclarationRefused(
            f"action {name!r}: its contract promises a seal, and nothing here can seal",
            fix="Use the marker of a SQL database (ascertain.observers.marker), or Seal().",
        )


def check_complete(declared: ActionType) -> None:
    """Is what the contract promises there? Called when the action is first used.

    Raises DeclarationRefused: a readback without an observer, for instance.
    """
    readback = declared.contract.readback
    if readback.by != "none" and not declared.observers:
        raise DeclarationRefused(
            f"action {declared.name!r}: its contract has a readback by {readback.by}, and no "
            "observer reads it",
            fix="Write @<action>.observer above a function that returns Seen, Absent, Declined "
            'or Unreadable, or readback=Readback(by="none").',
        )
    domains = {item.source.domain for item in declared.observers} | {declared.contract.domain}
    if declared.contract.witnesses > len(domains) + 1:
        raise DeclarationRefused(
            f"action {declared.name!r}: its contract asks for {declared.contract.witnesses} "
            f"witnesses, and only {len(domains)} control domains and a person can give one",
            fix='Add @<action>.observer(domain="…") for another domain, or lower '
            "evidence=Evidence(witnesses=…).",
        )
    if declared.contract.key.scope is Scope.APPLICATION and not declared.local:
        raise DeclarationRefused(
            f"action {declared.name!r}: scope APPLICATION is a fence in a database of yours",
            fix="Declare it with journal.local_action, or Scope.PROVIDER or Scope.NONE.",
        )


def add_observer(
    declared: ActionType,
    function: Callable[..., Any],
    *,
    domain: str | None = None,
    consistency: Consistency | None = None,
) -> None:
    """Add a function of the user's as an observer. Raises DeclarationRefused."""
    contract = declared.contract
    if contract.readback.by == "none":
        raise DeclarationRefused(
            f"action {declared.name!r} has an observer, and its contract has no readback",
            fix='Write readback=Readback(by="client_reference", consistency=…): an observer '
            "reads by the action's identity.",
        )
    source = Source(
        getattr(function, "__qualname__", "observer"),
        domain or contract.domain,
        consistency or contract.readback.consistency,
    )
    declared.observers = (*declared.observers, FunctionObserver(function, source))


def compensator_of(
    declared: ActionType,
    function: Callable[..., Any],
    reversibility: str,
    contract: Contract | None,
    *,
    observe: Callable[..., Any] | None = None,
    commutes: bool,
) -> Compensator:
    """The compensator of an action. Raises DeclarationRefused."""
    try:
        scale = Reversibility(reversibility)
    except ValueError:
        words = ", ".join(item.value for item in Reversibility)
        raise DeclarationRefused(
            f"reversibility {reversibility!r} is not on the scale", fix=f"Write one of {words}."
        ) from None
    if scale is Reversibility.IRREVERSIBLE:
        raise DeclarationRefused(
            f"action {declared.name!r}: a compensator for an irreversible effect",
            fix="Leave the compensator out, or say what it restores.",
        )
    if contract is None:
        base = declared.contract
        contract = Contract(
            name=f"{base.name}/compensation",
            domain=base.domain,
            surface=base.surface,
            key=base.key,
            replies=base.replies,
            in_flight=base.in_flight,
            reversibility=Reversibility.IRREVERSIBLE,
            permanent_unknown_accepted_by="the compensated action's owner",
        )
    validate(contract)
    if (contract.readback.by != "none") != (observe is not None):
        raise DeclarationRefused(
            f"the compensator of {declared.name!r} has a readback or an observer, and not both",
            fix="Write contract=Contract(…, readback=Readback(by=…)) and observe=<a function that "
            "looks for the compensation>, or neither.",
        )
    observers: tuple[Observer, ...] = ()
    if observe is not None:
        name = getattr(observe, "__qualname__", "observer")
        source = Source(name, contract.domain, contract.readback.consistency)
        observers = (FunctionObserver(observe, source),)
    return Compensator(function, contract, scale, observers, commutes)


def plain_of(declared: ActionType, given: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters as plain values. Raises ProfileViolation with the path."""
    plain: dict[str, Any] = declared.parameters.encode(given)
    return plain


SUFFIX = "/compensation"
"""A compensating action's type is its action's type with this."""


class Effect:
    """The effect to be counteracted, as a compensator gets it.

    ``reference``: the provider's. ``action_id``: of the action whose effect it is.
    ``parameters``: of that action, as declared.
    """

    __slots__ = ("action_id", "parameters", "reference")

    def __init__(self, action_id: str, reference: str, parameters: dict[str, Any]) -> None:
        self.action_id = action_id
        self.reference = reference
        self.parameters = parameters


def compensating_type(base: ActionType, compensator: Compensator) -> ActionType:
    """The action type of a compensation: the compensator, released like any effect."""

    def release(call: Any, reference: str, compensated: str, original: str) -> Any:
        parameters = base.parameters.decode(cast(dict[str, Any], decode(original.encode())))
        return compensator.function(call, Effect(compensated, reference, parameters))

    return ActionType(
        base.name + SUFFIX,
        compensator.contract,
        release,
        compile_parameters({"reference": str, "compensated": str, "original": str}),
        ("reference", "compensated"),
        "reference",
        observers=compensator.observers,
    )
