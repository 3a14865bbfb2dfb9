"""Runs every benchmark that needs no card, one after another, and keeps what each printed.

    python -m benchmarks.cpu DIR [--only launch_cost,shares]

Each script of SCRIPTS says in its own docstring what it measures and what its goal is; over the null driver
or the simulated H200. DIR/cpu.md gets date, command, exit code (1: a goal was missed) and output of each.
Run it alone on an idle machine. Ends with 1 where one of them did not end with 0.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from benchmarks.arguments import Parser, pick

HERE = Path(__file__).resolve().parent
SCRIPTS = ("launch_cost", "process_cost", "scrape", "shares", "neighbours")


def section(name: str) -> tuple[int, str]:
    """Run one script; its exit code, and its part of the page."""
    command = [sys.executable, "-m", f"benchmarks.{name}"]
    done = subprocess.run(command, cwd=HERE.parent, capture_output=True, text=True, check=False)
    head = f"{time.strftime('%Y-%m-%d')}, `python -m benchmarks.{name}`, exit code {done.returncode}"
    return done.returncode, f"## {name}\n\n{head}\n\n```\n{done.stdout}{done.stderr}```\n"


def main() -> int:
    """Run them all."""
    parser = Parser(prog="python -m benchmarks.cpu", description=__doc__.splitlines()[0])
    every = ",".join(SCRIPTS)
    parser.add_argument("directory", type=Path, metavar="DIR")
    parser.add_argument("--only", type=pick(every), default=every, help=f"of {every} (all)")
    chosen = parser.parse_args()
    chosen.directory.mkdir(parents=True, exist_ok=True)
    failed, page = 0, ""
    for name in chosen.only:
        code, text = section(name)
        failed |= int(code != 0)
        page += text + "\n"
        (chosen.directory / "cpu.md").write_text(page)
        print(text, flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(main())
