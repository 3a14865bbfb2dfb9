"""The collectors: each reads one source, whole, when it is asked to; any exception it raises is a failure.

`NvmlCollector` opens the driver when it first needs it and again after a failure, so an exporter that starts
before the driver finds it later. `SlicesCollector` is in slices.py. Collectors keep no clock and no thread:
collection.py runs them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

from exporter.snapshot import GpusReading, GpuState
from limiter.belonging import Origins
from weir.nvml import Gpu, Nvml

R_co = TypeVar("R_co", covariant=True)


class Collector(Protocol[R_co]):
    """One source of numbers."""

    def collect(self) -> R_co:
        """Everything the source says now. May raise anything."""


class NvmlCollector:
    """Cards and the processes on them."""

    def __init__(self, open_nvml: Callable[[], Nvml]) -> None:
        self._open = open_nvml
        self._nvml: Nvml | None = None
        self._origins = Origins()

    def collect(self) -> GpusReading:
        try:
            nvml = self._nvml = self._nvml or self._open()
            gpus = tuple(self._state(nvml, gpu) for gpu in nvml.gpus())
            pids = {process.pid for card in gpus for process in card.processes}
            origins = self._origins.look(pids) if nvml.names_our_processes else None
            return GpusReading(nvml.driver_version, nvml.cuda_version, gpus, origins)
        except Exception:
            self._nvml = None  # the driver may have been reloaded under us: begin again
            raise

    def _state(self, nvml: Nvml, gpu: Gpu) -> GpuState:
        return GpuState(gpu, nvml.reading(gpu.uuid), tuple(nvml.processes(gpu.uuid)))
