"""``python -m bench [CASE …]``: run the cases, print the rows, write ``bench/results.json``."""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from pathlib import Path

from .cases import CASES
from .harness import Row

HERE = Path(__file__).parent


def main(names: list[str]) -> int:
    """Run the named cases, or all."""
    wrong = [name for name in names if name not in CASES]
    if wrong:
        sys.stderr.write(f"no case {', '.join(wrong)}; there are {', '.join(CASES)}\n")
        return 2
    rows: list[Row] = []
    # On the project's own disk: a temporary folder in memory would not wait for anything.
    folder = Path(tempfile.mkdtemp(prefix=".run-", dir=HERE))
    try:
        for name in names or list(CASES):
            for row in CASES[name](folder / name):
                rows.append(row)
                sys.stdout.write(
                    f"{row.name:48} {row.ratio:10.3f} ({row.low:.3f} to {row.high:.3f}) "
                    f"{row.unit}, target {row.target}\n"
                )
                sys.stdout.flush()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if not names:
        text = json.dumps([row.plain() for row in rows], indent=2, ensure_ascii=False)
        (HERE / "results.json").write_text(text + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
