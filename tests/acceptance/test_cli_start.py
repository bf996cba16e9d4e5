"""How the command starts and ends: usage, programs that do not load, colour, terminals, pipes."""

from __future__ import annotations

import ast
import errno
import os
import pty
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import ascertain
from tests.acceptance.command import ASCERTAIN, Desk

COMMANDS = (
    ("status",), ("actions",), ("show",), ("explain",), ("recover",), ("attest",),
    ("certificate",), ("verify",), ("demo",), ("matrix",), ("journal",), ("journal", "check"),
    ("journal", "rebuild"), ("journal", "reconcile"),
)  # fmt: skip


# --- usage ----------------------------------------------------------------------------------


def test_version(empty: Desk) -> None:
    for words in (("--version",), ("--json", "--version")):
        ran = empty(*words)
        assert (ran.code, ran.out, ran.err) == (0, f"ascertain {ascertain.__version__}\n", "")


def test_the_version_loads_nothing() -> None:
    program = "import sys; from ascertain.cli import main; main(['--version']); print(*sys.modules)"
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    loaded = {name for name in ran.stdout.split() if name.startswith("ascertain")}
    assert loaded == {"ascertain", "ascertain.cli"}


def test_help_loads_no_journal() -> None:
    program = (
        "import sys; from ascertain.cli import main; main(['--help']); main(['verify', '--help']); "
        "print(*sys.modules, file=sys.stderr)"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    for name in ("sqlite3", "rich", "msgspec", "asyncio", "cryptography"):
        assert name not in ran.stderr.split()


@pytest.mark.parametrize("words", [(), *COMMANDS])
def test_help(shown: Desk, words: tuple[str, ...]) -> None:
    for flag in ("--help",) if words else ("--help", "-h"):
        ran = shown(*words, flag)
        assert (ran.code, ran.err) == (0, "")
        assert ran.out.startswith(f"Usage: {' '.join(('ascertain', *words))} ")
        assert "..." not in ran.out.partition("Commands:")[2]
    if words not in ((), ("journal",)):
        assert "--json" in ran.out
    for line in ran.out.splitlines():
        assert len(line) <= 80


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("nope",), "No such command 'nope'."),
        (("journal", "nope"), "No such command 'nope'."),
        (("status", "--nope"), "No such option: --nope"),
        (("show",), "Missing argument 'ID'."),
        (("actions", "--limit", "0"), "Invalid value for '--limit'"),
        (("actions", "--limit", "x"), "Invalid value for '--limit'"),
        (("verify",), "Missing argument 'FILE'."),
        (("status", "more"), "Got unexpected extra argument"),
    ],
)
def test_usage_errors(shown: Desk, words: tuple[str, ...], said: str) -> None:
    ran = shown(*words)
    assert (ran.code, ran.out) == (2, "")
    assert said in ran.first
    assert "--help` shows how it is used." in ran.err


@pytest.mark.parametrize("words", [(), ("journal",)])
def test_without_a_command_the_help_is_shown(shown: Desk, words: tuple[str, ...]) -> None:
    ran = shown(*words)
    assert ran.code == 2
    assert "Commands:" in ran.err


@pytest.mark.parametrize(
    "words",
    [("status",), ("show", "fine"), ("journal", "check"), ("journal", "rebuild"),
     ("certificate", "fine"), ("recover", "--dry-run"),
     ("journal", "reconcile", "--operator", "a", "--reason", "b")],
)  # fmt: skip
def test_a_journal_must_be_named(shown: Desk, words: tuple[str, ...]) -> None:
    ran = shown(*words, journal=None)
    assert (ran.code, ran.out) == (2, "")
    assert ran.first == "ascertain: no journal is named"
    assert "ASCERTAIN_JOURNAL" in ran.err


def test_options_stand_before_or_behind_the_command(shown: Desk) -> None:
    expected = shown("actions", "--json").document["actions"]
    for words in (
        ("--journal", "shop.db", "actions", "--json"),
        ("--json", "actions", "--journal", "shop.db"),
        ("--journal", "nothing.db", "actions", "--journal", "sqlite:shop.db", "--json"),
        ("--journal", "sqlite://shop.db", "--json", "actions"),
        ("--journal", f"sqlite://{shown.place}/shop.db", "--json", "actions"),
    ):
        ran = shown(*words, journal=None)
        assert ran.code == 0, ran.err
        assert ran.document["actions"] == expected


