"""What every part is given: the card, where slices are kept, how long rows take, the journal, the time left.

`row` is the one way to measure: it skips what the journal has or `--rows` leaves out, stops the run when the
budget does not reach for the row, and writes down what came back with date, driver and card beside it. With
`--again` a row of another commit, or of another length, counts as if the journal did not have it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pynvml

from benchmarks.card.journal import Journal, Record
from weir.nvml import DriverNvml, Gpu
from weir.roots import box_root


class BudgetSpentError(Exception):
    """The next row would not end in time; everything finished is in the journal."""


class LoadError(Exception):
    """A load ended, or never began, to work; its row is not written down."""


def brief(value: Any) -> str:
    """A figure, or several, for the eye; nothing for what is none."""
    if isinstance(value, list) and 1 < len(value) < 5 and all(isinstance(one, float) for one in value):
        return " + ".join(map(brief, value))
    return f"{value:.2f}" if isinstance(value, float) else ""


@dataclass(frozen=True)
class Bench:
    """One call of the harness."""

    journal: Journal
    nvml: DriverNvml
    gpu: Gpu
    root: Path
    simulate: str | None
    commit: str = ""
    seconds: float = 20.0
    settle: float = 3.0
    limits: tuple[int, ...] = (10, 30, 50, 70, 90)
    deadline: float = float("inf")  # CLOCK_MONOTONIC seconds
    only: tuple[str, ...] = ("",)  # rows whose name contains one of these
    again: bool = False  # replace rows of another commit or length
    bare: bool = True
    cupti: float = 0.0  # seconds under CUPTI after each row of a PyTorch load

    @property
    def box(self) -> Path:
        """Where this card's slices are."""
        return box_root(self.root, self.simulate)

    def options(self) -> list[str]:
        """What every `weir` command gets."""
        return ["--root", str(self.root), *(["--simulate", self.simulate] if self.simulate else [])]

    def handle(self) -> Any:
        """The card for pynvml."""
        return pynvml.nvmlDeviceGetHandleByUUID(self.gpu.uuid)

    def wants(self, part: str, row: str) -> bool:
        """Whether this row is still to be measured in this run."""
        return any(text in f"{part}/{row}" for text in self.only) and not self.has(part, row)

    def has(self, part: str, row: str) -> bool:
        """Whether the journal's row, if there is one, will do."""
        found = self.journal.get(part, row)
        same = {key: self.origin()[key] for key in ("commit", "length")}
        return found is not None and not (self.again and any(found.get(key) != same[key] for key in same))

    def afford(self, seconds: float) -> None:
        """Raise BudgetSpentError unless so many seconds are left."""
        if time.monotonic() + seconds > self.deadline:
            raise BudgetSpentError

    def row(self, part: str, row: str, measure: Callable[[], Record], lasting: float | None = None) -> None:
        """Measure one row and write it down, unless that was done or is not wanted."""
        if not self.wants(part, row):
            return
        self.afford(self.settle + self.seconds + self.cupti if lasting is None else lasting)
        try:
            record = {"part": part, "row": row, **measure(), **self.origin()}
        except LoadError as error:
            print(f"{part}/{row}: {error}", flush=True)
            return
        self.journal.add(record)
        shown = "  ".join(f"{key} {text}" for key, one in record.items() if (text := brief(one)))
        print(f"{part}/{row:30} {shown}", flush=True)

    def origin(self) -> Record:
        """When and on what a row was measured."""
        return {
            "date": time.strftime("%Y-%m-%d"),
            "card": self.gpu.name + (" (simulated)" if self.simulate else ""),
            "driver": self.nvml.driver_version,
            "length": f"{self.seconds:g} s",
            "commit": self.commit,
        }


@dataclass(frozen=True)
class Names(Bench):
    """A bench that wants no row and keeps what it was asked for: the rows that a call could measure."""

    asked: list[str] = field(default_factory=list)

    def wants(self, part: str, row: str) -> bool:
        self.asked.append(f"{part}/{row}")
        return False
