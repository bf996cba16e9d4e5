"""The documented shapes of `--json`: the page names exactly what the command prints."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.command import Desk

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "cli-json.md"
MANIFEST = "shop.db.ascertain/manifest.json"


def documented(command: str, head: str = "member") -> set[str]:
    """The names in the first column of a table of the command's section."""
    section = PAGE.read_text("utf-8").split(f"\n## `{command}`\n")[1].split("\n## ")[0]
    table = section.split(f"| {head} | is |\n")[1].split("\n\n")[0]
    return {
        name
        for line in table.splitlines()[1:]
        for name in re.findall(r"`(\w+)`", line.split("|")[1])
    }


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What each command prints, as long as nothing is wrong."""
    desk = Desk(tmp_path_factory.mktemp("json"))
    desk.program("scene")
    said: dict[str, Any] = {
        name: desk.json(*name.split(), *more)
        for name, more in {
            "actions": (), "status": (), "show": ("fine",), "explain": ("fine",),
            "recover --dry-run": (), "journal check": (), "journal rebuild": (),
            "certificate": ("fine", "-o", "fine.json"),
            "verify": ("fine.json", "--manifest", MANIFEST),
            "attest": ("letter", "--claim", "applied", "--operator", "Ada", "--reason", "asked",
                       "--authority", "on call"),
            "journal reconcile": ("--force", "--operator", "Ada", "--reason", "tried"),
        }.items()
    }  # fmt: skip
    said["recover"] = desk.recover("--json").document
    return said


@pytest.mark.parametrize(
    "command",
    ["actions", "status", "show", "explain", "recover", "recover --dry-run", "attest",
     "certificate", "verify", "journal check", "journal rebuild", "journal reconcile"],
)  # fmt: skip
def test_a_document_has_the_members_that_its_page_names(
    printed: dict[str, Any], command: str
) -> None:
    assert set(printed[command]) == documented(command)


def test_items_of_lists_have_the_members_that_the_page_names(printed: dict[str, Any]) -> None:
    row = documented("actions", "row member")
    assert all(set(item) == row for item in printed["actions"]["actions"])
    assert all(set(item) == row for item in printed["status"]["open"])
    assert all(set(item) == row | {"next_commands"} for item in printed["status"]["needs_person"])
    recovered = documented("recover", "recovered member")
    assert all(set(item) == recovered for item in printed["recover"]["recovered"])
    planned = documented("recover --dry-run", "planned member")
    assert all(set(item) == planned for item in printed["recover --dry-run"]["actions"])


def test_members_within_members_are_named_on_the_page(printed: dict[str, Any]) -> None:
    page = PAGE.read_text("utf-8").split("\n## `show`\n")[1].split("\n## ")[0]
    for name in ("intent", "cut", "outcome", "decision"):
        line = next(line for line in page.splitlines() if line.startswith(f"| `{name}` |"))
        assert set(printed["show"][name]) <= set(re.findall(r"`(\w+)`", line)), name
    line = next(line for line in page.splitlines() if line.startswith("| `timeline` |"))
    assert set(printed["show"]["timeline"][0]) <= set(re.findall(r"`(\w+)`", line))