@pytest.mark.parametrize("action_id", ["", "x" * 201, "a\nb", "a\x1bb"])
@pytest.mark.parametrize("command", ["show", "explain", "certificate", "recover"])
def test_malformed_ids(shown: Desk, command: str, action_id: str) -> None:
    more = ("--dry-run",) if command == "recover" else ()
    ran = shown(command, action_id, *more)
    assert (ran.code, ran.out) == (2, "")
    assert "action id" in ran.first
    assert ran.first.isprintable()


@pytest.mark.parametrize("command", ["show", "explain", "certificate", "attest", "recover"])
def test_unknown_ids(shown: Desk, command: str) -> None:
    more = {
        "recover": ("--dry-run",),
        "attest": ("--claim", "applied", "--operator", "a", "--reason", "b", "--authority", "c"),
    }.get(command, ())
    ran = shown(command, "nobody", *more)
    assert (ran.code, ran.out) == (2, "")
    assert ran.first == "ascertain: the journal does not know action 'nobody'"
    assert "`ascertain actions` lists" in ran.err


# --- the user's program ---------------------------------------------------------------------

APPS = {
    "broken.py": "raise ValueError('port is missing\\nsecond line')\n",
    "leaving.py": "import sys\nsys.exit(3)\n",
    "syntax.py": "def f(:\n",
    "needing.py": "import a_module_that_nobody_has\n",
    "empty.py": "",
    "plain.py": "journal = 'payments.db'\nclass C:\n    pass\n",
    "declaring.py": "import ascertain as a\njournal = a.open('app.db', policy=None)\n",
    "elsewhere.py": "import ascertain as a\njournal = a.open('no/such/place.db', "
    "policy=a.limits())\n",
}


@pytest.fixture(scope="module")
def apps(tmp_path_factory: pytest.TempPathFactory) -> Desk:
    desk = Desk(tmp_path_factory.mktemp("apps"))
    for name, text in APPS.items():
        (desk.place / name).write_text(text)
    return desk


@pytest.mark.parametrize(
    ("app", "code", "said", "fix"),
    [
        ("shop", 2, "is not of the form module:object", "--app payments.app:journal"),
        ("shop:", 2, "is not of the form module:object", ""),
        (":journal", 2, "is not of the form module:object", ""),
        ("shop.py:journal()", 2, "is not of the form module:object", ""),
        ("./shop:journal", 2, "is not of the form module:object", ""),
        ("nowhere:journal", 2, "there is no module 'nowhere'", "Looked in"),
        ("shop.inner:journal", 2, "there is no module 'shop.inner'", ""),
        ("broken:journal", 2, "broken cannot be imported: ValueError: port is missing", "--debug"),
        ("leaving:journal", 2, "leaving cannot be imported: SystemExit: 3", ""),
        ("syntax:journal", 2, "syntax cannot be imported: SyntaxError", ""),
        ("needing:journal", 2, "it needs 'a_module_that_nobody_has'", "Install"),
        ("empty:journal", 2, "empty has no 'journal'", "top level"),
        ("shop:jurnal", 2, "shop has no 'jurnal'", "There is --app shop:journal."),
        ("plain:journal", 2, "plain:journal is str, not what `ascertain.open(…)` returns", ""),
        ("shop:pay.declared", 2, "shop:pay.declared is ActionType, not", "--app shop:journal"),
        ("declaring:journal", 2, "declaring cannot be imported: the journal has no policy",
         "policy=limits"),
        ("elsewhere:journal", 3, "The journal cannot be used", ""),
    ],
)  # fmt: skip
def test_programs_that_do_not_load(apps: Desk, app: str, code: int, said: str, fix: str) -> None:
    ran = apps("recover", "--app", app, journal=None)
    assert (ran.code, ran.out) == (code, ""), ran.err
    assert said in ran.first
    assert fix in ran.err
    assert "Traceback" not in ran.err
    again = apps("recover", "--debug", journal=None, ASCERTAIN_APP=app)
    assert again.code == code
    assert "Traceback" in again.err
    assert said in again.err


