"""Runs the collectors in the background and keeps the newest rendered page.

Each collector has a thread of its own, so a driver that hangs holds up nobody else; the slices are read right
after NVML, that both speak of one moment, and without it where it does not answer. A publisher renders
whenever the slices were read, and once a period in any case. A collector that fails loses its `success`, and
its last good value goes on being served until it is older than `max_age`; then its series vanish. Scrapes
only ever take the finished page: they cost the sources nothing. Threads are daemons: a call that
never returns cannot keep the process from ending.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from exporter.accounting import Accounting
from exporter.audit import Audit, audited
from exporter.collectors import Collector
from exporter.render import Page, Renderer
from exporter.snapshot import GpusReading, Health, SlicesReading, SliceState, Snapshot
from weir.errors import WeirError

R = TypeVar("R")

_PATIENCE = 1.5  # periods: NVML is a little late at times, and is read at the same moment as the slices


@dataclass(frozen=True)
class Settings:
    """How often to collect and how long a value may be served. Seconds."""

    period: float = 1.0
    max_age: float = 15.0  # a few scrape intervals at most: longer would show the dead as living

    def stale_after(self) -> float:
        """Age of a page, or of a question to a source, at which the exporter is no longer ready."""
        return max(5 * self.period, 5.0)


@dataclass(frozen=True)
class Clocks:
    """Where time comes from."""

    monotonic: Callable[[], float] = time.monotonic
    wall: Callable[[], float] = time.time


class Watch(Generic[R]):
    """One collector, its last good value and its health."""

    def __init__(self, name: str, collector: Collector[R], clocks: Clocks) -> None:
        self._collector = collector
        self._clocks = clocks
        self._good: tuple[float, R] | None = None
        self._asked: float | None = None  # since when it has not answered
        self._health = Health(name)

    def step(self) -> R | None:
        """Collect once; None if that failed."""
        begin = self._asked = self._clocks.monotonic()
        error = ""
        value: R | None = None
        try:
            value = self._collector.collect()
        except Exception as failure:  # whatever a source does, it must not end its thread
            error = _in_words(failure)
        end = self._clocks.monotonic()
        last = self._health.last_success
        if value is not None:
            self._good, last = (end, value), self._clocks.wall()
        self._health = Health(self._health.collector, value is not None, end - begin, last, error)
        self._asked = None
        return value

    def health(self, patience: float) -> Health:
        """How it is now: one that has not answered for longer than `patience` seconds has failed."""
        asked, health = self._asked, self._health
        waiting = 0.0 if asked is None else self._clocks.monotonic() - asked
        if waiting <= patience:
            return health
        return replace(health, success=False, duration=waiting, error=f"no answer for {waiting:.0f} s")

    def value(self, max_age: float) -> R | None:
        """The last good value, unless it is too old."""
        good = self._good
        return good[1] if good and self._clocks.monotonic() - good[0] <= max_age else None


def _in_words(failure: Exception) -> str:
    """One line for a person: our own words, the system's, or whatever the exception says."""
    if isinstance(failure, WeirError):
        return str(failure)
    if isinstance(failure, OSError) and failure.filename and failure.strerror:
        return f"{os.fsdecode(failure.filename)}: {failure.strerror}"
    return f"{type(failure).__name__}: {failure}"


class _Accounted:
    """The slices with their accounting, kept as one value: neither is ever newer than the other."""

    def __init__(
        self, slices: Collector[SlicesReading], gpus: Callable[[], GpusReading | None], clocks: Clocks
    ) -> None:
        self._slices = slices
        self._gpus = gpus
        self._clocks = clocks
        self._accounting = Accounting()

    @property
    def audit(self) -> Audit:
        """What speaks against slices, as of the last reading."""
        return self._accounting.audit

    def collect(self) -> tuple[SlicesReading, tuple[SliceState, ...]]:
        reading = self._slices.collect()
        return reading, self._accounting.advance(reading.containers, self._clocks.monotonic(), self._gpus())


