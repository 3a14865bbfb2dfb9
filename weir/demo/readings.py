"""What the demo measures: the exporter's /metrics, and the reports the load programs write about themselves.

A reading is stamped with the moment the exporter collected it, not with that of the scrape, so shares are
exact whatever the scrape's delay. Shares are ratios from 0 to 1, memory is bytes, times are seconds.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from urllib.parse import urlsplit

from prometheus_client.parser import text_string_to_metric_families

_SCRAPE_SECONDS = 3.0


@dataclass(frozen=True)
class SliceReading:
    """One slice in one scrape; None where there is no series."""

    sm_seconds: float
    memory_used: float
    memory_limit: float | None
    driver_used: float | None
    refused: float


@dataclass(frozen=True)
class Reading:
    """One scrape: Unix time of its collection, slices by name, the cards' models."""

    at: float
    slices: dict[str, SliceReading] = field(default_factory=dict)
    models: dict[str, str] = field(default_factory=dict)  # of the cards, by index and by UUID


def scrape(url: str) -> Reading | None:
    """Read a /metrics address; None while nobody answers there."""
    address = urlsplit(url)
    connection = HTTPConnection(address.hostname or "", address.port, timeout=_SCRAPE_SECONDS)
    try:
        connection.request("GET", address.path)
        answer = connection.getresponse()
        body = answer.read()
    except (OSError, HTTPException):
        return None
    finally:
        connection.close()
    return parse(body.decode()) if answer.status == 200 else None


def parse(text: str) -> Reading | None:
    """The reading of an exposition text; None before the slices were first collected."""
    values: dict[str, dict[str, float]] = {}
    models: dict[str, str] = {}
    at = 0.0
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if sample.name == "weir_gpu_info":
                for name in ("gpu", "gpu_uuid"):
                    models[sample.labels[name]] = sample.labels["model"]
            elif sample.name == "weir_collect_last_success_timestamp_seconds":
                at = sample.value if sample.labels["collector"] == "slices" else at
            elif sample.labels.get("namespace") == "" and "slice" in sample.labels:
                numbers = values.setdefault(sample.labels["container"], {})
                numbers[sample.name] = numbers.get(sample.name, 0.0) + sample.value
    slices = {name: _slice(numbers) for name, numbers in values.items()}
    return Reading(at, slices, models) if at else None


def _slice(numbers: dict[str, float]) -> SliceReading:
    return SliceReading(
        sm_seconds=numbers.get("weir_sm_seconds_total", 0.0),
        memory_used=numbers.get("weir_memory_used_bytes", 0.0),
        memory_limit=numbers.get("weir_memory_limit_bytes"),
        driver_used=numbers.get("weir_memory_driver_used_bytes"),
        refused=numbers.get("weir_alloc_denied_total", 0.0),
    )


def share(readings: Iterable[Reading], name: str) -> float | None:
    """The mean share of a slice from the first of these readings to the last."""
    points = [(one.at, one.slices[name].sm_seconds) for one in readings if name in one.slices]
    return slope(points)


def slope(points: list[tuple[float, float]]) -> float | None:
    """The mean growth per second from the first point to the last; None where no time has passed."""
    if len(points) < 2 or points[-1][0] <= points[0][0]:
        return None
    return (points[-1][1] - points[0][1]) / (points[-1][0] - points[0][0])


@dataclass(frozen=True)
class Report:
    """A line that a load program wrote: `at` is CLOCK_MONOTONIC, `kernel_seconds` its completed work."""

    at: float
    kernel_seconds: float
    errors: dict[str, int]


def reports(path: Path) -> list[Report]:
    """The lines written so far."""
    if not path.exists():
        return []
    lines = path.read_text().split("\n")[:-1]  # what follows the last newline is not written yet
    return [Report(data["at"], data["kernel_seconds"], data["errors"]) for data in map(json.loads, lines)]


def own_share(lines: Iterable[Report], since: float) -> float | None:
    """The mean share that a program counted itself, from `since` (CLOCK_MONOTONIC) on."""
    return slope([(one.at, one.kernel_seconds) for one in lines if one.at >= since])
