"""Snapshots, readings and fake collectors that the exporter's tests are made from."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Generic, TypeVar

from exporter.accounting import Accounting
from exporter.snapshot import (
    Claims,
    Container,
    Counters,
    GpusReading,
    GpuState,
    Health,
    SlicesReading,
    SliceState,
    Snapshot,
)
from weir.nvml import Gpu, GpuProcess, GpuReading

MIB = 1 << 20
UUID = "GPU-00112233-4455-6677-8899-aabbccddeeff"
R = TypeVar("R")


def claims(**changes: Any) -> Claims:
    plain = Claims(
        index=0,
        gpu_uuid=UUID,
        memory_used=600 * MIB,
        memory_peak=800 * MIB,
        memory_managed=20 * MIB,
        memory_limit=4096 * MIB,
        memory_requested=4096 * MIB,
        core_limit=0.6,
        core_requested=0.6,
        last_kernel=1_700_000_000.25,
        counters=Counters(
            gpu_seconds=12.5, throttled_seconds=3.25, periods=100, throttled_periods=40, launches=9
        ),
    )
    return replace(plain, **changes)


def container(name: str = "alice", *slices: Claims, **changes: Any) -> Container:
    plain = Container(
        namespace="",
        pod="",
        pod_uid="",
        container=name,
        generation=7,
        started=1_700_000_000.0,
        policy="fixed",
        slices=slices or (claims(),),
        pids=(4711,),
        limiter_version="0.1.0",
        page_version="1.0",
        heartbeat=1_700_000_001.5,
        forgeries=3,
        hook_errors={"memory": 0, "launch": 1},
        unaccounted_calls={"memory": 2, "shared": 0, "code": 31, "table": 4},
    )
    return replace(plain, **changes)


def gpus(*processes: GpuProcess, **changes: Any) -> GpusReading:
    card = Gpu(index=0, uuid=UUID, name="NVIDIA H200", pci_bus_id="00000000:17:00.0", capacity=143_155 * MIB)
    reading = replace(GpuReading(1234 * MIB, 0.9, 1000.5, 0x4), **changes)
    return GpusReading("580.159.04", "13.0", (GpuState(card, reading, processes),))


def states(*containers: Container) -> tuple[SliceState, ...]:
    """These containers' slices after 20 s in which everything that they count happened."""
    accounting = Accounting()
    idle = [
        replace(one, slices=tuple(replace(c, counters=Counters()) for c in one.slices)) for one in containers
    ]
    accounting.advance(idle, 0.0)
    return accounting.advance(containers, 20.0)


def snapshot(*containers: Container, **changes: Any) -> Snapshot:
    regions = {**SlicesReading().regions, "live": len(containers)}
    health = tuple(Health(name, True, 0.002, 1_700_000_002.0) for name in ("slices", "nvml"))
    plain = Snapshot(1_700_000_002.0, states(*containers), containers, regions, 0, gpus(), health)
    return replace(plain, **changes)


def slices_reading(*containers: Container) -> SlicesReading:
    return SlicesReading(containers, {**SlicesReading().regions, "live": len(containers)})


class FakeCollector(Generic[R]):
    """Answers with `value`; `next_error` is raised once, `hook` runs before every answer."""

    def __init__(self, value: R) -> None:
        self.value = value
        self.next_error: Exception | None = None
        self.hook: Callable[[], None] | None = None
        self.calls = 0

    def collect(self) -> R:
        self.calls += 1
        if self.hook:
            self.hook()
        error, self.next_error = self.next_error, None
        if error:
            raise error
        return self.value


def is_close(left: float | None, right: float) -> bool:
    return left is not None and math.isclose(left, right, abs_tol=1e-9)
