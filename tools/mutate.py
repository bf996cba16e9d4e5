"""Change the core in one place at a time, and see whether its tests notice.

    python tools/mutate.py                  every module of the list below
    python tools/mutate.py outcome cut      some of them
    python tools/mutate.py --list           only say what would be changed

A mutant is *killed* when a test fails, or does not end. Texts that are only shown to people are
left alone. What survives is printed with its place; a change that cannot be noticed because it
changes nothing stands in `EQUIVALENT`, with the reason.

Each mutant runs in a fork of one warm process: only the modules of the core are imported anew,
one of them from changed source. Ready-made tools start a process for each mutant or rewrite the
whole tree, and none swaps the members of an enum, which is what a decision table is made of.
"""

from __future__ import annotations

import argparse
import ast
import copy
import importlib
import importlib.abc
import importlib.util
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parent.parent
CORE = ROOT / "src" / "ascertain" / "core"
TIMEOUT = 120

TESTS: dict[str, tuple[str, ...]] = {
    "decision": ("decision",),
    "cut": ("cut", "outcome", "judgement", "properties"),
    "effects": ("outcome", "properties"),
    "absence": ("outcome", "judgement", "properties"),
    "outcome": ("outcome", "judgement", "properties"),
    "judgement": ("judgement", "properties"),
}
"""For each module of the core, the unit tests that must notice a change, quickest first."""

SLOW = "not random_facts"
"""Left out: what a table or a property shows faster."""

EQUIVALENT: dict[str, str] = {
    "judgement._more: entry.position > since → entry.position >= since": "the record at `since` "
    "is a release, not a precondition",
    "judgement.safe_replay: bound is None or None in last → None in last": "without a bound, no "
    "attempt is known to land by any time; it is written for the type checker",
    "judgement.safe_replay: contract.in_flight.longest_pause or 0 → "
    "contract.in_flight.longest_pause": "where it is unknown, the line above has returned",
    "judgement.safe_replay: 0 → 1": "of `longest_pause or 0`, as above; the other 0 is tested",
    "cut._authority_violations: decided.position > entry.position → "
    "decided.position >= entry.position": "two records have two positions",
    "cut._authority_violations: item.position < entry.position → "
    "item.position <= entry.position": "two records have two positions",
    "effects._add: False → True": "whether it was reversed is set at the end, for all of them",
    "absence.denials: entry.position > release.position → entry.position >= release.position": (
        "two records have two positions"
    ),
    "absence._seen_refusals: release.position < entry.position → "
    "release.position <= entry.position": "two records have two positions",
    "absence._seen_refusals: any → all": "asked only where there is one attempt",
    "cut._effect_violations: entry.position < first → entry.position <= first": "two records have "
    "two positions",
    "cut._receipt_violations: entry.position < first → entry.position <= first": "two records "
    "have two positions",
    "absence.first_release: 0 → 1": "of an action that was never released, where it is not used",
    "outcome._schedule: entry.position > since → entry.position >= since": "the record at `since` "
    "is a release, not a receipt",
    "outcome._seen_after: entry.position > denial.position → "
    "entry.position >= denial.position": "what denies is an absence or a word, not a readback",
    "outcome._read_at: 1 → 2": "of -1: both lie before any time",
    "outcome._latest_denial: claim.entry.position < entry.position → "
    "claim.entry.position <= entry.position": "one record does not say both yes and no",
}
"""`Mutant.name` of each change that changes nothing, and why."""


@dataclass(frozen=True)
class Mutant:
    """One change: where, what stood there and what stands there now."""

    module: str
    number: int
    function: str
    line: int
    before: str
    after: str

    @property
    def name(self) -> str:
        """The change without its line, so that it can be named for longer."""
        return f"{self.module}.{self.function}: {self.before} → {self.after}"


Change = Callable[[], None]


@dataclass
class Site:
    """A place in a tree, what to write about it, and how to change it there."""

    node: ast.AST
    before: str
    after: str
    change: Change


# --- what is changed ----------------------------------------------------------------------

