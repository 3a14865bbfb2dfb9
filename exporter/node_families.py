"""The tables of the families of cards, of the node, and of the exporter itself: one row defines a metric."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from exporter.family import Family, Sample, counter, gauge
from exporter.snapshot import GpuState, Health, Snapshot

CLOCK_REASONS = {  # bits of nvmlClocksEventReasons; an idle card's reason (bit 0) throttles nothing
    "applications_clocks_setting": 0x2,
    "sw_power_cap": 0x4,
    "hw_slowdown": 0x8,
    "sync_boost": 0x10,
    "sw_thermal_slowdown": 0x20,
    "hw_thermal_slowdown": 0x40,
    "hw_power_brake_slowdown": 0x80,
    "display_clock_setting": 0x100,
}


@dataclass(frozen=True)
class GpuRow:
    """A card with what its families need from the rest of the snapshot."""

    state: GpuState
    slices: int | None
    driver_version: str
    cuda_version: str


def gpu_rows(snapshot: Snapshot) -> list[GpuRow]:
    """The subjects of GPU_FAMILIES."""
    gpus = snapshot.gpus
    known = snapshot.regions is not None
    return [
        GpuRow(
            one,
            len(snapshot.slices_on(one.gpu.uuid)) if known else None,
            gpus.driver_version,
            gpus.cuda_version,
        )
        for one in gpus.gpus
    ]


def _gpu_info(row: GpuRow) -> Iterable[Sample]:
    gpu = row.state.gpu
    bare = gpu.uuid.removeprefix("GPU-").removeprefix("MIG-")
    mig = "1" if gpu.mig_mode else "0"
    values = (gpu.uuid, bare, str(gpu.index), gpu.pci_bus_id, gpu.name)
    return (((*values, row.driver_version, row.cuda_version, mig), 1),)


def _clock_throttled(row: GpuRow) -> Iterable[Sample]:
    mask = row.state.reading.clock_reasons
    if mask is None:
        return ()
    return [((reason,), int(bool(mask & bit))) for reason, bit in CLOCK_REASONS.items()]


GPU_FAMILIES: tuple[Family[GpuRow], ...] = (
    Family(
        "weir_gpu_info",
        "gauge",
        "A card, with the spellings of its identity that other exporters use.",
        "nvml",
        _gpu_info,
        ("UUID", "uuid", "gpu", "pci_bus_id", "model", "driver_version", "cuda_version", "mig_mode"),
    ),
    gauge(
        "weir_gpu_memory_capacity_bytes",
        "Usable memory of the card.",
        lambda row: row.state.gpu.capacity,
        "nvml",
    ),
    gauge(
        "weir_gpu_memory_used_bytes",
        "Memory in use on the card, by NVML.",
        lambda row: row.state.reading.memory_used,
        "nvml",
    ),
    gauge(
        "weir_gpu_utilization_ratio",
        "Share of the time with any kernel on the card, by NVML.",
        lambda row: row.state.reading.utilization,
        "nvml",
    ),
    counter(
        "weir_gpu_energy_joules_total",
        "Energy the card has used since its driver was loaded; its rate() is watts.",
        lambda row: row.state.reading.energy_joules,
        "nvml",
    ),
    Family(
        "weir_gpu_clock_throttled",
        "gauge",
        "1 while the card's clocks are held down for this reason.",
        "nvml",
        _clock_throttled,
        ("reason",),
    ),
    gauge(
        "weir_gpu_processes_outside_slices",
        "Processes on the card that belong to no slice; no series where nobody can tell.",
        lambda row: None if row.state.outside is None else len(row.state.outside),
        "nvml",
    ),
    gauge(
        "weir_gpu_memory_outside_slices_bytes",
        "Device memory that NVML shows for them.",
        lambda row: row.state.outside_bytes,
        "nvml",
    ),
    gauge(
        "weir_gpu_slices",
        "Slices on the card; 0 on an idle card.",
        lambda row: row.slices,
        "nvml",
    ),
)


def _regions(snapshot: Snapshot) -> Iterable[Sample]:
    return [] if snapshot.regions is None else [((state,), n) for state, n in snapshot.regions.items()]


NODE_FAMILIES: tuple[Family[Snapshot], ...] = (
    Family(
        "weir_regions",
        "gauge",
        "Slice directories under the root, by state.",
        "slices",
        _regions,
        ("state",),
    ),
    counter(
        "weir_region_torn_reads_total",
        "Reads of a control page given up because it was being written every time.",
        lambda snapshot: snapshot.torn_reads,
    ),
)


@dataclass(frozen=True)
class Render:
    """What the exporter says about itself and the page being rendered."""

    build: tuple[str, ...]  # component, version, revision, python_version
    series: int  # on the page
    dropped: Mapping[str, int]  # by reason, since the start


SELF_FAMILIES: tuple[Family[Render], ...] = (
    Family(
        "weir_build_info",
        "gauge",
        "This program.",
        "the exporter",
        lambda render: ((render.build, 1),),
        ("component", "version", "revision", "python_version"),
    ),
    gauge(
        "weir_exporter_series",
        "Series on this page.",
        lambda render: render.series,
        "the exporter",
    ),
    Family(
        "weir_exporter_dropped_series_total",
        "counter",
        "Series left off a page: too many, a label that is too long or no text, a name served twice.",
        "the exporter",
        lambda render: [((reason,), n) for reason, n in render.dropped.items()],
        ("reason",),
    ),
)

COLLECTOR_FAMILIES: tuple[Family[Health], ...] = (
    gauge(
        "weir_scrape_collector_duration_seconds",
        "How long the collector's last run took.",
        lambda health: health.duration,
        "every collector",
    ),
    gauge(
        "weir_scrape_collector_success",
        "1 if the collector's last run worked.",
        lambda health: int(health.success),
        "every collector",
    ),
    gauge(
        "weir_collect_last_success_timestamp_seconds",
        "Unix time at which the collector last worked; no series before the first time.",
        lambda health: health.last_success or None,
        "every collector",
    ),
)