def test_reading_uses_the_programs_journal_where_none_is_named(shown: Desk) -> None:
    named = shown.json("actions")["actions"]
    ran = shown("actions", "--json", "--app", "shop:journal", journal=None)
    assert ran.document["actions"] == named
    # Where one is named, the program is not even loaded.
    ran = shown("status", "--app", "nowhere:journal")
    assert ran.code == 1
    assert ran.err == ""


# --- colour, terminals, pipes ---------------------------------------------------------------


def on_a_terminal(desk: Desk, *words: str, **environment: str) -> tuple[int, str]:
    """Run with a terminal as stdout and stderr; its exit code, and all that it wrote."""
    ours, theirs = pty.openpty()
    running = subprocess.Popen(
        [ASCERTAIN, *words],
        cwd=desk.place,
        env={**desk.environment, "ASCERTAIN_JOURNAL": "shop.db", "TERM": "xterm", **environment},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    said = b""
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError as error:
            if error.errno == errno.EIO:
                break
            raise
        if not part:
            break
        said += part
    os.close(ours)
    return running.wait(30), said.decode()


def test_colour_is_for_terminals_that_want_it(shown: Desk) -> None:
    _, said = on_a_terminal(shown, "status")
    assert "\x1b[" in said
    _, said = on_a_terminal(shown, "status", NO_COLOR="1")
    assert "\x1b" not in said
    assert "1 needs a person" in said
    for environment in ({}, {"FORCE_COLOR": "1", "TERM": "xterm-256color"}):
        for command in (("status",), ("show", "fine"), ("explain", "fine"), ("actions",)):
            assert "\x1b" not in shown(*command, **environment).out


def test_progress_is_shown_on_a_terminal_alone(desk: Desk) -> None:
    for words in (("journal", "check"), ("journal", "rebuild")):
        code, said = on_a_terminal(desk, *words)
        assert code == 0
        assert "9/9" in said
        ran = desk(*words)
        assert ran.err == ""
        assert "9/9" not in ran.out
    code, said = on_a_terminal(desk, "recover", "--app", "shop:journal")
    assert code == 1
    assert "3/3" in said


def test_a_reader_that_goes_away_is_no_defect(shown: Desk) -> None:
    for words in (("show", "fine"), ("actions", "--json"), ("--help",)):
        read, write = os.pipe()
        os.close(read)
        ran = subprocess.run(
            [ASCERTAIN, *words],
            cwd=shown.place,
            env={**shown.environment, "ASCERTAIN_JOURNAL": "shop.db"},
            stdout=write,
            stderr=subprocess.PIPE,
            timeout=60,
            check=False,
        )
        os.close(write)
        assert ran.returncode == 141, ran.stderr
        assert ran.stderr == b""


# --- what stands beside it ------------------------------------------------------------------


def test_the_matrix(empty: Desk) -> None:
    ran = empty("matrix", "--json", journal=None)
    assert ran.code == 0
    assert len(ran.document) == 40
    assert empty("matrix", journal=None).code == 0


def test_the_demo_is_registered(empty: Desk) -> None:
    ran = empty("demo", "--seed", "x", journal=None)
    assert ran.code == 2
    assert "Invalid value for '--seed'" in ran.first


def test_every_public_name_is_where_the_types_say() -> None:
    """`import ascertain` loads a name when it is asked for: both lists must agree."""
    tree = ast.parse(Path(str(ascertain.__file__)).read_text("utf-8"))
    typed = next(node for node in tree.body if isinstance(node, ast.If))
    said = {
        alias.asname or alias.name: (node.module, alias.name)
        for node in typed.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert set(said) == set(ascertain.__all__) - {"__version__"}
    for name, (module, real) in said.items():
        home = import_module(f"ascertain.{real}" if module == "ascertain" else str(module))
        expected = home if module == "ascertain" else getattr(home, real)
        assert getattr(ascertain, name) is expected
    assert set(ascertain.__all__) <= set(dir(ascertain))
    with pytest.raises(AttributeError, match="no attribute 'nope'"):
        _ = ascertain.nope  # type: ignore[attr-defined]