class Collection:
    """All collectors, and the page made of them."""

    def __init__(
        self,
        slices: Collector[SlicesReading],
        nvml: Collector[GpusReading],
        renderer: Renderer,
        settings: Settings | None = None,
        clocks: Clocks | None = None,
    ) -> None:
        self.settings = settings or Settings()
        self._clocks = clocks or Clocks()
        self._nvml = Watch("nvml", nvml, self._clocks)
        self._accounted = _Accounted(slices, lambda: self._nvml.value(self.settings.max_age), self._clocks)
        self._slices = Watch("slices", self._accounted, self._clocks)
        self._renderer = renderer
        self._threads: list[threading.Thread] = []
        self._published: tuple[float, Snapshot, Page] | None = None
        self._unpublished = ""  # why the last page could not be made
        self._stop = threading.Event()
        self._shown = threading.Event()
        self._fresh = threading.Event()

    def start(self) -> None:
        """Start the threads; the first page is there soon after."""
        self._threads = [
            threading.Thread(target=self._slices_for_ever, name="slices", daemon=True),
            threading.Thread(target=self._nvml_for_ever, name="nvml", daemon=True),
            threading.Thread(target=self._publish_for_ever, name="publish", daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Ask the threads to end; waits for none of them."""
        self._stop.set()
        self._shown.set()
        self._fresh.set()

    def collect_once(self) -> Snapshot:
        """Run every collector and publish, in the caller's thread."""
        self._step_nvml()
        self._step_slices()
        self.publish()
        return self.snapshot()

    def publish(self) -> None:
        """Render the newest values."""
        snapshot = self.snapshot()
        self._published = (self._clocks.monotonic(), snapshot, self._renderer.render(snapshot))

    def snapshot(self) -> Snapshot:
        """The newest values, without those that are too old."""
        max_age = self.settings.max_age
        accounted, shown = self._slices.value(max_age), self._nvml.value(max_age)
        gpus = shown or GpusReading()
        patience = self.settings.stale_after()
        health = (self._slices.health(patience), self._nvml.health(patience))
        if accounted is None:
            return Snapshot(self._clocks.wall(), gpus=gpus, health=health)
        slices, states = accounted
        if shown is None:
            states, _ = audited(states, gpus)
        return Snapshot(
            self._clocks.wall(),
            states,
            slices.containers,
            slices.regions,
            slices.torn_reads,
            self._accounted.audit.onto(gpus),
            health,
        )

    @property
    def page(self) -> Page | None:
        """The newest page; None before the first."""
        return self._published[2] if self._published else None

    @property
    def published(self) -> tuple[float, Snapshot] | None:
        """The snapshot on the newest page, and its age in seconds."""
        if not self._published:
            return None
        return self._clocks.monotonic() - self._published[0], self._published[1]

    def problem(self) -> str:
        """Why the exporter is not ready, or an empty string: every collector worked, a moment ago."""
        if self._unpublished:
            return f"the page cannot be made: {self._unpublished}"
        if not self.published:
            return "nothing collected yet"
        age, snapshot = self.published
        if age > self.settings.stale_after():
            return f"the last collection is {age:.0f} s old"
        return "; ".join(
            f"{one.collector}: {one.error or 'not collected yet'}"
            for one in snapshot.health
            if not one.success
        )

    @property
    def alive(self) -> bool:
        """Every thread that was started is running. Says nothing about what the sources answer."""
        return all(thread.is_alive() for thread in self._threads)

    def _step_slices(self) -> None:
        if self._slices.step() is not None:
            self._fresh.set()

    def _step_nvml(self) -> None:
        self._nvml.step()
        self._shown.set()

    def _nvml_for_ever(self) -> None:
        while not self._stop.is_set():
            begin = time.monotonic()
            self._step_nvml()
            self._stop.wait(max(0.0, begin + self.settings.period - time.monotonic()))

    def _slices_for_ever(self) -> None:
        while not self._stop.is_set():
            self._shown.wait(_PATIENCE * self.settings.period)
            self._shown.clear()
            self._step_slices()

    def _publish_for_ever(self) -> None:
        while not self._stop.is_set():
            self._fresh.wait(self.settings.period)
            self._fresh.clear()
            try:
                self.publish()
                self._unpublished = ""
            except Exception as failure:  # one value that cannot be shown must not end all pages to come
                self._unpublished = f"{type(failure).__name__}: {failure}"
