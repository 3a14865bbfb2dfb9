"""What Weir does on a real card, measured from outside the limiter, as the tables of docs/benchmarks.md.

    python benchmarks/card.py --out DIR [--parts memory,alone,pairs] [--loads matmul,training]

Needs an NVIDIA card, PyTorch and an installed `weir`. Each part prints Markdown and writes DIR/PART.md, so a
part that was cut off can be run again by itself. Shares are GPU time: NVML's utilisation of the card while
`torch_load.py` counts its own work, and in the seconds after that the time in which kernels ran as CUPTI sees
it. NVML's utilisation of each process is not used: of a pair in slots it read 89.7 and 19.0 %. The SM clock
stands beside them: a card held to 30 % clocks higher and does more than 30 % of the work. Changes no setting.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pynvml

HERE = Path(__file__).resolve().parent
WARM = 14.0  # seconds a PyTorch program may take until it is warm; both of a pair begin together after that


@dataclass
class Sampler:
    """Asks NVML five times a second while a window is open."""

    handle: object
    utilization: list[float] = field(default_factory=list)
    clock: list[float] = field(default_factory=list)

    def watch(self, start: float, end: float) -> None:
        """Sample from wall-clock second `start` to `end`; NVML is over a second late, so begin after that."""
        time.sleep(max(0.0, start + 2.0 - time.time()))
        while time.time() < end:
            self.utilization.append(pynvml.nvmlDeviceGetUtilizationRates(self.handle).gpu)
            self.clock.append(pynvml.nvmlDeviceGetClockInfo(self.handle, pynvml.NVML_CLOCK_SM))
            time.sleep(0.2)


def weir_run(name: str, cores: int | None, memory: str | None, command: list[str]) -> list[str]:
    """The command line that runs `command` in a slice; no limits where None."""
    limits = ["--cores", str(cores)] if cores else []
    limits += ["--memory", memory] if memory else []
    return ["weir", "run", "--name", name, *limits, "--", *command]


def load(kind: str, seconds: float, start: float, profile: float = 0) -> list[str]:
    """The command line of one PyTorch load."""
    script = str(HERE / "torch_load.py")
    return [
        sys.executable,
        script,
        kind,
        f"--seconds={seconds}",
        f"--start-at={start}",
        f"--profile={profile}",
    ]


@dataclass(frozen=True)
class Outcome:
    """One program's own line, and what NVML said of the card meanwhile."""

    line: dict[str, float]
    pid: int
    sampler: Sampler

    @property
    def share(self) -> float:
        """Percent of the window in which the card had a kernel, by NVML."""
        return statistics.fmean(self.sampler.utilization or [0])

    @property
    def clock(self) -> float:
        """Mean SM clock in MHz."""
        return statistics.fmean(self.sampler.clock or [0])


def measure(commands: list[Callable[[float], list[str]]], seconds: float) -> list[Outcome]:
    """Start all commands, let them begin together, watch, and collect their lines."""
    start = time.time() + WARM
    processes = [subprocess.Popen(make(start), stdout=subprocess.PIPE, text=True) for make in commands]
    sampler = Sampler(pynvml.nvmlDeviceGetHandleByIndex(0))
    sampler.watch(start, start + seconds)
    outcomes = []
    for process in processes:
        output = process.communicate()[0].strip().splitlines()
        line = json.loads(output[-1]) if output and output[-1].startswith("{") else {}
        outcomes.append(Outcome(line, process.pid, sampler))
    return outcomes


def memory_part(_: float, __: list[str]) -> str:
    """A 3000 MiB slice as nvidia-smi and PyTorch see it."""
    smi = subprocess.run(
        weir_run(
            "smi", None, "3000MiB", ["nvidia-smi", "--query-gpu=memory.total,memory.used", "--format=csv"]
        ),
        capture_output=True,
        text=True,
        check=False,
    )
    torch = subprocess.run(
        weir_run("torch", None, "3000MiB", [sys.executable, str(HERE / "torch_memory.py")]),
        capture_output=True,
        text=True,
        check=False,
    )
    return f"```\n{smi.stdout}{smi.stderr}{torch.stdout}{torch.stderr[-2000:]}```\n"


