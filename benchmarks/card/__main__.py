"""Runs the parts that were asked for, and writes tables and pictures of all that is known in DIR.

Ends with 0 when every row is there, with 3 when the budget was spent first: give the same command again.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from benchmarks.arguments import LONGEST, Parser, number, pick
from benchmarks.card import alone, frameworks, latency, memory, mps, overhead, pairs, tables, turns
from benchmarks.card.bench import Bench, BudgetSpentError, Names
from benchmarks.card.journal import Journal
from weir.errors import HostError, UsageError, WeirError
from weir.simulation import open_nvml

PARTS: dict[str, Callable[[Bench], None]] = {
    "overhead": overhead.run,
    "alone": alone.run,
    "pairs": pairs.run,
    "latency": latency.run,
    "memory": memory.run,
    "frameworks": frameworks.run,
    "mps": mps.run,
    "turns": turns.run,
}
QUICK_LIMITS = (10, 30, 70)
SECONDS_OF_PARTS = """
how long the parts take, in seconds, where S is --seconds and 3 are --settle; a call is planned with --rows:
  overhead    35 each of seven PyTorch programs in phases, 27 each of five others; 55 each of three ways to
              launch, 25 memory calls: 570
  alone       each limit S+3, PyTorch's S+7; a start 2, PyTorch's 8. All at 20: 2800; at 8: 1500.
              --rows alone/training/ is one program: 200 at 20, without its row without Weir 165
  pairs       each row S+3, and 4 to 10 for each of 20 starts; 30 more where a load does not fill the card.
              All at 20: 1100; at 8: 700
  latency     twelve rows of S+5. At 20: 300; at 8: 155
  memory      2 to 3 each of 40 rows: 100
  frameworks  15 each of 9 rows: 140; 60 each of 2 more where vLLM is: 260
  mps         S+7 each of 12 rows, 30 for memory. At 20: 350; at 4: 165
  turns       7 each of 15 rows, however long others are: 105
What is in DIR/rows.jsonl is not measured again without --again. A row begins only if it will end in time.
"""
UNFINISHED = 3


def percents(text: str) -> tuple[int, ...]:
    """Limits. Raises ArgumentTypeError."""
    with contextlib.suppress(ValueError):
        values = tuple(map(int, text.split(",")))
        if all(1 <= value <= 100 for value in values):
            return values
    raise argparse.ArgumentTypeError(f"{text}: not allowed; percents from 1 to 100, as 10,30")


def options() -> argparse.Namespace:
    """The command line."""
    parser = Parser(
        prog="python -m benchmarks.card",
        description=__doc__.splitlines()[0],
        epilog=SECONDS_OF_PARTS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    every = ",".join(PARTS)
    parser.add_argument("directory", type=Path, metavar="DIR", help="rows, tables and pictures go here")
    parser.add_argument("--parts", type=pick(every), default=every, help=f"of {every} (all)")
    parser.add_argument(
        "--rows", action="append", metavar="TEXT", help="only rows whose part/name contains this, or another"
    )
    parser.add_argument("--seconds", type=number(0.1, LONGEST), help="of each row (20; 10 with --quick)")
    parser.add_argument("--settle", type=number(0, LONGEST), default=3.0, help="seconds before each row (3)")
    parser.add_argument(
        "--limits", type=percents, help="percent, separated by commas (10,30,50,70,90; 10,30,70 with --quick)"
    )
    parser.add_argument("--quick", action="store_true", help="a first look: short rows, no bare rows")
    parser.add_argument(
        "--cupti", type=number(0, LONGEST), default=2.0, help="seconds under CUPTI after a PyTorch row (2)"
    )
    parser.add_argument("--budget", type=number(1, LONGEST), help="stop before so many seconds are over")
    parser.add_argument("--simulate", metavar="MACHINE", help="a simulated machine, as h200")
    parser.add_argument("--commit", default="", help="what is measured, told beside its rows")
    parser.add_argument(
        "--again", action="store_true", help="replace rows of another commit than --commit or another length"
    )
    parser.add_argument("--docs", type=Path, metavar="FILE", help="also write the tables into this page")
    chosen = parser.parse_args()
    if chosen.docs and not chosen.docs.parent.is_dir():
        parser.error(f"--docs: {chosen.docs}: not allowed; a page in a directory that exists")
    if chosen.again and not chosen.commit:
        parser.error("--again: alone: not allowed; together with --commit, which says what is older")
    return chosen


def bench_of(chosen: argparse.Namespace, started: float) -> Bench:
    """What the parts are given."""
    nvml = open_nvml(chosen.simulate)
    limits = QUICK_LIMITS if chosen.quick else Bench.limits
    return Bench(
        journal=Journal(chosen.directory),
        nvml=nvml,
        gpu=nvml.gpus()[0],
        root=chosen.directory.resolve() / "slices",
        simulate=chosen.simulate,
        commit=chosen.commit,
        seconds=chosen.seconds or (10.0 if chosen.quick else 20.0),
        settle=chosen.settle,
        limits=chosen.limits or limits,
        deadline=started + chosen.budget if chosen.budget else float("inf"),
        only=tuple(chosen.rows or [""]),
        again=chosen.again,
        bare=not chosen.quick,
        cupti=0.0 if chosen.quick else chosen.cupti,
    )


def names_of(bench: Bench, parts: Iterable[str]) -> list[str]:
    """The rows that these parts have."""
    fields = {one.name: getattr(bench, one.name) for one in dataclasses.fields(bench)}
    names = Names(**fields)
    for part in parts:
        (mps.ask_for_rows if part == "mps" else PARTS[part])(names)
    return list(dict.fromkeys(names.asked))


def check_rows(bench: Bench, parts: Sequence[str]) -> None:
    """Raise UsageError for a --rows that is in the name of no row of these parts, before one is measured."""
    asked = names_of(bench, parts)
    for text in filter(None, bench.only):
        if not any(text in name for name in asked):
            loads = sorted({name.rpartition("/")[0] + "/" for name in asked})
            raise UsageError("--rows", text, f"a part of a row's name here: {' '.join(loads) or 'none'}")


def main() -> int:
    """One call."""
    started = time.monotonic()
    chosen = options()
    try:
        bench = bench_of(chosen, started)
        check_rows(bench, chosen.parts)
        bench.root.mkdir(mode=0o700, exist_ok=True)
    except WeirError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    except OSError as error:
        print(
            f"DIR: {chosen.directory}: {error.strerror}; a directory that can be written to", file=sys.stderr
        )
        return HostError.exit_code
    finished = True
    try:
        for part in chosen.parts:
            PARTS[part](bench)
    except BudgetSpentError:
        finished = False
        print("budget spent: give the same command again", flush=True)
    tables.write(bench.journal, chosen.docs, names_of(bench, PARTS))
    return 0 if finished else UNFINISHED


if __name__ == "__main__":
    sys.exit(main())
