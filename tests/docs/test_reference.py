"""The reference says what the code has: every field, record, outcome, error, command and name."""

import re
import subprocess
import sys
from enum import Enum
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest

import ascertain
from ascertain import contracts, errors
from ascertain.core import contract as contract_module
from ascertain.core.contract import Contract, Part
from ascertain.core.facts import Finding
from ascertain.core.outcome import OUTCOME_OF
from ascertain.core.records import AnyRecord, Record
from ascertain.outcomes import WORDS, Outcome

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT / "docs" / "reference"
UNITS = {"SECOND": ascertain.SECOND, "MINUTE": ascertain.MINUTE, "DAY": ascertain.DAY}


def page(name: str) -> str:
    return (REFERENCE / f"{name}.md").read_text("utf-8")


def sections(text: str, level: int) -> dict[str, str]:
    """Each heading of a level, with what stands below it."""
    parts = re.split(rf"^{'#' * level} (.+)$", text, flags=re.MULTILINE)[1:]
    return dict(zip(parts[::2], parts[1::2], strict=True))


def table(text: str) -> list[list[str]]:
    """The cells of the first table, without its head."""
    lines = re.findall(r"^\|(.+)\|$", text, re.MULTILINE)[2:]
    return [[cell.strip() for cell in line.split(" | ")] for line in lines]


def code(cell: str) -> str:
    return cell.strip("`")


# --- made pages -----------------------------------------------------------------------------


