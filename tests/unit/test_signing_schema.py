import copy
import json
from collections.abc import Callable
from importlib.resources import files
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ascertain.signing.schema import compile_schema, problems
from tests.unit.test_signing_examples import COMMITTED, EXAMPLES, SCHEMA_FILE

SCHEMA = json.loads(SCHEMA_FILE.read_text("utf-8"))
REFERENCE = jsonschema_rs.validator_for(SCHEMA, validate_formats=True)


def test_the_packaged_schema_is_the_published_one() -> None:
    packaged = files("ascertain.signing").joinpath("rcc_schema.json").read_bytes()
    assert packaged == SCHEMA_FILE.read_bytes()


def without(path: str) -> dict[str, Any]:
    return changed(path, None, remove=True)


def changed(path: str, value: Any, *, remove: bool = False) -> dict[str, Any]:
    predicate = copy.deepcopy(COMMITTED)
    *parents, last = path.split(".")
    place = predicate
    for parent in parents:
        place = place[parent]
    if remove:
        del place[last]
    else:
        place[last] = value
    return predicate


@pytest.mark.parametrize(
    ("predicate", "path", "message"),
    [
        (without("execution_id"), "$.execution_id", "is missing"),
        (changed("execution_id", ""), "$.execution_id", "is shorter than 1"),
        (changed("intent.version", 0), "$.intent.version", "is below 1"),
        (changed("intent.version", True), "$.intent.version", "is not of type integer"),
        (changed("intent.digest", "1A" * 32), "$.intent.digest", "does not match"),
        (changed("action.payload_hash", "c0" * 32 + "\n"), "$.action.payload_hash", "does not"),
        (changed("authority_at_effect.outcome", "deny"), "$.authority_at_effect.outcome", "none"),
        (changed("precondition.observed_at", "yesterday"), "$.precondition.observed_at", "3339"),
        (changed("effect", []), "$.effect", "is not of type object"),
        (without("effect.external_reference"), "$.effect.external_reference", "is missing"),
        (changed("recovery_decision", "continue"), "$.recovery_decision", "is none of"),
        (changed("recovery_authority.permits", "all"), "$.recovery_authority.permits", "none of"),
    ],
)
def test_what_is_wrong_is_named_with_its_path(
    predicate: dict[str, Any], path: str, message: str
) -> None:
    [(found_path, found_message)] = problems(predicate)
    assert found_path == path
    assert message in found_message
    assert not REFERENCE.is_valid(predicate)


@pytest.mark.parametrize("value", [None, [], "text", 1, True, {}])
def test_what_is_no_predicate_is_refused(value: Any) -> None:
    assert problems(value)
    assert not REFERENCE.is_valid(value)


def test_members_that_the_schema_does_not_name_are_allowed() -> None:
    assert problems(COMMITTED | {"anything": {"else": [1]}}) == []


@pytest.mark.parametrize(
    "schema",
    [
        {"additionalProperties": False},
        {"type": "number"},
        {"type": ["string", "null"]},
        {"format": "email"},
        {"pattern": "a$"},
        {"pattern": "^\\d$"},
        {"pattern": "^(a|b)$"},
        {"enum": [1]},
        {"$schema": "http://json-schema.org/draft-07/schema#"},
        {"properties": {"a": {"oneOf": []}}},
    ],
)
def test_a_keyword_that_is_not_known_is_never_skipped(schema: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"unknown|not a"):
        compile_schema(schema)


scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 4),
    st.sampled_from([1.0, 0.5, 2**53, -1]),
    st.sampled_from(
        [
            "", "a", "allow", "deny", "provider", "none", "committed", "unknown", "adopt",
            "observe", "c0" * 32, "c0" * 32 + "\n", "C0" * 32, "c0" * 31, "2030-01-01T09:00:00Z",
            "2030-01-01T09:00:00", "2016-12-31T23:59:60Z", "2030-01-01t09:00:00.5+01:00",
            "\U0001f600",
        ]
    ),
    st.text(max_size=3),
)  # fmt: skip
values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from(["status", "version", "action_id", "x"]), inner, max_size=3
        ),
    ),
    max_leaves=6,
)


def places(value: Any, trail: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [trail]
    steps = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for step, item in steps:
        found += places(item, (*trail, step))
    return found


@st.composite
def mutations(draw: Callable[[st.SearchStrategy[Any]], Any]) -> Any:
    document: Any = copy.deepcopy(draw(st.sampled_from(list(EXAMPLES.values()))))
    for _ in range(draw(st.integers(0, 3))):
        trail = draw(st.sampled_from(places(document)))
        if not trail:
            continue
        place = document
        for step in trail[:-1]:
            place = place[step]
        match draw(st.sampled_from(["remove", "replace", "rename", "empty"])):
            case "remove":
                del place[trail[-1]]
            case "rename" if isinstance(place, dict):
                place[f"{trail[-1]}_"] = place.pop(trail[-1])
            case "empty":
                place[trail[-1]] = type(place[trail[-1]])()
            case _:
                place[trail[-1]] = draw(values)
    return document


@given(st.one_of(mutations(), values))
@example({"effect": {"status": "committed"}})
@example({"effect": "committed"})
def test_every_verdict_is_agreed_with_an_independent_validator(document: Any) -> None:
    assert (problems(document) == []) == REFERENCE.is_valid(document)
