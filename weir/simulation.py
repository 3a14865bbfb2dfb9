"""Simulated machines, found by entry point (`weir.simulators`), so that no room imports the simulator.

A simulator turns a machine's name into what a process needs to run on it: environment variables for the
programs that will use the card, and the NVML library for those that ask about it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path

from weir.errors import HostError
from weir.nvml import DriverNvml


@dataclass(frozen=True)
class SimulatedMachine:
    """How to be on a simulated machine: `environment` for programs, `nvml_library` for NVML."""

    name: str
    environment: dict[str, str]
    nvml_library: Path


Simulator = Callable[[str], SimulatedMachine]


def simulated_machine(name: str) -> SimulatedMachine:
    """The machine called `name` (`h200`, `a100-40g:2`). Raises UsageError for a name nobody knows."""
    for point in entry_points(group="weir.simulators"):
        simulator: Simulator = point.load()
        return simulator(name)
    raise HostError("--simulate: no simulator is installed: install the whole weir package")


def open_nvml(simulate: str | None) -> DriverNvml:
    """NVML of the simulated machine of that name, or of this host's driver. Raises NoGpuError."""
    if simulate is None:
        return DriverNvml()
    machine = simulated_machine(simulate)
    os.environ.update(machine.environment)  # the library reads its machine from the environment
    return DriverNvml(machine.nvml_library)
