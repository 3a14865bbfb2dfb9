"""A small working NVML: cards with what is used on them, and one-shot errors."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from weir.nvml import Gpu, GpuProcess, GpuReading

GIB = 1 << 30
UUIDS = [f"GPU-00010203-0405-0607-0809-0a0b0c0d0e{index:02x}" for index in range(16)]


def gpu(index: int = 0, capacity: int = 100 * GIB, name: str = "NVIDIA H200") -> Gpu:
    return Gpu(index, UUIDS[index], name, f"00000000:{index:02x}:00.0", capacity)


@contextmanager
def listener(pipes: Path, kind: int = socket.SOCK_STREAM) -> Iterator[socket.socket]:
    """A socket where an MPS daemon has its own; the path outlives it, as a dead daemon's does."""
    with socket.socket(socket.AF_UNIX, kind) as control:
        control.bind(str(pipes / "control"))
        control.listen()
        yield control


@dataclass
class FakeNvml:
    """Set `used` and `on_card`; `calls` are recorded; `next_error` is raised once by the next question."""

    cards: list[Gpu] = field(default_factory=lambda: [gpu()])
    used: dict[str, int] = field(default_factory=dict)
    utilization: float = 0.0
    on_card: dict[str, dict[int, int]] = field(default_factory=dict)
    calls: list[str] = field(default_factory=list)
    next_error: Exception | None = None
    driver_version: str = "580.159.04"
    cuda_version: str = "13.0"
    names_our_processes: bool = True

    def _called(self, name: str) -> None:
        self.calls.append(name)
        error, self.next_error = self.next_error, None
        if error:
            raise error

    def gpus(self) -> list[Gpu]:
        self._called("gpus")
        return self.cards

    def reading(self, uuid: str) -> GpuReading:
        self._called("reading")
        used = self.used.get(uuid, sum(self.on_card.get(uuid, {}).values()))
        return GpuReading(used, self.utilization, None, None)

    def processes(self, uuid: str) -> list[GpuProcess]:
        self._called("processes")
        return [GpuProcess(pid, used) for pid, used in self.on_card.get(uuid, {}).items()]

    def utilization_by_process(self, uuid: str) -> dict[int, float]:
        self._called("utilization_by_process")
        return {}