FLIPS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.LShift: ast.RShift,
    ast.BitOr: ast.BitAnd,
}
TWINS = {"min": "max", "max": "min", "any": "all", "all": "any"}
ENUMS: dict[str, tuple[str, ...]] = {
    "Absence": ("NEVER_RELEASED", "TOLD", "SEALED", "GONE_AND_SEEN"),
    "Breach": ("MISSING", "MISMATCH", "DENIED"),
    "Closure": ("CLOSED", "CAUSE_MISSING", "MISMATCH"),
    "Compensation": ("NONE", "OPEN", "APPLIED", "FAILED"),
    "Consistency": ("LINEARIZABLE", "BOUNDED", "EVENTUAL"),
    "Decision": ("EXECUTE", "ADOPT", "VERIFY", "REAUTHORISE", "COMPENSATE", "QUARANTINE"),
    "Effects": ("NONE", "ONE", "SURPLUS", "DENIED"),
    "Finding": (
        "APPLIED_FINAL", "APPLIED_SHORT", "APPLIED_PROVISIONAL", "APPLIED_REVERSED", "REJECTED",
        "NOT_APPLIED", "NOT_APPLIED_SEALED", "CONFLICT", "UNKNOWN",
    ),
    "Needs": ("MET", "OPEN", "BROKEN"),
    "Outcome": (
        "VERIFIED_APPLIED", "VERIFIED_REJECTED", "NOT_APPLIED", "CONFLICT", "UNKNOWN",
    ),
    "Preconditions": ("HOLD", "BROKEN", "UNVERIFIED"),
}  # fmt: skip
ENUMS["F"] = ENUMS["Finding"]


def shown(node: ast.AST) -> str:
    text = " ".join(ast.unparse(node).split())
    return text if len(text) <= 90 else f"{text[:87]}..."


def set_to(parent: ast.AST, field: str, index: int | None, new: ast.AST) -> Change:
    def change() -> None:
        if index is None:
            setattr(parent, field, new)
        else:
            getattr(parent, field)[index] = new

    return change


class Places:
    """Walks a tree in order and yields every site, with the function that it stands in."""

    def __init__(self, tree: ast.Module) -> None:
        self.tree = tree
        self.function = "<module>"

    def sites(self) -> Iterator[tuple[str, Site]]:
        yield from self._children(self.tree, compared=False)

    def _children(self, node: ast.AST, *, compared: bool) -> Iterator[tuple[str, Site]]:
        for field, value in ast.iter_fields(node):
            if field in ("annotation", "returns", "decorator_list", "bases", "keywords_"):
                continue
            if isinstance(value, ast.AST):
                yield from self._visit(node, field, None, value, compared)
            elif isinstance(value, list):
                for index, item in enumerate(value):
                    if isinstance(item, ast.AST):
                        yield from self._visit(node, field, index, item, compared)

    def _visit(
        self, parent: ast.AST, field: str, index: int | None, node: ast.AST, compared: bool
    ) -> Iterator[tuple[str, Site]]:
        if isinstance(node, ast.Import | ast.ImportFrom | ast.JoinedStr | ast.arguments):
            return
        if isinstance(node, ast.Assign) and names_of(node) & {"__slots__", "__all__", "_TEXTS"}:
            return
        if isinstance(node, ast.ClassDef) and node.name in ENUMS:
            return
        outer = self.function
        if isinstance(node, ast.FunctionDef):
            self.function = node.name
        for before, after, new in changes(node, compared):
            # A statement is taken out by putting `pass` there.
            site = Site(node, before, after, set_to(parent, field, index, new))
            yield self.function, site
        inside = compared or isinstance(node, ast.Compare)
        if isinstance(node, ast.Call | ast.IfExp):
            inside = False
        yield from self._children(node, compared=inside)
        self.function = outer


def names_of(node: ast.Assign) -> set[str]:
    return {target.id for target in node.targets if isinstance(target, ast.Name)}


def changes(node: ast.AST, compared: bool) -> Iterator[tuple[str, str, ast.AST]]:
    """(before, after, what stands there instead) for each change of this very node."""
    for new in variants(node, compared):
        yield shown(node), "(nothing)" if isinstance(new, ast.Pass) else shown(new), new