def test_the_pages_made_from_code_are_current() -> None:
    ran = subprocess.run(
        [sys.executable, str(ROOT / "tools" / "docs.py"), "--check"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_every_public_name_is_there() -> None:
    headings = sections(page("public-names"), 3)
    assert set(ascertain.__all__) == set(headings)


# --- contract -------------------------------------------------------------------------------

PARTS = [Contract, *Part.__subclasses__()]


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.__name__)
def test_every_field_of_a_contract_with_its_default(part: type[msgspec.Struct]) -> None:
    rows = table(sections(page("contract"), 2)[part.__name__])
    documented = {code(cells[0]): code(cells[1]) for cells in rows}
    fields = {field.name: field for field in msgspec.structs.fields(part)}
    assert list(documented) == list(fields)
    known = {**vars(contract_module), **UNITS}
    for name, field in fields.items():
        if field.required:
            assert documented[name] == "required"
        else:
            assert eval(documented[name], known) == field.default, name


def test_every_enum_of_a_contract() -> None:
    documented = {code(row[0]): re.findall(r"`(\w+)`", row[1]) for row in
                  table(sections(page("contract"), 2)["Enums"])}  # fmt: skip
    enums = [
        item
        for item in vars(contract_module).values()
        if isinstance(item, type) and issubclass(item, Enum) and item is not Enum
    ]
    assert documented == {item.__name__: list(item.__members__) for item in enums}


# --- records, outcomes, errors ----------------------------------------------------------------


def test_every_record_with_its_fields() -> None:
    text = page("records").partition("## Canonical bytes")[0]
    shared = set(Record.__struct_fields__)
    documented = {}
    for name, body in sections(re.sub(r"^## .+$", "", text, flags=re.MULTILINE), 3).items():
        paragraph = next(part for part in body.split("\n\n") if part.strip().startswith("`"))
        documented[name] = re.findall(r"`(\w+)`", paragraph)
    records = {
        kind.__name__: [name for name in kind.__struct_fields__ if name not in shared]
        for kind in get_args(AnyRecord)
    }
    assert {name: set(fields) for name, fields in documented.items()} == {
        name: set(fields) for name, fields in records.items()
    }


def test_every_finding_with_its_words() -> None:
    rows = table(sections(page("outcomes"), 2)["From evidence to outcome"])
    documented = {code(row[1]): (code(row[0]), row[3]) for row in rows}
    assert documented == {
        finding.value: (OUTCOME_OF[finding].value, WORDS[finding]) for finding in Finding
    }


def test_every_type_of_outcome() -> None:
    text = page("outcomes")
    for kind in Outcome.__subclasses__():
        assert f"case {kind.__name__}(" in text


def tree(base: type) -> list[type]:
    return [base, *(kind for child in base.__subclasses__() for kind in tree(child))]


def test_every_error_with_its_base() -> None:
    rows = table(page("errors"))
    documented = {code(row[0]): code(row[1]) for row in rows}
    known = [kind for kind in tree(errors.AscertainError) if kind.__module__ == errors.__name__]
    assert documented == {kind.__name__: kind.__base__.__name__ for kind in known if kind.__base__}


# --- certificate ------------------------------------------------------------------------------


def predicates(tmp_path: Path) -> list[dict[str, Any]]:
    """Of a certificate after recovery, of a report, and of one of a compensation."""
    import base64
    import json

    contract = Contract(name="bank", surface=())
    with ascertain.open(tmp_path / "journal.db", policy=ascertain.limits()) as journal:

        @journal.action("transfer", contract=contract)
        def transfer(call: Any, *, payee: str) -> ascertain.Done:
            if payee == "lost":
                raise TimeoutError
            return ascertain.Done(reference="T-1")

        @transfer.compensator(reversibility="business_offset")
        def refund(call: Any, effect: Any) -> ascertain.Done:
            return ascertain.Done(reference="R-1")

        transfer.perform("t-1", payee="found")
        transfer.compensate("t-1")
        transfer.perform("t-2", payee="lost")
        journal.recover("t-2")
        journal.attest(
            "t-2", claim="not_applied", operator="o", reason="r", authority="a", reference=None
        )
        transfer.perform("t-3", payee="found")
        journal.attest("t-3", claim="not_applied", operator="o", reason="r", authority="a")
        ids = ("t-1", "t-1/compensate/T-1", "t-2", "t-3")
        kept = [journal.certificate(action_id) for action_id in ids]
    assert {item.form for item in kept} == {"certificate", "report"}
    return [json.loads(base64.b64decode(json.loads(item.body)["payload"]))["predicate"]
            for item in kept]  # fmt: skip


def test_every_member_of_a_certificate(tmp_path: Path) -> None:
    documented = {
        code(cells[0])
        for body in sections(page("certificate"), 2).values()
        for cells in table(body)
    }
    written = {member for predicate in predicates(tmp_path) for member in predicate}
    assert written - documented == set()


# --- contracts that are shipped -----------------------------------------------------------------


def test_shipped_contracts_are_valid() -> None:
    assert contract_module.validate(contracts.local("ledger")).seal.reach == "action"


# --- commands -----------------------------------------------------------------------------------

USUAL = {"--journal", "--app", "--json", "--debug", "--help"}


def commands() -> dict[str, set[str]]:
    """Each command of the program with its options."""
    import typer

    from ascertain.cli.application import application

    def walk(command: Any, path: tuple[str, ...]) -> Any:
        for name, child in getattr(command, "commands", {}).items():
            yield from walk(child, (*path, name))
        if not hasattr(command, "commands"):
            options = {
                option
                for parameter in command.params
                for option in (*parameter.opts, *parameter.secondary_opts)
                if option.startswith("-")
            }
            yield " ".join(path), options

    return dict(walk(typer.main.get_command(application), ("ascertain",)))


def test_every_command_with_its_options() -> None:
    documented = sections(page("commands"), 2)
    usual = documented.pop("Options of every command")
    assert set(documented) == set(commands())
    for name, options in commands().items():
        rows = table(documented[name])
        shown = set(re.findall(r"`(--?[a-z][\w-]*)", " ".join(row[0] for row in rows)))
        assert shown == options - USUAL, name
    assert USUAL - {"--help"} == set(re.findall(r"^\| `(--[a-z]+)", usual, re.MULTILINE))


def test_every_exit_code() -> None:
    from ascertain.cli import failing

    codes = {value for value in vars(failing).values() if type(value) is int}
    assert {int(row[0]) for row in table(page("exit-codes"))} == codes
