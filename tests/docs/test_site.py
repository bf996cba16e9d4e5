"""The pages as a whole: they build, their links lead somewhere, and the map is complete."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SRC = ROOT / "src" / "ascertain"
BESIDE = ["README.md", "ARCHITECTURE.md", "CHANGELOG.md"]
LINK = re.compile(r"\]\((?!https?:)([^)#\s]*)(#[^)\s]*)?\)")
ONCE = re.compile(r"exactly[ -]once", re.IGNORECASE)


def test_the_site_builds(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr


@pytest.mark.parametrize("name", BESIDE)
def test_links_lead_somewhere(name: str) -> None:
    text = (ROOT / name).read_text("utf-8")
    assert [path for path, _ in LINK.findall(text) if path and not (ROOT / path).exists()] == []


def test_the_map_names_every_module() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text("utf-8")
    places = {path.stem for path in SRC.iterdir() if path.suffix == ".py" or path.is_dir()}
    places -= {"__init__", "__pycache__", "py"}
    assert {name for name in places if f"`{name}`" not in text} == set()
    core = {path.name for path in (SRC / "core").glob("*.py")} - {"__init__.py"}
    assert {name for name in core if f"core/{name}" not in text} == set()


def test_the_map_names_nothing_else() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text("utf-8")
    named = set(re.findall(r"`((?:\w+/)+\w+\.py)`", text))
    assert {name for name in named if not (SRC / name).exists()} == set()
    assert {
        name for name in re.findall(r"`(tests/\w+)`", text) if not (ROOT / name).exists()
    } == set()


def test_exactly_once_is_never_claimed() -> None:
    """It is quoted where the boundary is explained, and nowhere else."""
    pages = [*(ROOT / name for name in BESIDE), *(ROOT / "docs").rglob("*.md")]
    named = {str(page.relative_to(ROOT)) for page in pages if ONCE.search(page.read_text("utf-8"))}
    assert named <= {
        "docs/explanation/exactly-once-is-a-boundary-claim.md",
        "docs/index.md",
        "docs/tutorial/drawdown.md",
    }


def test_nothing_is_in_the_glossary_twice() -> None:
    text = (ROOT / "docs" / "glossary.md").read_text("utf-8")
    words = re.findall(r"^\| ([^|]+?) \|", text, re.MULTILINE)
    assert len(words) == len(set(words))