def variants(node: ast.AST, compared: bool) -> Iterator[ast.AST]:
    match node:
        case ast.Compare(ops=ops):
            for at, op in enumerate(ops):
                for flip in FLIPS[type(op)]:
                    new = copy.deepcopy(node)
                    new.ops[at] = flip()
                    yield new
        case ast.BoolOp(op=op, values=values):
            swapped = copy.deepcopy(node)
            swapped.op = ast.Or() if isinstance(op, ast.And) else ast.And()
            yield swapped
            for at in range(len(values)):
                rest = [copy.deepcopy(v) for place, v in enumerate(values) if place != at]
                yield rest[0] if len(rest) == 1 else ast.BoolOp(copy.deepcopy(op), rest)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield copy.deepcopy(operand)
        case ast.BinOp(op=op) if type(op) in ARITHMETIC:
            new = copy.deepcopy(node)
            new.op = ARITHMETIC[type(op)]()
            yield new
        case ast.Constant(value=bool(value)):
            yield ast.Constant(not value)
        case ast.Constant(value=int(value)):
            yield ast.Constant(value + 1)
        case ast.Constant(value=str(value)) if compared:
            yield ast.Constant(f"{value}~")
        case ast.Attribute(value=ast.Name(id=name), attr=attr) if attr in ENUMS.get(name, ()):
            members = ENUMS[name]
            new = copy.deepcopy(node)
            new.attr = members[(members.index(attr) + 1) % len(members)]
            yield new
        case ast.Name(id=name, ctx=ast.Load()) if name in TWINS:
            yield ast.Name(TWINS[name], ast.Load())
        case ast.Call(func=ast.Name(id="sorted"), args=[first, *_]):
            yield ast.Call(ast.Name("list", ast.Load()), [copy.deepcopy(first)], [])
        case ast.If(test=ast.Name() | ast.Attribute() | ast.Call()):
            new = copy.deepcopy(node)
            new.test = ast.UnaryOp(ast.Not(), new.test)
            yield new
        case ast.Return(value=value) if value is not None and not is_none(value):
            yield ast.Return(ast.Constant(None))
        case ast.Expr(value=ast.Call() | ast.Yield() | ast.YieldFrom()):
            yield ast.Pass()
        case ast.AugAssign() | ast.Raise() | ast.Continue() | ast.Break():
            yield ast.Pass()


def is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


@cache
def source(module: str) -> str:
    """The text of a module, read once: a change is named by its number in it."""
    return (CORE / f"{module}.py").read_text(encoding="utf-8")


def mutants(module: str) -> list[Mutant]:
    tree = ast.parse(source(module))
    return [
        Mutant(module, number, function, getattr(s.node, "lineno", 0), s.before, s.after)
        for number, (function, s) in enumerate(Places(tree).sites())
    ]


def changed(mutant: Mutant) -> ast.Module:
    tree = ast.parse(source(mutant.module))
    for number, (_, site) in enumerate(Places(tree).sites()):
        if number == mutant.number:
            site.change()
            return ast.fix_missing_locations(tree)
    raise LookupError(mutant.name)


# --- running ------------------------------------------------------------------------------


