"""One window: what NVML says of the card, and each slice's own counter, sampled five times a second.

NVML keeps the utilisation of each fifth of a second or so for some time; all in the window are averaged.
The reading that it calls current looks at some of them only: it stood at 20 for seconds beside kernels of
20 ms at 30 %, while their mean was 29.8. For single seconds there are the load's own count of finished
kernels, and `gpu_time` of the slice's stats page, which the limiter adds to about a millisecond late."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pynvml

from benchmarks.card.bench import Bench
from benchmarks.card.curves import Curve
from benchmarks.card.program import Program
from limiter.pages import PageError, read_stats

PERIOD = 0.2


@dataclass(frozen=True)
class Window:
    """What was seen between `start` and `end` (CLOCK_MONOTONIC seconds)."""

    start: float
    end: float
    utilization: float  # percent
    clock: float  # MHz
    limiter: tuple[Curve, ...]  # GPU seconds of each program by its limiter; empty where it is bare


class Utilization:
    """The card's utilisation since this was made, percent."""

    def __init__(self, handle: Any) -> None:
        self._handle = handle
        self._since = int(time.time() * 1e6)  # NVML's samples carry microseconds of the wall clock
        self._samples: list[int] = []

    def look(self) -> None:
        """Take in what is new."""
        kind = pynvml.NVML_GPU_UTILIZATION_SAMPLES
        try:
            _, found = pynvml.nvmlDeviceGetSamples(self._handle, kind, self._since)
        except pynvml.NVMLError_NotFound:  # none are
            return
        new = [one for one in found if one.timeStamp > self._since]  # in whichever order
        self._samples += [one.sampleValue.uiVal for one in new]
        self._since = max((one.timeStamp for one in new), default=self._since)

    def mean(self) -> float:
        """Of the samples; there are some a fifth of a second after this was made."""
        return statistics.fmean(self._samples)


def watch(bench: Bench, programs: Sequence[Program]) -> Window:
    """Let the programs settle, then look for as long as a row takes."""
    time.sleep(bench.settle)
    handle = bench.handle()
    utilization = Utilization(handle)
    clock: list[float] = []
    counters: list[list[tuple[float, float]]] = [[] for _ in programs]
    start = time.monotonic()
    end = start + bench.seconds
    while (now := time.monotonic()) < end + PERIOD:
        utilization.look()
        clock.append(pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_SM))
        for program, counter in zip(programs, counters, strict=True):
            if (seconds := gpu_seconds(program)) is not None:
                counter.append((time.monotonic(), seconds))
        time.sleep(max(0.0, now + PERIOD - time.monotonic()))
    time.sleep(0.3)  # the loads' last lines
    return Window(start, end, utilization.mean(), statistics.fmean(clock), tuple(counters))


def gpu_seconds(program: Program) -> float | None:
    """What the limiter has counted for the program's slice."""
    try:
        return read_stats(program.stats, processes=False).devices[0].gpu_time / 1e9
    except PageError:
        return None
