"""The user's program: ``module:object`` to the `Ascertain` that it opened."""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path
from types import ModuleType

from ascertain.errors import AppNotLoaded, AscertainError, JournalError
from ascertain.opened import Ascertain

_SPEC = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")


def load_app(spec: str) -> Ascertain:
    """Import the module, with the current directory on the path, and find the object.

    Raises AppNotLoaded; JournalError kinds as they are, where the module opens its journal.
    """
    if _SPEC.fullmatch(spec) is None:
        raise AppNotLoaded(
            f"--app {spec!r} is not of the form module:object",
            fix="Write the module as Python imports it, a colon, and the name of what "
            "`ascertain.open(…)` returned: --app payments.app:journal",
        )
    name, _, path = spec.partition(":")
    module = _import(name)
    found: object = module
    for part in path.split("."):
        try:
            found = getattr(found, part)
        except AttributeError:
            raise AppNotLoaded(f"{name} has no {path!r}", fix=_instead(module, name)) from None
    if not isinstance(found, Ascertain):
        raise AppNotLoaded(
            f"{spec} is {type(found).__name__}, not what `ascertain.open(…)` returns",
            fix=_instead(module, name),
        )
    return found


def _import(name: str) -> ModuleType:
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return importlib.import_module(name)
    except JournalError:
        raise
    except AscertainError as error:
        raise AppNotLoaded(f"{name} cannot be imported: {error.message}", fix=error.fix) from error
    except ModuleNotFoundError as error:
        missing = error.name or ""
        if name == missing or name.startswith(f"{missing}."):
            raise AppNotLoaded(
                f"there is no module {missing!r}",
                fix=f"Looked in {here} and on Python's path. Run this where the module can be "
                "imported from, with the program's own Python.",
            ) from error
        raise AppNotLoaded(
            f"{name} cannot be imported: it needs {missing!r}",
            fix="Install what the program needs beside ascertain. `--debug` shows where.",
        ) from error
    except (Exception, SystemExit) as error:
        said = str(error).splitlines()
        raise AppNotLoaded(
            f"{name} cannot be imported: {type(error).__name__}{': ' + said[0] if said else ''}",
            fix="`--debug` shows where. The module must import without running the program.",
        ) from error


def _instead(module: ModuleType, name: str) -> str:
    there = sorted(key for key, value in vars(module).items() if isinstance(value, Ascertain))
    if there:
        return f"There is {', '.join(f'--app {name}:{key}' for key in there)}."
    return "Name what `ascertain.open(…)` returned, at the top level of the module."
