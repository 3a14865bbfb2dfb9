"""What a slice has alone and what it has beside a neighbour, on the simulated H200: paces, and returns.

Paces: each pair of loads runs alone at its limits, then together; a load's pace together over its pace
alone is what the neighbour cost it. Loads: `full` keeps 64 kernels of 1 ms queued; `host` launches one,
waits for it and computes (sleeps) for as long, as a program bound by its host does: by itself it keeps the
card half busy.

Returns: a slice that borrows (burst at 30 %, or without a cap) keeps 64 kernels queued while its neighbour
of 60 % sleeps; then that comes back, again and again. What it gets of the card in each 20 ms frame after its
first launch says when the loan was back: 60 % from the third frame on is the goal.

    python benchmarks/neighbours.py [--seconds 6]
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from benchmarks.arguments import LONGEST, Parser, number, pick, whole
from simgpu.load import program

WEIR = [sys.executable, "-m", "weir"]
LOAD = [str(program()), "--no-calibrate", "--kernel-us", "1000"]
WARMUP_S = "1.5"
FRAME_S = 0.02
SHOWN = 6  # frames after a return
SHAPES = {
    "full": ("--queue", "64"),
    "host": ("--wait", "--idle-ms", "1"),
    "short": ("--kernel-us", "200", "--wait", "--idle-ms", "0.2"),
}


@dataclass(frozen=True)
class Load:
    """A load in a slice. `cores` is None for a slice without a cap."""

    shape: str
    cores: int | None
    policy: str = "fixed"

    def __str__(self) -> str:
        return f"{self.shape} at {'no cap' if self.cores is None else f'{self.cores} %'}"


PAIRS = (
    (Load("full", 60), Load("full", 30)),
    (Load("host", 60), Load("host", 30)),
    (Load("host", 50), Load("host", 50)),
    (Load("short", 60), Load("short", 30)),
    (Load("host", 60), Load("full", 30)),
    (Load("full", 60), Load("host", None)),
    (Load("host", 60), Load("full", None)),
)


class Bench:
    """Starts loads on a machine and a root of its own."""

    def __init__(self, directory: Path, seconds: float) -> None:
        self.root = directory / "root"
        self.seconds = seconds
        self.environment = {**os.environ, "SIMGPU_STATE": str(directory / "machine")}

    def start(self, load: Load, name: str, *command: str) -> subprocess.Popen[str]:
        """`weir run` of a load, or of another program, in a slice of the load's limits."""
        cores = () if load.cores is None else ("--cores", str(load.cores))
        options = ("--name", name, "--policy", load.policy, *cores)
        run = [*WEIR, "run", "--simulate", "h200", "--root", str(self.root), *options, "--"]
        plain = [*LOAD, *SHAPES[load.shape], "--seconds", str(self.seconds), "--warmup", WARMUP_S]
        return subprocess.Popen(
            [*run, *(command or plain)], env=self.environment, stdout=subprocess.PIPE, text=True
        )

    def paces(self, loads: tuple[Load, ...]) -> list[float]:
        """The part of the card's time that each load got, in percent by its own count."""
        running = [self.start(load, f"slice-{index}") for index, load in enumerate(loads)]
        reports = [json.loads(one.communicate()[0].splitlines()[-1]) for one in running]
        return [100 * report["kernel_seconds"] / report["t"] for report in reports]

    def returns(self, borrower: Load, times: int) -> list[float]:
        """Percent of each of the first frames that the returning neighbour got, averaged over its returns."""
        load = shlex.join(
            [*LOAD, "--queue", "4", "--seconds", "0.3", "--report", "-", "--report-every", "0.02"]
        )
        loop = f"for n in {' '.join('x' * times)}; do sleep 1; {load}; done"
        lender = Load("full", 60)
        other = self.start(borrower, "borrower", *LOAD, *SHAPES["full"], "--seconds", str(2 * times + 5))
        back = self.start(lender, "lender", "sh", "-c", loop)
        lines = [json.loads(line) for line in back.communicate()[0].splitlines()]
        other.terminate()
        other.communicate()
        return frames(lines)


def frames(lines: list[dict[str, float]]) -> list[float]:
    """The mean over all runs of the kernel time that came in each frame, in percent of it."""
    seen: dict[int, list[float]] = {}
    done = before = 0.0
    for line in lines:
        if line["t"] < before:
            done = before = 0.0
        took = line["t"] - before
        seen.setdefault(round(before / FRAME_S), []).append(100 * (line["kernel_seconds"] - done) / took)
        done, before = line["kernel_seconds"], line["t"]
    return [sum(seen[n]) / len(seen[n]) for n in range(SHOWN) if n in seen]


def main() -> int:
    parser = Parser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=number(1, LONGEST), default=6.0, help="of each run (6)")
    every = ",".join(map(str, range(len(PAIRS))))
    parser.add_argument("--pairs", type=pick(every), default=every, help="numbers of pairs, as 0,2 (all)")
    parser.add_argument("--returns", type=whole(0, 10_000), default=20, help="of the neighbour (20)")
    options = parser.parse_args()
    chosen = [PAIRS[int(one)] for one in options.pairs]
    with tempfile.TemporaryDirectory(dir="/dev/shm") as temporary:
        bench = Bench(Path(temporary), options.seconds)
        print("| pair | alone, % | together, % | kept, % |\n| --- | --- | --- | --- |", flush=True)
        for pair in chosen:
            alone = [bench.paces((load,))[0] for load in pair]
            together = bench.paces(pair)
            kept = [100 * beside / by_itself for beside, by_itself in zip(together, alone, strict=True)]
            cells = (" + ".join(f"{one:.1f}" for one in column) for column in (alone, together, kept))
            print(f"| {' + '.join(map(str, pair))} | {' | '.join(cells)} |", flush=True)
        print("\n| borrower | the returning 60 % slice in frames 1, 2, …, % |\n| --- | --- |", flush=True)
        for borrower in (Load("full", 30, "burst"), Load("full", None)) if options.returns else ():
            shares = ", ".join(f"{one:.0f}" for one in bench.returns(borrower, options.returns))
            print(f"| {borrower} {borrower.policy} | {shares} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
