"""Declared parameters: a codec compiled once from a function's signature (DESIGN §2).

What an action is called with goes into records, fingerprints and certificates, so each parameter
says its type, and a type that JSON does not have travels as ``typed`` says. What cannot be recorded
is refused when the action is declared, with what to write instead; a value that does not fit, when
the action is called, with the path.
"""

from __future__ import annotations

import dataclasses
import enum
import inspect
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from ascertain.core.profile import Fault, Json
from ascertain.core.typed import (
    ABSENT,
    LITERALS,
    SINGLE,
    Default,
    Member,
    Members,
    TypeCodec,
    constant,
    dict_of,
    enumeration,
    fixed_tuple,
    list_of,
    literal,
    optional,
    record,
    set_of,
    tuple_of,
    typed_dict,
)
from ascertain.errors import DeclarationRefused, ProfileViolation

RESERVED: Final = frozenset(
    {
        "action_id",
        "authority",
        "call",
        "deadline",
        "effect",
        "intent",
        "journal",
        "needs",
        "preconditions",
        "self",
    }
)
"""Names that ``perform`` and the adapters use themselves; no parameter may have one."""

_SUPPORTED: Final = (
    "Write one of str, int, bool, float, Decimal, datetime, date, UUID, bytes, an Enum, Literal, "
    "list[…], tuple[…], dict[str, …], set[str], frozenset[str], a dataclass, msgspec.Struct, "
    "NamedTuple or TypedDict; each may have | None."
)
_HOLDS: Final[dict[Any, str]] = {
    list: "Write what it holds, for example list[str].",
    tuple: "Write what it holds, for example tuple[str, ...] or tuple[str, int].",
    dict: "Write what it holds, for example dict[str, int]; keys are str.",
    set: "Write set[str], or list[…] for other items.",
    frozenset: "Write frozenset[str], or tuple[…, ...] for other items.",
}


class Parameters:
    """The declared parameters of one action, and both ways of their values.

    Made by ``compile_parameters``. Immutable, and safe to share between threads.
    """

    __slots__ = ("_members", "names")

    def __init__(self, members: Members) -> None:
        self._members = members
        self.names: Final = tuple(members.members)

    def encode(self, kwargs: Mapping[str, Any]) -> dict[str, Json]:
        """Plain values of the profile for typed ones, defaults filled in.

        Raises ``ProfileViolation`` with the path for an unknown or missing name, and for a value
        that is not of its declared type.
        """
        try:
            return self._members.encode(kwargs)
        except Fault as fault:
            raise fault.violation() from fault.__cause__

    def decode(self, plain: Mapping[str, Json]) -> dict[str, Any]:
        """The typed values of what ``encode`` gave; a default for a name that is missing.

        Raises ``ProfileViolation`` with the path for whatever ``encode`` would not have given.
        """
        try:
            return self._members.decode(plain)
        except Fault as fault:
            raise fault.violation() from fault.__cause__

    def subset(self, plain: Mapping[str, Json], names: Iterable[str]) -> dict[str, Json]:
        """Those of the encoded values that are declared for the fingerprint.

        Raises ``DeclarationRefused`` for a name that is no parameter, ``ProfileViolation`` for one
        that ``plain`` does not have.
        """
        chosen: dict[str, Json] = {}
        for name in names:
            if name not in self.names:
                raise DeclarationRefused(
                    f"{name!r} is no parameter of the action.",
                    fix=f"Name one of its parameters: {', '.join(self.names) or 'it has none'}.",
                )
            if name not in plain:
                raise ProfileViolation("missing", path=f"$.{name}", fix="Give what encode gave.")
            chosen[name] = plain[name]
        return chosen

    def describe(self) -> dict[str, Json]:
        """Each name with its ``type`` as text, whether it is ``required``, and its ``default``."""
        return {name: _described(member) for name, member in self._members.members.items()}

    def __repr__(self) -> str:
        return f"Parameters({self._members.word})"


def _described(member: Member) -> dict[str, Json]:
    described: dict[str, Json] = {
        "type": member.codec.word,
        "required": member.default is None,
    }
    if member.default is not None:
        described["default"] = member.codec.encode(member.default())
    return described


def compile_parameters(
    declared: Callable[..., Any] | Mapping[str, Any], *, leading: Sequence[str] = ("call",)
) -> Parameters:
    """The parameters of a function, or of a mapping from name to type.

    ``leading``: the first parameters of the function, which the library gives and which are none of
    the action's own. Annotations may be text, as with ``from __future__ import annotations``.
    Raises ``DeclarationRefused`` for what has no type that can be recorded.
    """
    subject = getattr(declared, "__qualname__", "the declaration")
    try:
        if isinstance(declared, Mapping):
            return Parameters(Members(_of_mapping(declared)))
        return Parameters(Members(_of_function(declared, leading)))
    except Fault as fault:
        place = f"{subject}, parameter {fault.path.removeprefix('$.')}" if fault.trail else subject
        raise DeclarationRefused(f"{place}: {fault.message}", fix=fault.fix) from fault.__cause__


