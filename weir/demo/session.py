"""One run of the demo: its slices and loads, what has been read so far, and what that comes to.

All numbers are read from the exporter's /metrics and from the reports of the load programs. Starting and
reading is done here; the order of things, the screen and the clock are command.py's.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path

from weir.demo.programs import WEIR, Program, Programs
from weir.demo.readings import Reading, own_share, reports, scrape, share
from weir.demo.verdict import Judgement, judge_memory, judge_share
from weir.demo.view import Row
from weir.errors import DoesNotFitError, UsageError

KERNEL_US = 1000
PERIOD = 0.25  # seconds between two collections, and between two looks at them
_LIVE_SECONDS = 2.0  # how much of the past the live table's shares are taken over


@dataclass(frozen=True)
class Plan:
    """One slice of the demo: its name, the share it asks for (None: none), its memory, and its load."""

    name: str
    asked: float | None
    memory: str
    load: tuple[str, ...]


def plans(lasting: float) -> tuple[Plan, Plan, Plan]:
    """Two slices that are busy for so many seconds, and one that wants more memory than it may have."""
    busy = ("--kernel-us", str(KERNEL_US), "--queue", "64", "--seconds", f"{lasting:.0f}")
    report = ("--report-every", str(PERIOD))
    greedy = ("--allocate-step", "256MiB", "--allocate-until", "refused", "--hold", f"{lasting:.0f}")
    return (
        Plan("alice", 0.60, "8GiB", ("--memory", "2GiB", *busy, *report)),
        Plan("bob", 0.30, "4GiB", ("--memory", "1GiB", *busy, *report)),
        Plan("carol", None, "3GiB", greedy),
    )


@dataclass
class Session:
    """What is known so far. `started` is CLOCK_MONOTONIC at the beginning of what is measured."""

    programs: Programs
    directory: Path
    target: tuple[str, ...]  # --simulate MACHINE or --gpu N, as weir run takes it
    root: Path | None = None
    top: str = "weir top"  # the command that shows who else is on the card
    address: str = ""
    shown: list[Plan] = field(default_factory=list)  # the slices that were begun
    readings: list[Reading] = field(default_factory=list)
    started: float | None = None
    first: int = 0  # the reading that what is measured begins with

    def report_of(self, plan: Plan) -> Path:
        """Where this slice's load writes its report."""
        return self.directory / f"{plan.name}.json"

    @property
    def _root(self) -> tuple[str, ...]:
        return () if self.root is None else ("--root", str(self.root))

    def begin_exporter(self, port: int, options: tuple[str, ...]) -> Program:
        """Start the exporter on the loopback; port 0 takes any free one."""
        listen = ("--listen", f"127.0.0.1:{port}", "--period", str(PERIOD))
        return self.programs.start("exporter", ("exporter", *listen, *options, *self._root))

    def find_address(self, exporter: Program) -> bool:
        """Whether the exporter has said where it is."""
        self.address = next((word for word in exporter.said().split() if word.startswith("http://")), "")
        return bool(self.address)

    def machine(self, gpu: str) -> str:
        """The model of the card with this index or UUID."""
        models = self.readings[-1].models if self.readings else {}
        return models.get(gpu, "GPU")

    def begin(self, plan: Plan) -> Program:
        """Start a slice with its load."""
        self.shown.append(plan)
        cores = () if plan.asked is None else ("--cores", f"{plan.asked * 100:.0f}")
        load = ("--", *WEIR, "load", *plan.load, "--report", str(self.report_of(plan)))
        size = ("--memory", plan.memory, *cores)
        return self.programs.start(
            plan.name, ("run", "--name", plan.name, *size, *self.target, *self._root, *load), self._advice
        )

    @property
    def _advice(self) -> dict[int, str]:
        """What to do where a slice of the demo is refused, by the exit code."""
        return {
            UsageError.exit_code: f"the demo's names are its own: end that slice first ({self.top} shows it)",
            DoesNotFitError.exit_code: f"end what else is on the card first ({self.top} shows it), "
            "or give another card with --gpu",
        }

    def read(self) -> None:
        """Scrape once, if there is an address. A page that was read before is no new reading."""
        reading = scrape(self.address) if self.address else None
        if reading and (not self.readings or reading.at > self.readings[-1].at):
            self.readings.append(reading)

    def working(self, plan: Plan) -> bool:
        """Whether this slice's load does what it is for, by what the exporter sees of it."""
        seen = self.readings[-1].slices.get(plan.name) if self.readings else None
        return seen is not None and (seen.sm_seconds > 0 if plan.asked else seen.refused > 0)

    def measure(self) -> None:
        """What is measured begins now."""
        self.started, self.first = time.monotonic(), max(len(self.readings) - 1, 0)

    def row(self, plan: Plan) -> Row:
        """A slice's line in the table: what was measured, or before that the last moments."""
        last = self.readings[-1].slices.get(plan.name) if self.readings else None
        if last is None:
            return Row(plan.name, plan.asked)
        measuring = self.started is not None
        readings = self.readings[self.first if measuring else -round(_LIVE_SECONDS / PERIOD) :]
        since = self.started if self.started is not None else time.monotonic() - _LIVE_SECONDS
        own = own_share(reports(self.report_of(plan)), since) if plan.asked else None
        memory = last.memory_used if last.driver_used is None else last.driver_used
        given = share(readings, plan.name)
        return Row(plan.name, plan.asked, given, own, memory, last.memory_limit, last.refused)

    def rows(self) -> list[Row]:
        """The whole table."""
        return [self.row(plan) for plan in self.shown]

    def judge(self, plan: Plan, own_counts: bool) -> Judgement:
        """Whether this slice was held. `own_counts`: a kernel's time is known, as on a simulated card."""
        row = self.row(plan)
        if plan.asked is not None:
            return judge_share(plan.name, plan.asked, row.given, row.own if own_counts else None)
        seen = [one.slices[plan.name] for one in self.readings if plan.name in one.slices]
        by_driver = [one.driver_used for one in seen if one.driver_used is not None]
        most = max(by_driver or [one.memory_used for one in seen], default=None)
        source = "by NVML" if by_driver else "by the ledger (NVML cannot tell its processes here)"
        told = sum(
            line.errors.get("CUDA_ERROR_OUT_OF_MEMORY", 0) for line in reports(self.report_of(plan))[-1:]
        )
        return judge_memory(plan.name, row.limit, most, source, row.refused, told)
