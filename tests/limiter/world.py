"""Runs `programs/pacing_world.c`: programs under the limiter's own pacing code, in virtual time.

A world's settings are those of `programs/pacing_world.h`; one result for each program. Nothing here sleeps,
and the same settings give the same result on any machine.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

TIMES = ("timeline", "streams", "estimates", "coverage")
METER = ("meter", "meter_contexts", "waits", "results", "certainty", "plan", *TIMES)
PACING = ("pacing", "launch", "turn", "queue", *METER, "pacer")
H200 = {"mark_us": 2.4, "gap_us": 1.0, "late_us": 60}  # what its events, launches and wake-ups cost

Settings = dict[str, float]
World = Callable[..., dict[str, Any]]
Worlds = Callable[..., list[dict[str, Any]]]


def arguments(tenants: tuple[Settings, ...], common: Settings) -> list[str]:
    """The program's command line: what holds for all tenants, then each of them after a slash."""
    words = [f"{key}={value}" for key, value in common.items()]
    for one in tenants:
        words += ["/", *(f"{key}={value}" for key, value in one.items())]
    return words


def results(output: str) -> list[dict[str, Any]]:
    """What it printed, in the order of the tenants; they end in any order."""
    return sorted(map(json.loads, output.splitlines()), key=lambda one: int(one["tenant"]))


def worlds_of(program: Path, run: Callable[..., Any]) -> Worlds:
    """Programs side by side, each with its settings and all with the common ones."""

    def worlds(*tenants: Settings, **common: float) -> list[dict[str, Any]]:
        return results(run(program, *arguments(tenants, common)).stdout)

    return worlds