def _of_mapping(declared: Mapping[str, Any]) -> list[Member]:
    return [_parameter(name, annotation, None) for name, annotation in declared.items()]


def _of_function(function: Any, leading: Sequence[str]) -> list[Member]:
    shape = f"Write it as def name({', '.join(leading)}, *, payee: str, amount_pence: int)."
    scope = getattr(inspect.unwrap(function), "__globals__", None)
    if scope is None:
        raise Fault("not a function or method", shape)
    parameters = list(inspect.signature(function).parameters.values())
    first, own = parameters[: len(leading)], parameters[len(leading) :]
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    if [one.name for one in first if one.kind in positional] != list(leading):
        raise Fault(f"does not begin with {', '.join(leading)}", shape)
    for parameter in own:
        _refuse_shape(parameter)
    # Only what is ours is resolved: other annotations may name what is not imported.
    bearer = types.SimpleNamespace(__annotations__={one.name: one.annotation for one in own})
    annotations = _hints(bearer, scope)
    return [_parameter(one.name, annotations[one.name], _default(one)) for one in own]


def _refuse_shape(parameter: inspect.Parameter) -> None:
    name = parameter.name
    if parameter.kind in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD):
        raise _at(name, Fault("takes whatever comes", "Declare each parameter by name and type."))
    if parameter.kind is inspect.Parameter.POSITIONAL_ONLY:
        raise _at(name, Fault("has no name for its callers", "Take the / out of the signature."))
    if parameter.annotation is inspect.Parameter.empty:
        raise _at(name, Fault("has no type", f"Write it, for example {name}: str."))


def _hints(bearer: Any, scope: dict[str, Any] | None = None) -> dict[str, Any]:
    try:
        return typing.get_type_hints(bearer, scope, include_extras=True)
    except Exception as error:  # the text of an annotation is code, and can raise anything
        raise Fault(
            f"a type that cannot be found ({error})",
            "Import or define it at the top of the module, and not under TYPE_CHECKING.",
        ) from error


def _default(parameter: inspect.Parameter) -> Default | None:
    if parameter.default is inspect.Parameter.empty:
        return None
    return constant(parameter.default)


def _parameter(name: Any, annotation: Any, default: Default | None) -> Member:
    if not isinstance(name, str) or not name.isidentifier():
        raise Fault(f"{name!r} is no name of a parameter", "Give names as Python has them.")
    if name in RESERVED:
        raise _at(name, Fault("a name that Ascertain uses itself", "Choose another name for it."))
    member = _member(name, annotation, default, ())
    if default is not None:
        try:
            member.codec.encode(default())
        except Fault as fault:
            message = f"a default that is not of its type ({fault.message})"
            raise _at(name, Fault(message, f"Give {name} the type of its default.")) from None
    return member


def _member(name: str, annotation: Any, default: Default | None, within: tuple[Any, ...]) -> Member:
    try:
        return Member(name, codec_for(annotation, within), default)
    except Fault as fault:
        fault.trail.append(name)
        raise


def _at(name: str, fault: Fault) -> Fault:
    fault.trail.append(name)
    return fault


def codec_for(annotation: Any, within: tuple[Any, ...] = ()) -> TypeCodec:
    """The codec of one annotation that holds no text any more.

    ``within``: the named types that it stands in. Raises ``Fault``, whose trail leads through the
    fields of classes. What ``Annotated`` adds is not looked at.
    """
    annotation = _bare(annotation)
    if isinstance(annotation, type) and annotation in SINGLE:
        return SINGLE[annotation]
    if annotation in within:
        raise Fault(f"{annotation.__name__} holds itself", "Write a type of a known depth.")
    arguments, origin = typing.get_args(annotation), typing.get_origin(annotation)
    if origin in (typing.Union, types.UnionType):
        return _union(arguments, within)
    if origin is typing.Literal:
        return _literal(arguments)
    if origin in _HOLDS:
        return _container(origin, arguments, within)
    if type(annotation).__name__ == "TypeAliasType":
        return codec_for(annotation.__value__, (*within, annotation))
    if isinstance(annotation, type):
        return _class(annotation, (*within, annotation))
    raise _unsupported(annotation)


def _bare(annotation: Any) -> Any:
    """The type itself, without Annotated, Required, NotRequired and NewType."""
    while True:
        if typing.get_origin(annotation) in (
            typing.Annotated,
            typing.Required,
            typing.NotRequired,
        ):
            annotation = typing.get_args(annotation)[0]
        elif isinstance(annotation, typing.NewType):
            annotation = annotation.__supertype__
        else:
            return types.NoneType if annotation is None else annotation


