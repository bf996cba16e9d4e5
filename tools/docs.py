"""Write the pages of docs/ that are made from code; with --check, say which ones are stale.

A page is made by a function without parameters that returns Markdown. To add one, give it a line
in PAGES: the page's path under docs/, and the function as ``module:name``.
"""

import sys
from importlib import import_module
from pathlib import Path

DOCS = Path(__file__).parent.parent / "docs"

PAGES: dict[str, str] = {
    "reference/decision-table.md": "ascertain.core.decision_page:page",
    "reference/public-names.md": "public_names:page",
}


def render(source: str) -> str:
    module, _, name = source.partition(":")
    return str(getattr(import_module(module), name)()).rstrip() + "\n"


def main(arguments: list[str]) -> int:
    stale = []
    for page, source in PAGES.items():
        path, text = DOCS / page, render(source)
        if path.exists() and path.read_text(encoding="utf-8") == text:
            continue
        stale.append(page)
        if arguments != ["--check"]:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            print(f"docs/{page}: written")
    if stale and arguments == ["--check"]:
        print(f"stale: {', '.join(stale)}. Run `make docs` and commit the result.")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
