"""One window: what NVML says of the card, and each slice's own counter, sampled five times a second.

NVML's utilisation is over a second late and an average itself: it is right for a window of 20 s after a
settling time and says nothing about a single second. For those there are the load's own count of finished
kernels, and `gpu_time` of the slice's stats page, which the limiter adds to about a millisecond late."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass

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


def watch(bench: Bench, programs: Sequence[Program]) -> Window:
    """Let the programs settle, then look for as long as a row takes."""
    time.sleep(bench.settle)
    handle = bench.handle()
    utilization: list[float] = []
    clock: list[float] = []
    counters: list[list[tuple[float, float]]] = [[] for _ in programs]
    start = time.monotonic()
    end = start + bench.seconds
    while (now := time.monotonic()) < end + PERIOD:
        utilization.append(pynvml.nvmlDeviceGetUtilizationRates(handle).gpu)
        clock.append(pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_SM))
        for program, counter in zip(programs, counters, strict=True):
            if (seconds := gpu_seconds(program)) is not None:
                counter.append((time.monotonic(), seconds))
        time.sleep(max(0.0, now + PERIOD - time.monotonic()))
    time.sleep(0.3)  # the loads' last lines
    return Window(start, end, statistics.fmean(utilization), statistics.fmean(clock), tuple(counters))


def gpu_seconds(program: Program) -> float | None:
    """What the limiter has counted for the program's slice."""
    try:
        return read_stats(program.stats, processes=False).devices[0].gpu_time / 1e9
    except PageError:
        return None