def table(*columns: str) -> list[str]:
    """The head of a Markdown table, to which rows are appended."""
    return [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]


def add(rows: list[str], *cells: object) -> None:
    """Append one row, and print it at once: a part that is cut off has shown what it had."""
    rows.append(f"| {' | '.join(map(str, cells))} |")
    print(rows[-1], flush=True)


def alone_part(seconds: float, loads: list[str]) -> str:
    """Each load without Weir, in a slice without limits, and at two core limits, alone on the card."""
    rows = table("load", "limit", "GPU time, NVML %", "kernels, CUPTI %", "work, % of bare", "SM clock, MHz")
    for kind in loads:
        bare = 0.0
        for label, cores in (("no Weir", None), ("no limit", 0), ("30 %", 30), ("60 %", 60)):

            def command(start: float, kind: str = kind, cores: int | None = cores) -> list[str]:
                plain = load(kind, seconds, start, profile=4)
                return plain if cores is None else weir_run(f"{kind}-{cores}", cores, None, plain)

            [outcome] = measure([command], seconds)
            rate = outcome.line.get("per_second", 0.0)
            bare = bare or rate or 1.0
            kernels = 100 * outcome.line.get("kernel_share", 0.0)
            work = f"{100 * rate / bare:.1f}"
            add(rows, kind, label, f"{outcome.share:.1f}", f"{kernels:.1f}", work, f"{outcome.clock:.0f}")
    return "\n".join(rows) + "\n"


def pairs_part(seconds: float, loads: list[str]) -> str:
    """60 + 30 together: what each got, and its work beside what it does bare and alone."""
    rows = table(
        "pair", "asked", "kernels of each, CUPTI %", "work of each, % of bare alone", "card busy, NVML %"
    )
    for kind in loads:
        [bare] = measure([lambda start, kind=kind: load(kind, seconds, start)], seconds)
        limited = [
            lambda start, kind=kind, cores=cores: weir_run(
                f"{kind}-{cores}", cores, None, load(kind, seconds, start, profile=5)
            )
            for cores in (60, 30)
        ]
        pair = measure(limited, seconds)
        alone = bare.line["per_second"]
        work = " + ".join(f"{100 * one.line.get('per_second', 0) / alone:.1f}" for one in pair)
        kernels = " + ".join(f"{100 * one.line.get('kernel_share', 0):.1f}" for one in pair)
        add(rows, f"{kind} + {kind}", "60 + 30", kernels, work, f"{pair[0].share:.1f}")
    return "\n".join(rows) + "\n"


PARTS: dict[str, Callable[[float, list[str]], str]] = {
    "memory": memory_part,
    "alone": alone_part,
    "pairs": pairs_part,
}


def main() -> None:
    """Run the parts that were asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument(
        "--loads", default="matmul,elementwise,training", help="for the parts alone and pairs"
    )
    parser.add_argument("--seconds", type=float, default=12)
    options = parser.parse_args()
    pynvml.nvmlInit()
    options.out.mkdir(parents=True, exist_ok=True)
    driver = pynvml.nvmlSystemGetDriverVersion()
    name = pynvml.nvmlDeviceGetName(pynvml.nvmlDeviceGetHandleByIndex(0))
    for part in options.parts.split(","):
        command = (
            f"python benchmarks/card.py --parts {part} --loads {options.loads} --seconds {options.seconds:g}"
        )
        head = f"{time.strftime('%Y-%m-%d')}, {name}, driver {driver}, `{command}`\n\n"
        print(f"== {part}\n{head}", flush=True)
        text = PARTS[part](options.seconds, options.loads.split(","))
        (options.out / f"{part}.md").write_text(head + text)
        print(text, flush=True)


if __name__ == "__main__":
    main()