def _union(arguments: tuple[Any, ...], within: tuple[Any, ...]) -> TypeCodec:
    others = [argument for argument in arguments if argument is not types.NoneType]
    if len(others) != 1 or len(others) == len(arguments):
        raise Fault(
            "one of several types, which plain JSON cannot tell apart",
            "Write one type, or that type and None; for several shapes, declare several actions.",
        )
    return optional(codec_for(others[0], within))


def _literal(values: tuple[Any, ...]) -> TypeCodec:
    if not all(type(value) in LITERALS for value in values):
        raise Fault(
            "a Literal of something else than plain values", "Write str, int or bool in it."
        )
    return literal(values)


def _container(kind: Any, arguments: tuple[Any, ...], within: tuple[Any, ...]) -> TypeCodec:
    first, rest = (arguments[0], arguments[1:]) if arguments else (None, ())
    if kind is list and arguments:
        return list_of(codec_for(first, within))
    if kind is tuple and rest == (...,):
        return tuple_of(codec_for(first, within))
    if kind is tuple and arguments:
        return fixed_tuple([codec_for(item, within) for item in arguments])
    if kind is dict and _bare(first) is str:
        return dict_of(codec_for(rest[0], within))
    if kind in (set, frozenset) and _bare(first) is str:
        return set_of(kind)
    raise Fault(f"a {kind.__name__} that does not say what it holds in plain words", _HOLDS[kind])


def _class(kind: type, within: tuple[Any, ...]) -> TypeCodec:
    if issubclass(kind, enum.Enum):
        return _enum(kind)
    if dataclasses.is_dataclass(kind):
        return record(kind, _dataclass_members(kind, within))
    if issubclass(kind, msgspec.Struct):
        return record(kind, _struct_members(kind, within))
    if issubclass(kind, tuple) and hasattr(kind, "_field_defaults"):
        return record(kind, _named_tuple_members(kind, within))
    if issubclass(kind, dict) and hasattr(kind, "__required_keys__"):
        return typed_dict(kind, _typed_dict_members(kind, within))
    raise _unsupported(kind)


def _unsupported(annotation: Any) -> Fault:
    if annotation in (Any, object):
        return Fault("a type that says nothing about what travels", _SUPPORTED)
    if isinstance(annotation, str | typing.ForwardRef):
        return Fault("a type given as text", "Give the type itself.")
    fix = _HOLDS.get(annotation, _SUPPORTED) if isinstance(annotation, type) else _SUPPORTED
    name = annotation.__name__ if isinstance(annotation, type) else repr(annotation)
    return Fault(f"{name}, which has no form in which it is recorded", fix)


def _enum(kind: type[enum.Enum]) -> TypeCodec:
    values = [member.value for member in kind]
    plain = values and all(type(value) in (str, int) for value in values)
    if issubclass(kind, enum.Flag) or not plain:
        raise Fault(
            f"{kind.__name__}, whose members are not plain str or int",
            "Give each member a str or int as its value; for several at once, write list[…].",
        )
    return enumeration(kind)


def _dataclass_members(kind: Any, within: tuple[Any, ...]) -> Members:
    fields, hints = dataclasses.fields(kind), _hints(kind)
    if {field.name for field in fields} != set(inspect.signature(kind).parameters):
        raise Fault(
            f"{kind.__name__} cannot be made from its fields",
            "Leave out init=False and InitVar, and a constructor of its own.",
        )
    missing = dataclasses.MISSING
    return Members(
        _member(
            field.name,
            hints[field.name],
            _default_of(field.default, field.default_factory, missing),
            within,
        )
        for field in fields
    )


def _struct_members(kind: type[msgspec.Struct], within: tuple[Any, ...]) -> Members:
    hints = _hints(kind)
    return Members(
        _member(
            field.name,
            hints[field.name],
            _default_of(field.default, field.default_factory, msgspec.NODEFAULT),
            within,
        )
        for field in msgspec.structs.fields(kind)
    )


def _default_of(default: Any, factory: Any, missing: Any) -> Default | None:
    if default is not missing:
        return constant(default)
    return None if factory is missing else typing.cast(Default, factory)


def _named_tuple_members(kind: Any, within: tuple[Any, ...]) -> Members:
    hints, defaults = _hints(kind), kind._field_defaults
    if set(kind._fields) != set(hints):
        raise Fault(f"{kind.__name__} has fields without a type", "Write it as typing.NamedTuple.")
    return Members(
        _member(name, hints[name], constant(defaults[name]) if name in defaults else None, within)
        for name in kind._fields
    )


def _typed_dict_members(kind: Any, within: tuple[Any, ...]) -> Members:
    return Members(
        _member(
            name,
            hint,
            None if _is_required(kind, name, hint) else constant(ABSENT),
            within,
        )
        for name, hint in _hints(kind).items()
    )


def _is_required(kind: Any, name: str, hint: Any) -> bool:
    # With postponed annotations, __required_keys__ does not know of Required and NotRequired.
    origin = typing.get_origin(hint)
    if origin in (typing.Required, typing.NotRequired):
        return origin is typing.Required
    return name in kind.__required_keys__
