"""Writes a snapshot as Prometheus text, once for each collection; every scraper is given the same bytes.

Why not prometheus_client: it formats label by label, and a node's slices are thousands of series (see
benchmarks/scrape.py for the ratio). Here the labels of a subject are escaped once and joined to every family.
`Renderer` guards the page: a subject whose labels are too long or are not text is left off, so is a slice
of a name that a newer one has, so are the last slices once the page is full; each is counted, never silent.
No timestamps and no `_created` series are written.
"""

from __future__ import annotations

import gzip
import platform
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, Generic, TypeVar

from exporter.families import CONTAINER_FAMILIES, CONTAINER_LABELS, SLICE_FAMILIES, SLICE_LABELS
from exporter.family import Family, T
from exporter.node_families import (
    COLLECTOR_FAMILIES,
    GPU_FAMILIES,
    NODE_FAMILIES,
    SELF_FAMILIES,
    Render,
    gpu_rows,
)
from exporter.snapshot import Container, SliceState, Snapshot

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
S = TypeVar("S", Container, SliceState)
DROP_REASONS = ("limit", "invalid_label", "duplicate")


@dataclass(frozen=True)
class Page:
    """One rendered page. Compressed when somebody first asks for it so, and once."""

    text: bytes
    series: int

    @cached_property
    def compressed(self) -> bytes:
        """The page as gzip, at the level that costs least."""
        return gzip.compress(self.text, compresslevel=1, mtime=0)


class BadLabelError(ValueError):
    """A label value is too long, or holds bytes that are not UTF-8."""


def escape(value: str, longest: int) -> str:
    """A label value as the exposition format wants it. Raises BadLabelError."""
    try:
        size = len(value.encode())
    except UnicodeEncodeError as error:  # surrogates: what os.fsdecode makes of bytes that are no UTF-8
        raise BadLabelError(value) from error
    if size > longest:
        raise BadLabelError(value)
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


@lru_cache(maxsize=4096)  # a slice has the same labels on every page
def joined(names: tuple[str, ...], values: tuple[str, ...], longest: int) -> str:
    """Labels as they stand between the braces. Raises BadLabelError."""
    return ",".join(f'{name}="{escape(value, longest)}"' for name, value in zip(names, values, strict=True))


def number(value: float) -> str:
    """A value as the exposition format wants it."""
    if isinstance(value, int):
        return str(value)
    if value != value:
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "+Inf" if value > 0 else "-Inf"
    return repr(value)


class _Block(Generic[T]):
    """The lines of some families, filled subject by subject and written family by family."""

    def __init__(self, families: Sequence[Family[T]], longest: int) -> None:
        self._families = families
        self._longest = longest
        self._lines: list[list[str]] = [[] for _ in families]
        self.series = 0

    def add(self, subject: T, labels: Mapping[str, str], room: int) -> tuple[int, str]:
        """Write one subject's series, or none of them: then how many they were, and why."""
        samples = [(family, tuple(family.samples(subject))) for family in self._families]
        count = sum(len(values) for _, values in samples)
        if count > room:
            return count, "limit"
        try:
            base = joined(tuple(labels), tuple(labels.values()), self._longest)
            written = [[self._line(family, base, *one) for one in values] for family, values in samples]
        except BadLabelError:
            return count, "invalid_label"
        for lines, more in zip(self._lines, written, strict=True):
            lines += more
        self.series += count
        return 0, ""

    def _line(self, family: Family[T], base: str, values: tuple[str, ...], value: float) -> str:
        if not values:
            return f"{family.name}{{{base}}} {number(value)}" if base else f"{family.name} {number(value)}"
        own = joined(family.labels, values, self._longest)
        return f"{family.name}{{{base}{',' if base else ''}{own}}} {number(value)}"

    def text(self) -> Iterable[str]:
        """The families that have a series, each under its help and type."""
        for family, lines in zip(self._families, self._lines, strict=True):
            if lines:
                yield f"# HELP {family.name} {family.help}\n# TYPE {family.name} {family.kind}"
                yield from lines


class Renderer:
    """Renders snapshots; keeps count of what it had to leave off."""

    def __init__(
        self,
        version: str,
        max_series: int = 20_000,
        max_label_length: int = 128,
        process: Callable[[], str] = lambda: "",
    ) -> None:
        """`process` gives the lines of the process's own metrics, which other programs have as well."""
        self._build = ("exporter", version, "unknown", platform.python_version())
        self._process = process
        self._max_series = max_series
        self._longest = max_label_length
        self.dropped = dict.fromkeys(DROP_REASONS, 0)

    def render(self, snapshot: Snapshot) -> Page:
        """The page of this snapshot. What is cut off a page that is full are the newest slices."""
        health = [(one, {"collector": one.collector}) for one in snapshot.health]
        gpus = [(row, {"gpu_uuid": row.state.gpu.uuid}) for row in gpu_rows(snapshot)]
        containers = [(one, dict(zip(CONTAINER_LABELS, one.key, strict=True))) for one in snapshot.containers]
        slices = [(one, _slice_labels(one)) for one in snapshot.slices]
        last: list[_Block[Any]] = [
            self._block(NODE_FAMILIES, [(snapshot, {})], 0),
            self._block(COLLECTOR_FAMILIES, health, 0),
            self._block(GPU_FAMILIES, gpus, 0),
        ]
        used = sum(block.series for block in last)
        first = self._block(CONTAINER_FAMILIES, self._newest(CONTAINER_FAMILIES, containers), used)
        used += first.series
        most = self._block(SLICE_FAMILIES, self._newest(SLICE_FAMILIES, slices), used)
        lines = [line for block in (most, first, *reversed(last)) for line in block.text()]
        return self._page(lines, used + most.series)

    def _block(
        self, families: Sequence[Family[T]], subjects: Iterable[tuple[T, Mapping[str, str]]], used: int
    ) -> _Block[T]:
        block = _Block(families, self._longest)
        for subject, labels in subjects:
            count, reason = block.add(subject, labels, self._max_series - used - block.series)
            if count:
                self.dropped[reason] += count
        return block

    def _newest(
        self, families: Sequence[Family[S]], subjects: Iterable[tuple[S, Mapping[str, str]]]
    ) -> list[tuple[S, Mapping[str, str]]]:
        """Of subjects with one name the newest; oldest first, so that a full page keeps who was there."""
        newest: dict[tuple[str, ...], tuple[S, Mapping[str, str]]] = {}
        for subject, labels in sorted(subjects, key=lambda one: one[0].started):
            name = tuple(labels.values())
            if older := newest.pop(name, None):
                self.dropped["duplicate"] += sum(len(list(f.samples(older[0]))) for f in families)
            newest[name] = (subject, labels)
        return list(newest.values())

    def _page(self, lines: list[str], series: int) -> Page:
        own = len(DROP_REASONS) + 2  # what SELF_FAMILIES adds
        process = self._process()
        total = series + own + sum(not line.startswith("#") for line in process.splitlines())
        block = _Block(SELF_FAMILIES, self._longest)
        block.add(Render(self._build, total, dict(self.dropped)), {}, own)
        text = "\n".join([*lines, *block.text()]) + "\n" + process
        return Page(text.encode(), total)


def _slice_labels(state: SliceState) -> dict[str, str]:
    values = (*state.container.key, state.claims.gpu_uuid, str(state.claims.index))
    return dict(zip(SLICE_LABELS, values, strict=True))
