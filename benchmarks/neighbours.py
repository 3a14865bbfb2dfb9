"""What a slice has alone and what it has beside a neighbour, on the simulated H200: paces, and returns.

Paces: each pair of loads runs alone at its limits, then together; a load's pace together over its pace
alone is what the neighbour cost it. Loads: `full` keeps 64 kernels of 1 ms queued; `host` launches one,
waits for it and computes (sleeps) for as long, as a program bound by its host does: by itself it keeps the
card half busy.

Returns: a burst slice of 30 % has the card while its neighbour of 60 % sleeps; then the neighbour comes
back. What is timed is its first frames: how long after its return it gets its own share of GPU time.

    python benchmarks/neighbours.py [--seconds 6]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

WEIR = [sys.executable, "-m", "weir"]
SHAPES = {
    "full": ("--kernel-us", "1000", "--queue", "64"),
    "host": ("--kernel-us", "1000", "--wait", "--idle-ms", "1"),
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

    def start(self, load: Load, name: str, *shape: str) -> subprocess.Popen[str]:
        cores = () if load.cores is None else ("--cores", str(load.cores))
        options = ("--name", name, "--policy", load.policy, *cores)
        command = [*WEIR, "run", "--simulate", "h200", "--root", str(self.root), *options, "--"]
        program = [*WEIR, "load", "--no-calibrate", *(shape or SHAPES[load.shape])]
        return subprocess.Popen(
            [*command, *program, *(() if shape else ("--seconds", str(self.seconds), "--warmup", "1.5"))],
            env=self.environment,
            stdout=subprocess.PIPE,
            text=True,
        )

    def paces(self, loads: tuple[Load, ...]) -> list[float]:
        """The part of the card's time that each load got, in percent by its own count."""
        running = [self.start(load, f"slice-{index}") for index, load in enumerate(loads)]
        reports = [json.loads(one.communicate()[0].splitlines()[-1]) for one in running]
        return [100 * report["kernel_seconds"] / report["t"] for report in reports]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=6.0, help="of each run (6)")
    parser.add_argument("--pairs", default="", help="numbers of pairs, as 0,2 (all)")
    options = parser.parse_args()
    chosen = [PAIRS[int(one)] for one in options.pairs.split(",")] if options.pairs else PAIRS
    print("| pair | alone, % | together, % | kept, % |\n| --- | --- | --- | --- |", flush=True)
    with tempfile.TemporaryDirectory(dir="/dev/shm") as temporary:
        bench = Bench(Path(temporary), options.seconds)
        for pair in chosen:
            alone = [bench.paces((load,))[0] for load in pair]
            together = bench.paces(pair)
            kept = [100 * beside / by_itself for beside, by_itself in zip(together, alone, strict=True)]
            cells = (" + ".join(f"{one:.1f}" for one in column) for column in (alone, together, kept))
            print(f"| {' + '.join(map(str, pair))} | {' | '.join(cells)} |", flush=True)
            time.sleep(0.2)
    return 0


if __name__ == "__main__":
    sys.exit(main())
