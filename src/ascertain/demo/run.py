"""The demo as a whole: the same payments by the usual retry loop, then with Ascertain.

``main`` is what the command runs. It starts the provider and the lossy network twice, kills
workers under one seed, counts at the provider, and ends with one table.
"""

from __future__ import annotations

import argparse
import importlib.util
import json as json_document
import secrets
import shlex
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from types import FrameType

import ascertain
from ascertain.demo.certified import JOURNAL, MANIFEST, certificate_path, run_guarded
from ascertain.demo.driver import Event
from ascertain.demo.guarded import POLICY
from ascertain.demo.naive import run_naive
from ascertain.demo.provider import FIX
from ascertain.demo.report import Row
from ascertain.errors import AscertainError, InputRefused

NUMBER, WORKERS, KILLS, RECOVERY_KILLS = 200, 4, 12, 4
INTERRUPTED = 130
TITLES = {"naive": "retry loop", "ascertain": "Ascertain"}

BARS = {"begin": "", "recover end": "  left open", "certified": "  certificates"}
"""What a bar counts: distinct payments that a word of the run was about."""

Listener = Callable[[Event], None]


def main(seed: int | None, json: bool, keep: Path | None, *, number: int = NUMBER) -> int:
    """Run the demo and print its table, or with ``json`` its figures alone.

    ``seed``: of payments, network and kills; one is drawn and printed if it is None.
    ``keep``: an empty or new directory for journal, certificates and key manifest; without
    one they are left in a temporary directory, which is named, or removed with ``json``.

    0: with Ascertain, nothing was doubled, lost or left unknown, and every certificate
    verifies. 1: that is not so. 2: the demo could not run. 130: it was interrupted.
    """
    seed = secrets.randbelow(100_000) if seed is None else seed
    directory: Path | None = None
    unwanted = keep is None
    try:
        with _interruptible():
            _check_installed()
            directory = _directory(keep)
            if not json:
                print(f"seed {seed}: {number} supplier payments, twice, through a network that")
                print("drops, delays and doubles; workers are killed on the way", flush=True)
            started = time.monotonic()
            rows = run_both(seed, directory, number=number)
            took_s = time.monotonic() - started
        unwanted = keep is None and json
    except AscertainError as error:
        unwanted = False
        print(f"ascertain demo: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("ascertain demo: interrupted; its programs are ended", file=sys.stderr)
        return INTERRUPTED
    finally:
        if directory is not None and unwanted:
            shutil.rmtree(directory, ignore_errors=True)
    if json:
        print(json_document.dumps({"seed": seed, "runs": rows}, indent=2))
    else:
        _show(rows, took_s)
        _show_next(directory, seed)
    return 0 if kept_its_word(rows[-1]) else 1


def kept_its_word(row: Row) -> bool:
    """Is every approved payment made once, known, and certified?"""
    once = row["effects"] == row["approved"]
    open_ends = row["duplicates"] + row["lost"] + row["unknown"]
    return once and not open_ends and row["verified"] == row["approved"]


def run_both(seed: int, directory: Path, *, number: int = NUMBER) -> list[Row]:
    """Both runs, one after the other, with as many kills as befit the number of payments."""
    workers = WORKERS if number >= 100 else 2
    kills = max(2, number * KILLS // NUMBER)
    recovery_kills = max(1, number * RECOVERY_KILLS // NUMBER)
    with _progress(number) as follow:
        spool = directory / "naive"
        spool.mkdir(parents=True)
        naive = run_naive(
            seed, spool, number=number, workers=workers, kills=kills, on_event=follow("naive")
        )
        guarded = run_guarded(
            seed,
            directory,
            number=number,
            workers=workers,
            kills=kills,
            recovery_kills=recovery_kills,
            on_event=follow("ascertain"),
        )
    return [naive, guarded]


def _check_installed() -> None:
    missing = [name for name in ("localstripe", "stripe") if not importlib.util.find_spec(name)]
    if missing:
        be = "are" if len(missing) > 1 else "is"
        raise AscertainError(f"{' and '.join(missing)} {be} not installed", fix=FIX)


def _directory(keep: Path | None) -> Path:
    if keep is None:
        return Path(tempfile.mkdtemp(prefix="ascertain-demo-"))
    try:
        keep.mkdir(parents=True, exist_ok=True)
        empty = not any(keep.iterdir())
    except OSError as error:
        raise InputRefused(
            f"{keep} cannot be used: {error.strerror}", fix="Give a directory that can be made."
        ) from error
    if not empty:
        raise InputRefused(f"{keep} is not empty", fix="Give a new or an empty directory.")
    return keep.absolute()


@contextmanager
def _interruptible() -> Iterator[None]:
    """A polite request to end is Ctrl-C: every program that was started is ended."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = {name: signal.signal(name, stop) for name in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for name, handler in before.items():
            signal.signal(name, handler)


# --- what is shown ------------------------------------------------------------------------


def _progress(number: int) -> AbstractContextManager[Callable[[str], Listener]]:
    """A bar for each run where a person looks on, else nothing."""
    if not sys.stderr.isatty():
        return nullcontext(lambda run: lambda event: None)
    return _bars(number)


@contextmanager
def _bars(number: int) -> Iterator[Callable[[str], Listener]]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = (TextColumn("{task.description:<22}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:

        def follow(run: str) -> Listener:
            bars = {"begin": progress.add_task(TITLES[run], total=number)}
            seen: dict[str, set[str]] = {word: set() for word in BARS}

            def listen(event: Event) -> None:
                if event.word not in BARS:
                    return
                seen[event.word].add(event.action_id)
                if event.word not in bars:
                    total = number if event.word == "certified" else None
                    bars[event.word] = progress.add_task(BARS[event.word], total=total)
                progress.update(bars[event.word], completed=len(seen[event.word]))

            return listen

        yield follow


def _show(rows: list[Row], took_s: float) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False, header_style="bold")
    table.add_column("", no_wrap=True)
    heads = ("approved", "effects at\nthe provider", "duplicates", "lost", "unknown", "kills")
    for head in (*heads, "certificates\nverified"):
        table.add_column(head, justify="right", no_wrap=True)
    for row in rows:
        figures = (row["effects"], row["duplicates"], row["lost"], row["unknown"], row["kills"])
        cells = [str(figure) for figure in (row["approved"], *figures)]
        table.add_row(TITLES[row["name"]], *cells, str(row["verified"]))
    console = Console()
    console.print()
    console.print(table)
    console.print(f"\n{took_s:.0f} s", highlight=False)


def _show_next(directory: Path, seed: int) -> None:
    """Three commands to try, on the payment that had the most to tell."""
    with ascertain.open(directory / JOURNAL, policy=POLICY, read_only=True) as journal:
        rows = journal.journal.actions(type="supplier-payment")
    told = max(rows, key=lambda row: (row.attempts, row.epoch)).action_id
    journal_path = shlex.quote(str(directory / JOURNAL))
    manifest = shlex.quote(str(directory / MANIFEST))
    certificate = shlex.quote(str(certificate_path(directory, told)))
    command = _command()
    print("\nTry next:")
    print(f"  {command} status --journal {journal_path}")
    print(f"  {command} show {told} --journal {journal_path}")
    print(f"  {command} verify {certificate} --manifest {manifest}")


def _command() -> str:
    """How the command is called here: by its name, or by where it stands."""
    if shutil.which("ascertain") is not None:
        return "ascertain"
    beside = Path(sys.executable).with_name("ascertain")
    try:
        return shlex.quote(str(beside.relative_to(Path.cwd())))
    except ValueError:
        return shlex.quote(str(beside))


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m ascertain.demo.run")
    parser.add_argument("--seed", type=int)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--number", type=int, default=NUMBER, help="of payments")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    options = _parse(None)
    sys.exit(main(options.seed, options.json, options.keep, number=options.number))
