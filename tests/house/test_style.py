"""The house style, as far as no linter knows it. Each test names the places that break a rule."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
SRC = ROOT / "src" / "ascertain"
LINES_FILE_MAX = 500
LINES_FUNCTION_MAX = 70

VAGUE = {"util", "utils", "helper", "helpers", "manager", "managers"}
MAY_PRINT = {"cli", "demo"}
HEAVY = {"asyncio", "cryptography", "httpx", "rich", "sqlalchemy", "stripe", "typer"}
CLOCK_OR_CHANCE = re.compile(
    r"(?:^|\.)(?:random|secrets|urandom|uuid[14]|now|utcnow|today|time_ns|monotonic|perf_counter)$"
    r"|^time\.time$"
)

# These are written so that this file does not find itself.
UNFINISHED = re.compile(r"\b(?:TO[D]O|FIX[M]E|XX[X])\b")
MACHINE_PATH = re.compile(r"(?<![\w./-])/(?:work|root|home)/")
REGISTRY = re.compile(
    r"\b(?:pypi[.]org|pythonhosted[.]org|npmjs[.](?:org|com)|crates[.]io|deb[.]debian[.]org"
    r"|proxy[.]golang[.]org|repo1?[.]maven[.](?:apache[.])?org)",
    re.IGNORECASE,
)

TEXT = {".css", ".html", ".in", ".ini", ".js", ".json", ".jsonl", ".md", ".py", ".sh", ".sql"}
TEXT |= {".toml", ".txt", ".yaml", ".yml"}
TEXT_WITHOUT_SUFFIX = {"Makefile", "run", ".gitignore", ".importlinter"}
GENERATED = re.compile(r"^(?:\.git|\.venv|\.hypothesis|build|dist|site|__pycache__|\..*_cache)$")

Named = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef

TREES = {
    path: ast.parse(path.read_text(encoding="utf-8"), str(path))
    for path in sorted(SRC.rglob("*.py"))
}
NODES = [(path, node) for path, tree in TREES.items() for node in ast.walk(tree)]


def place(path: Path, line: int, what: str) -> str:
    return f"{path.relative_to(ROOT)}:{line}: {what}"


def expect_none(places: Iterable[str]) -> None:
    found = list(places)
    assert not found, "\n".join(["", *found])


def public(body: Iterable[ast.stmt]) -> Iterator[Named]:
    """The public functions and classes of a module or class, and those within the classes."""
    for node in body:
        if isinstance(node, Named) and not node.name.startswith("_"):
            yield node
            if isinstance(node, ast.ClassDef):
                yield from public(node.body)


def inherits_docstring(node: Named) -> bool:
    names = {ast.unparse(decorator).rpartition(".")[2] for decorator in node.decorator_list}
    return bool(names & {"overload", "override", "setter"})


def words(name: str) -> set[str]:
    return {word.lower() for word in re.findall(r"[A-Z]?[a-z0-9]+|[A-Z]+(?![a-z])", name)}


@cache
def lines_of_the_repository() -> list[tuple[Path, int, str]]:
    lines = []
    for path in sorted(ROOT.rglob("*")):
        if any(GENERATED.match(part) for part in path.relative_to(ROOT).parts):
            continue
        if path.is_file() and (path.suffix in TEXT or path.name in TEXT_WITHOUT_SUFFIX):
            text = path.read_text("utf-8", "replace").splitlines()
            lines += [(path, number, line) for number, line in enumerate(text, 1)]
    return lines


def places_with(pattern: re.Pattern[str]) -> list[str]:
    return [
        place(path, number, line.strip()[:100])
        for path, number, line in lines_of_the_repository()
        if pattern.search(line)
    ]


def test_sources_are_found() -> None:
    assert SRC / "errors.py" in TREES


def test_files_are_short() -> None:
    lengths = {path: len(path.read_text("utf-8").splitlines()) for path in TREES}
    expect_none(
        place(path, n, "the last line") for path, n in lengths.items() if n > LINES_FILE_MAX
    )


def test_functions_are_short() -> None:
    expect_none(
        place(path, node.lineno, f"{node.name} has {lines} lines")
        for path, node in NODES
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (lines := (node.end_lineno or 0) - node.lineno + 1) > LINES_FUNCTION_MAX
    )


def test_names_say_something() -> None:
    named = [(path, n.lineno, n.name) for path, n in NODES if isinstance(n, Named)]
    named += [(path, 1, part) for path in TREES for part in path.relative_to(SRC).parts]
    expect_none(place(*where) for where in named if words(where[2].removesuffix(".py")) & VAGUE)


def test_public_names_have_docstrings() -> None:
    expect_none(
        place(path, node.lineno, node.name)
        for path, tree in TREES.items()
        for node in public(tree.body)
        if not ast.get_docstring(node) and not inherits_docstring(node)
    )


def test_errors_are_not_swallowed() -> None:
    def swallows(handler: ast.ExceptHandler) -> bool:
        if handler.type is None:
            return True
        broad = ast.unparse(handler.type) in {"Exception", "BaseException"}
        return broad and all(isinstance(node, ast.Pass | ast.Continue) for node in handler.body)

    expect_none(
        place(path, node.lineno, "swallows every error")
        for path, node in NODES
        if isinstance(node, ast.ExceptHandler) and swallows(node)
    )


def test_only_the_shell_prints() -> None:
    expect_none(
        place(path, node.lineno, "prints")
        for path, node in NODES
        if isinstance(node, ast.Call)
        and ast.unparse(node.func) == "print"
        and path.relative_to(SRC).parts[0].removesuffix(".py") not in MAY_PRINT
    )


def test_core_asks_no_clock_and_no_chance() -> None:
    def spoken(node: ast.AST) -> list[str]:
        match node:
            case ast.Import(names=names) | ast.ImportFrom(names=names):
                return [alias.name for alias in names]
            case ast.Attribute():
                return [ast.unparse(node)]
        return []

    expect_none(
        place(path, getattr(node, "lineno", 0), name)
        for path, node in NODES
        if path.is_relative_to(SRC / "core")
        for name in spoken(node)
        if CLOCK_OR_CHANCE.search(name)
    )


def test_nothing_is_left_for_later() -> None:
    expect_none(places_with(UNFINISHED))


def test_no_path_of_one_machine() -> None:
    expect_none(places_with(MACHINE_PATH))


def test_no_package_registry_is_named() -> None:
    expect_none(places_with(REGISTRY))


def test_import_is_light() -> None:
    """What a command or an extra needs is loaded when it is used."""
    program = "import sys, ascertain; print(*{name.split('.')[0] for name in sys.modules})"
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    assert HEAVY & set(ran.stdout.split()) == set()