class Changed(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports one module of the core from a changed tree."""

    def __init__(self, module: str, tree: ast.Module) -> None:
        self.name = f"ascertain.core.{module}"
        self.path = str(CORE / f"{module}.py")
        self.tree = tree

    def find_spec(self, fullname: str, *_: object) -> ModuleSpec | None:
        if fullname != self.name:
            return None
        return importlib.util.spec_from_loader(fullname, self, origin=self.path)

    def exec_module(self, module: ModuleType) -> None:
        exec(compile(self.tree, self.path, "exec"), module.__dict__)


def warm() -> None:
    """Import what every mutant needs and none changes."""
    sys.path.insert(0, str(ROOT))
    os.chdir(ROOT)
    os.environ.update(PYTEST_DISABLE_PLUGIN_AUTOLOAD="1", HYPOTHESIS_PROFILE="mutation")
    # The package without its public names: they would import every module of the core here.
    bare = ModuleType("ascertain")
    bare.__path__ = [str(CORE.parent)]
    sys.modules["ascertain"] = bare
    for name in ("hypothesis.strategies", "msgspec", "pytest", "ascertain.core.codec"):
        importlib.import_module(name)
    early = [name for name in TESTS if f"ascertain.core.{name}" in sys.modules]
    assert not early, f"imported before they can be changed: {early}"
    from hypothesis import Phase, settings

    settings.register_profile(
        "mutation",
        derandomize=True,
        deadline=None,
        max_examples=20,
        database=None,
        phases=[Phase.explicit, Phase.generate],
    )


def run_tests(module: str, tree: ast.Module | None) -> int:
    """In a child: 0 if the tests pass."""
    import pytest

    with open(os.devnull, "w", encoding="utf-8") as nowhere:
        os.dup2(nowhere.fileno(), 1)
        os.dup2(nowhere.fileno(), 2)
    if tree is not None:
        sys.meta_path.insert(0, Changed(module, tree))
    files = [f"tests/unit/test_core_{name}.py" for name in TESTS[module]]
    options = ["-x", "-q", "-c", os.devnull, "--rootdir", str(ROOT), "-p", "no:cacheprovider"]
    options += ["--import-mode=importlib", "-m", "not full", "-k", SLOW, "--tb=no"]
    return int(pytest.main([*options, *files]))


def start(module: str, tree: ast.Module | None) -> int:
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        signal.alarm(TIMEOUT)
        code = run_tests(module, tree)
    finally:
        os._exit(code)


def passes(module: str) -> bool:
    _, ended = os.waitpid(start(module, None), 0)
    return ended == 0


def survivors(found: list[Mutant], jobs: int, say: Callable[[str], None]) -> list[Mutant]:
    """The mutants whose tests all pass."""
    waiting, running, alive = list(reversed(found)), {}, []
    done, began = 0, time.monotonic()
    while waiting or running:
        while waiting and len(running) < jobs:
            mutant = waiting.pop()
            running[start(mutant.module, changed(mutant))] = mutant
        child, ended = os.wait()
        mutant = running.pop(child)
        done += 1
        if ended == 0:
            alive.append(mutant)
            word = "no change" if mutant.name in EQUIVALENT else "survived "
            say(f"{word} {mutant.module}.py:{mutant.line}: {mutant.name}")
        elif os.WIFSIGNALED(ended):
            say(f"no end    {mutant.module}.py:{mutant.line}: {mutant.name}")
        if done % 100 == 0:
            say(f"{done} of {len(found)} in {time.monotonic() - began:.0f} s")
    return alive


@dataclass(frozen=True)
class Score:
    """What a run came to. ``unknown``: survivors that are not known to change nothing."""

    mutants: int
    equivalent: int
    unknown: tuple[Mutant, ...]

    @property
    def killed(self) -> float:
        """The share that was killed, of those that change something."""
        counted = self.mutants - self.equivalent
        return 1.0 if not counted else (counted - len(self.unknown)) / counted


def measure(modules: list[str], jobs: int, say: Callable[[str], None] = print) -> Score:
    """Run every mutant of these modules. Raises RuntimeError if the tests fail without one."""
    warm()
    for module in modules:
        if not passes(module):
            raise RuntimeError(f"the tests of {module} fail before anything is changed")
    found = [mutant for module in modules for mutant in mutants(module)]
    alive = survivors(found, jobs, say)
    unknown = tuple(mutant for mutant in alive if mutant.name not in EQUIVALENT)
    return Score(len(found), len(alive) - len(unknown), unknown)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("modules", nargs="*", default=[*TESTS], help=", ".join(TESTS))
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--list", action="store_true")
    chosen = parser.parse_args(arguments)
    if chosen.list:
        for module in chosen.modules:
            for mutant in mutants(module):
                print(f"{mutant.module}.py:{mutant.line}: {mutant.name}")
        return 0
    score = measure(chosen.modules, chosen.jobs, lambda line: print(line, flush=True))
    print(
        f"{score.mutants} mutants, {len(score.unknown)} survived, {score.equivalent} change "
        f"nothing: {score.killed:.1%} killed"
    )
    return 0 if score.killed >= 0.95 else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
