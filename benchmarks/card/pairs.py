"""Part `pairs`: two loads (or four) side by side, each in a slice; their shares are changed while they run.

NVML's utilisation of each process is no measure of slots (89.7 and 19.0 % for a pair held to 60 and 30), so
what each got is its own count of finished kernels, or its limiter's counter where it has none, second by
second; the card's utilisation stands beside them. Programs that do not fill the card are compared with
themselves alone at their limits (company.py), and without limits, for what they lose by themselves."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial

from benchmarks.card import company
from benchmarks.card.alone import figures
from benchmarks.card.bench import Bench, LoadError
from benchmarks.card.journal import Record
from benchmarks.card.loads import BY_NAME, available
from benchmarks.card.program import Program
from benchmarks.card.watch import watch

Shares = tuple[int, ...]
TWO: tuple[Shares, ...] = ((60, 30), (50, 50), (10, 90))


@dataclass(frozen=True)
class Mix:
    """Loads that run together, and the shares they are given in turn."""

    loads: tuple[str, ...]
    shares: tuple[Shares, ...] = TWO

    @property
    def name(self) -> str:
        """As `1ms+44us`."""
        return "+".join(self.loads)

    @property
    def spares(self) -> bool:
        """Whether one of them does not fill the card by itself."""
        return not all(BY_NAME[load].fills for load in self.loads)

    def lasting(self, bench: Bench) -> float:
        """Seconds that a row takes."""
        kept = company.ROUNDS * len(self.loads) * company.LASTING if self.spares else 0
        return bench.settle + bench.seconds + kept

    def row(self, shares: Shares | None) -> str:
        """The name of a row; `shares` None: without Weir."""
        return f"{self.name}/{'+'.join(map(str, shares)) if shares else 'bare'}"


MIXES = (
    Mix(("1ms", "1ms")),
    Mix(("44us", "44us")),
    Mix(("1ms", "44us")),
    Mix(("1ms", "20ms")),
    Mix(("1ms",) * 4, ((25, 25, 25, 25),)),
    Mix(("1ms", "44us", "graph", "20ms"), ((25, 25, 25, 25),)),
    Mix(("matmul", "matmul")),
    Mix(("training", "training")),
    Mix(("matmul", "elementwise")),
    Mix(("training-cpu", "training-cpu"), ((50, 50), (60, 30))),
)


def give(programs: Sequence[Program], shares: Shares, before: Shares) -> None:
    """Change the shares, those first that become smaller: together they never ask for more than the card."""
    for program, share, old in sorted(
        zip(programs, shares, before, strict=True), key=lambda one: one[1] > one[2]
    ):
        if share != old:
            program.set_cores(share)


def one_row(bench: Bench, mix: Mix, programs: Sequence[Program], shares: Shares | None) -> Record:
    """Measure what runs now; `shares` None: without Weir."""
    window = watch(bench, programs)
    loads = [BY_NAME[load] for load in mix.loads]
    each = [
        figures(load, one, window, counter)
        for load, one, counter in zip(loads, programs, window.limiter, strict=True)
    ]
    record: Record = {
        "loads": mix.loads,
        "asked": shares,
        "nvml": window.utilization,
        "clock": window.clock,
        "given": [one["limiter"] if one["own"] is None else one["own"] for one in each],
        "each": each,
    }
    if mix.spares:
        record["kept"] = company.kept(programs, [load.counts for load in loads])
    return record


def run_mix(bench: Bench, mix: Mix, shares: Sequence[Shares | None]) -> None:
    """One set of programs, its rows one after another."""
    names = {one: mix.row(one) for one in shares}
    if not any(bench.wants("pairs", name) for name in names.values()):
        return
    bench.afford(max(BY_NAME[load].start for load in mix.loads) + mix.lasting(bench))
    with ExitStack() as stack:
        now: Shares | None = shares[0]
        programs = []
        for index, load in enumerate(mix.loads):
            name = f"{load}-{index}" + ("" if now else "-bare")
            command = BY_NAME[load].command()
            programs.append(stack.enter_context(Program(bench, name, command, now[index] if now else None)))
        for program in programs:
            program.await_line()
        for wanted, name in names.items():
            if bench.wants("pairs", name):
                if now and wanted:
                    give(programs, wanted, now)
                now = wanted
                bench.row("pairs", name, partial(one_row, bench, mix, programs, wanted), mix.lasting(bench))


def run(bench: Bench) -> None:
    """Every mix whose loads can run here, then each without Weir."""
    here = [mix for mix in MIXES if all(available(BY_NAME[load]) for load in mix.loads)]
    rows: list[tuple[Mix, Sequence[Shares | None]]] = [(mix, mix.shares) for mix in here]
    rows += [(mix, (None,)) for mix in here if bench.bare]
    for mix, shares in rows:
        try:
            run_mix(bench, mix, shares)
        except LoadError as error:
            print(f"pairs/{mix.name}: {error}", flush=True)
