"""NVML, the outside truth about the cards: who holds what, as the driver itself says it.

`Nvml` is the seam: the agent, the exporter and the doctor are given one. `DriverNvml` asks the driver
through nvidia-ml-py; a simulated machine is asked the same way, through the library it brings. A call that
the driver does not support gives None, never an exception; a driver or a card that is not there raises
NoGpuError.
"""

from __future__ import annotations

import ctypes
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from weir.errors import NoGpuError

# Seconds. The driver averages a process's samples since the time it is asked for; measured on an H200, a
# question since 0 is answered with the average over the process's whole life.
UTILIZATION_WINDOW = 1.0


_HOST_PID_NAMESPACE = 0xEFFFFFFC  # the inode of the first PID namespace (proc_ns.h, PROC_PID_INIT_INO)


def in_host_pid_namespace(namespace: Path = Path("/proc/self/ns/pid")) -> bool:
    """Whether process IDs here are the host's."""
    return namespace.stat().st_ino == _HOST_PID_NAMESPACE


@dataclass(frozen=True)
class Gpu:
    """One card. `capacity` is its usable bytes (the total less the driver's own reserve)."""

    index: int
    uuid: str
    name: str
    pci_bus_id: str
    capacity: int
    mig_mode: bool = False


@dataclass(frozen=True)
class GpuReading:
    """What one card says now. Ratios are 0 to 1; None where the driver does not say."""

    memory_used: int
    utilization: float | None
    energy_joules: float | None
    clock_reasons: int | None  # a mask of nvmlClocksEventReason…


@dataclass(frozen=True)
class GpuProcess:
    """A process on a card: host process ID and the bytes the driver charges it with (0 where unknown)."""

    pid: int
    used: int


class Nvml(Protocol):
    """The questions Weir asks NVML."""

    @property
    def driver_version(self) -> str:
        """As `580.159.04`."""

    @property
    def cuda_version(self) -> str:
        """The newest CUDA version the driver supports, as `13.0`."""

    @property
    def names_our_processes(self) -> bool:
        """Whether the process IDs it gives (the host's) mean the same processes here."""

    def gpus(self) -> list[Gpu]:
        """Every card that answers, by index; one that fell off the bus is not among them."""

    def reading(self, uuid: str) -> GpuReading:
        """What this card says now."""

    def processes(self, uuid: str) -> list[GpuProcess]:
        """Who holds memory on this card, clients of an MPS server among them."""

    def utilization_by_process(self, uuid: str) -> dict[int, float]:
        """The part of the last second (0 to 1) that each process had a kernel on this card."""


class DriverNvml:
    """NVML through nvidia-ml-py. Open one for a process and keep it."""

    def __init__(self, library: Path | None = None) -> None:
        """`library`: an NVML to use instead of the system's. Raises NoGpuError."""
        import pynvml  # here, so that commands which ask no card start without it

        self._nvml: Any = pynvml
        self._simulated = library is not None
        try:
            if library is not None:
                # nvidia-ml-py opens libnvidia-ml.so.1 by name: the loader then finds this one by its soname.
                ctypes.CDLL(str(library), mode=ctypes.RTLD_GLOBAL)
            pynvml.nvmlInit()
        except (OSError, pynvml.NVMLError) as error:
            raise NoGpuError(
                f"no GPU driver answers here ({error}); --simulate h200 runs on a simulated one"
            ) from error

    @property
    def driver_version(self) -> str:
        return str(self._nvml.nvmlSystemGetDriverVersion())

    @property
    def cuda_version(self) -> str:
        number = self._nvml.nvmlSystemGetCudaDriverVersion_v2()
        return f"{number // 1000}.{number % 1000 // 10}"

    @property
    def names_our_processes(self) -> bool:
        return self._simulated or in_host_pid_namespace()

    def gpus(self) -> list[Gpu]:
        n = self._nvml
        indices = range(n.nvmlDeviceGetCount())
        handles = [(index, self._optional(n.nvmlDeviceGetHandleByIndex, index)) for index in indices]
        return [self._gpu(index, handle) for index, handle in handles if handle is not None]

    def _gpu(self, index: int, handle: object) -> Gpu:
        n = self._nvml
        memory = n.nvmlDeviceGetMemoryInfo(handle, version=n.nvmlMemory_v2)
        mode = self._optional(n.nvmlDeviceGetMigMode, handle)
        return Gpu(
            index=index,
            uuid=str(n.nvmlDeviceGetUUID(handle)),
            name=str(n.nvmlDeviceGetName(handle)),
            pci_bus_id=str(n.nvmlDeviceGetPciInfo(handle).busId),
            capacity=int(memory.total - memory.reserved),
            mig_mode=bool(mode and mode[0]),
        )

    def reading(self, uuid: str) -> GpuReading:
        n = self._nvml
        handle = self._handle(uuid)
        rates = self._optional(n.nvmlDeviceGetUtilizationRates, handle)
        energy = self._optional(n.nvmlDeviceGetTotalEnergyConsumption, handle)
        return GpuReading(
            memory_used=int(n.nvmlDeviceGetMemoryInfo(handle, version=n.nvmlMemory_v2).used),
            utilization=None if rates is None else rates.gpu / 100,
            energy_joules=None if energy is None else energy / 1000,
            clock_reasons=self._optional(n.nvmlDeviceGetCurrentClocksEventReasons, handle),
        )

    def processes(self, uuid: str) -> list[GpuProcess]:
        n = self._nvml
        handle = self._handle(uuid)
        own = n.nvmlDeviceGetComputeRunningProcesses(handle)
        clients = self._optional(n.nvmlDeviceGetMPSComputeRunningProcesses, handle) or []
        found: dict[int, int] = {}
        for process in (*own, *clients):  # who is in both lists is one process
            found[process.pid] = max(found.get(process.pid, 0), process.usedGpuMemory or 0)
        return [GpuProcess(pid, used) for pid, used in found.items()]

    def utilization_by_process(self, uuid: str) -> dict[int, float]:
        n = self._nvml
        handle = self._handle(uuid)
        since = int((time.time() - UTILIZATION_WINDOW) * 1e6)
        samples = self._optional(n.nvmlDeviceGetProcessUtilization, handle, since) or []
        latest = {sample.pid: sample for sample in sorted(samples, key=lambda sample: sample.timeStamp)}
        return {pid: sample.smUtil / 100 for pid, sample in latest.items()}

    def _handle(self, uuid: str) -> object:
        try:
            return self._nvml.nvmlDeviceGetHandleByUUID(uuid)
        except self._nvml.NVMLError as error:
            raise NoGpuError(f"{uuid}: this card does not answer ({error})") from error

    def _optional(self, call: Any, *arguments: object) -> Any:
        try:
            return call(*arguments)
        except self._nvml.NVMLError:
            return None
