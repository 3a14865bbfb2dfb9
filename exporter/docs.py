"""Writes docs/metrics.md from the tables of families: `python -m exporter.docs > docs/metrics.md`.

A test compares the file with what this prints, so the page cannot say anything the exporter does not do.
Families of the metrics contract that nothing fills yet are listed with what they come with.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import Any

from exporter.families import CONTAINER_FAMILIES, CONTAINER_LABELS, SLICE_FAMILIES, SLICE_LABELS
from exporter.family import Family
from exporter.node_families import (
    CLOCK_REASONS,
    COLLECTOR_FAMILIES,
    GPU_FAMILIES,
    NODE_FAMILIES,
    SELF_FAMILIES,
)
from exporter.render import DROP_REASONS
from exporter.snapshot import REGION_STATES
from limiter.layout import Api

_TABLES: tuple[tuple[str, str, tuple[str, ...], Sequence[Family[Any]]], ...] = (
    ("Slices", "one for each container and card", SLICE_LABELS, SLICE_FAMILIES),
    ("Containers", "one for each slice directory", CONTAINER_LABELS, CONTAINER_FAMILIES),
    ("Cards", "one for each card that NVML shows", ("gpu_uuid",), GPU_FAMILIES),
    ("Node", "one for the node", (), NODE_FAMILIES),
    ("Collectors", "one for each of: slices, nvml", ("collector",), COLLECTOR_FAMILIES),
    ("The exporter", "one for the exporter", (), SELF_FAMILIES),
)

VALUES = {
    ("weir_alloc_denied_total", "reason"): ("limit", "device_oom", "policy"),
    ("weir_limiter_info", "mode"): ("enforce", "observe"),
    ("weir_limiter_hook_errors_total", "api"): ("memory", "launch"),
    ("weir_unaccounted_calls_total", "api"): tuple(api.name.lower() for api in Api),
    ("weir_gpu_clock_throttled", "reason"): tuple(CLOCK_REASONS),
    ("weir_regions", "state"): REGION_STATES,
    ("weir_exporter_dropped_series_total", "reason"): DROP_REASONS,
}

PLANNED: dict[str, tuple[str, ...]] = {
    "the node agent, which knows pods": (
        "`container_id`, `qos`, `profile` and `allocation_id` on `weir_info`",
        "`weir_memory_driver_used_bytes` and `weir_memory_unaccounted_bytes` for slices in pods",
        "`weir_deviceplugin_allocations_total`, `weir_deviceplugin_allocation_failures_total`, "
        "`weir_deviceplugin_devices`",
        "`weir_podresources_errors_total`, `weir_podresources_last_success_timestamp_seconds`",
    ),
    "the complete limiter": ("`weir_blocked`",),
    "the scheduler": (
        "`weir_scheduler_memory_allocated_bytes`, `weir_scheduler_sm_allocated_ratio`",
        "`weir_scheduler_decisions_total`, `weir_scheduler_decision_failures_total`, "
        "`weir_scheduler_decision_duration_seconds`",
    ),
    "the reclaimer": ("`weir_reclaim_*`",),
    "NVML events": ("`weir_gpu_xid_events_total`, `weir_gpu_xid_last_timestamp_seconds`",),
    "a switch that turns optional families on": (
        "`weir_start_timestamp_seconds`, `weir_memory_kind_bytes`, `weir_memory_overruns_total`",
        "`weir_allocs_total`, `weir_frees_total`",
        "`weir_gpu_memory_controller_utilization_ratio`, `weir_gpu_temperature_celsius`",
    ),
}

_HEAD = """# Metrics

<!-- Written by `python -m exporter.docs`; a test compares. -->

`weir exporter` serves these on `/metrics`. Bytes are bytes, times are seconds, shares are ratios from 0 to 1.
Only counters end in `_total`. A label with a few known values always has all of them, from 0. What nobody can
say is no series, never a 0, and a slice that is gone takes its series with it at once. `slice` is the card's
ordinal inside the container; a slice of `weir run` has its name in `container` and no namespace or pod.

Numbers of the collector `slices` come from pages that the tenant's own programs write: claims. Those of the
collector `nvml` come from the driver: they are what claims are held against.

The exporter's own `process_*` metrics (memory, processor time, descriptors) are on the page as well.

A page has at most `--max-series` series; a label value has at most `--max-label-length` bytes. What does not
fit is left off and counted in `weir_exporter_dropped_series_total`.
"""

_LOCKS = """
## Not published

The limiter takes no lock to allocate, free or launch, so nothing waits for one: there is no
`weir_limiter_lock_wait_seconds_total`, no `weir_limiter_lock_contentions_total`, and no reason `lock_timeout`
in `weir_alloc_denied_total`.
"""


def page() -> str:
    """The whole of docs/metrics.md."""
    parts = [_HEAD]
    for title, subject, labels, families in _TABLES:
        parts.append(f"\n## {title}\n\n{_subject(subject, labels)}\n\n{_table(families)}")
    parts.append("\n## Comes later\n")
    for what, names in PLANNED.items():
        parts.append(f"\nComes with {what}:\n\n" + "".join(f"- {name}\n" for name in names))
    parts.append(_LOCKS)
    return "".join(parts)


def _subject(subject: str, labels: Iterable[str]) -> str:
    names = ", ".join(f"`{label}`" for label in labels)
    return f"{subject.capitalize()}. Labels: {names}." if names else f"{subject.capitalize()}."


def _table(families: Iterable[Family[Any]]) -> str:
    rows = ["| name | kind | own labels | meaning | from |", "| --- | --- | --- | --- | --- |"]
    for one in families:
        labels = ", ".join(_label(one.name, label) for label in one.labels)
        rows.append(f"| `{one.name}` | {one.kind} | {labels} | {one.help} | {one.collector} |")
    return "\n".join(rows) + "\n"


def _label(family: str, label: str) -> str:
    values = VALUES.get((family, label))
    return f"`{label}` ({', '.join(values)})" if values else f"`{label}`"


if __name__ == "__main__":
    sys.stdout.write(page())
