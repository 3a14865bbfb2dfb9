"""A glance at slices that rest: did one of them launch? A few bytes of each stats page, kept open.

For the time in which what they leave idle is lent: five thousand nanoseconds a slice, where a whole look
costs half a million. A page that cannot be read has not moved; it is read with `pread`, so a page cut short
by its tenant is nothing worse. What it does not do: judge the numbers; the look that follows does.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path

from limiter import layout
from limiter.pages import PageError, opened, read_layout

Counters = tuple[int, int, int]  # launches, last_launch, waiting: side by side in the page

_FIRST = layout.StatsDevice.launches.offset
_SIZE = layout.StatsDevice.waiting.offset + 8 - _FIRST


class _Page:
    """One slice's page, its cards' counters and what they were."""

    def __init__(self, path: Path, before: Sequence[Counters]) -> None:
        with opened(path) as descriptor:
            header = read_layout(path, descriptor)
            self.descriptor = os.dup(descriptor)
        self._cards = [
            header.header_size + card * header.device_stride + _FIRST for card in range(header.device_count)
        ]
        self._before = [struct.pack("<3Q", *counters) for counters in before]

    def moved(self) -> bool:
        now = [os.pread(self.descriptor, _SIZE, at) for at in self._cards]
        return any(len(one) == _SIZE for one in now) and now != self._before


class Glance:
    """The pages under watch."""

    def __init__(self) -> None:
        self._pages: dict[Path, _Page] = {}

    def __bool__(self) -> bool:
        return bool(self._pages)

    def watch(self, slices: Mapping[Path, Sequence[Counters]]) -> None:
        """Watch these slice directories and no others; counters are each card's as last seen."""
        for page in self._pages.values():
            os.close(page.descriptor)
        self._pages = {}
        for path, before in slices.items():
            try:
                self._pages[path] = _Page(path / "rw" / "stats", before)
            except (PageError, OSError):
                continue  # gone, or no page: it cannot return either

    def moved(self) -> bool:
        """Whether a slice under watch launched, or waited to."""
        return any(page.moved() for page in self._pages.values())
