"""Every example of README and docs/ runs, and prints what is shown."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.session import Session, blocks, looks_like

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
RUN = {"python", "output", "console"}
WITH_EXAMPLES = [
    page for page in PAGES if RUN & {block.kind for block in blocks(page.read_text("utf-8"))}
]
PAGE_S_MAX = 300


@pytest.mark.parametrize("page", WITH_EXAMPLES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_examples_do_what_they_show(page: Path, tmp_path: Path) -> None:
    roots = [str(ROOT), str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-m", "tests.docs.session", str(page)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(root for root in roots if root)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PAGE_S_MAX,
        check=False,
    )
    assert ran.returncode == 0, f"\n{ran.stdout}{ran.stderr[-2000:]}"


def test_the_pages_that_teach_have_examples() -> None:
    taught = {page for part in ("tutorial", "how-to") for page in (ROOT / "docs" / part).iterdir()}
    assert taught - set(WITH_EXAMPLES) == set()


class TestComparing:
    @pytest.mark.parametrize(
        ("shown", "printed"),
        [
            ("one\ntwo", "one\ntwo\n"),
            ("at …", "at 14:05\n"),
            ("one\n…\nfour", "one\ntwo\nthree\nfour\n"),
            ("one\n…\nfour", "one\nfour\n"),
            ("", ""),
        ],
    )
    def test_alike(self, shown: str, printed: str) -> None:
        assert looks_like(shown, printed)

    @pytest.mark.parametrize(
        ("shown", "printed"),
        [("one", "two\n"), ("one", ""), ("", "one\n"), ("at …", "at\n14:05\n"), ("a.c", "abc\n")],
    )
    def test_not_alike(self, shown: str, printed: str) -> None:
        assert not looks_like(shown, printed)


class TestRunning:
    def run(self, tmp_path: Path, text: str) -> list[str]:
        page = tmp_path / "page.md"
        page.write_text(text, "utf-8")
        return Session(page).run()

    def test_other_output_is_found(self, tmp_path: Path) -> None:
        assert self.run(tmp_path, "```python\nprint(1)\n```\n\n```output\n1\n```\n") == []
        assert self.run(tmp_path, "```python\nprint(2)\n```\n\n```output\n1\n```\n") != []

    def test_output_that_is_not_shown_is_found(self, tmp_path: Path) -> None:
        assert self.run(tmp_path, "```python\nprint(1)\n```\n") != []

    def test_an_error_is_found(self, tmp_path: Path) -> None:
        (found,) = self.run(tmp_path, "```python\n1 / 0\n```\n")
        assert "page.md:2 raised" in found
        assert "ZeroDivisionError" in found

    def test_a_command_is_run(self, tmp_path: Path) -> None:
        assert self.run(tmp_path, "```console\n$ echo one\none\n$ echo two\ntwo\n```\n") == []
        assert self.run(tmp_path, "```console\n$ echo one\ntwo\n```\n") != []
