"""Arithmetic on counters: samples (seconds, cumulative value) to rates, and to windows of one second.

Pure. A curve is sorted by time; between two samples the counter is taken to have grown evenly, so a window's
figure is as fine as the samples are dense. A window that the samples do not cover has no figure.
"""

from __future__ import annotations

import itertools
import statistics
from bisect import bisect_right
from collections.abc import Sequence

Curve = Sequence[tuple[float, float]]


def value(curve: Curve, at: float) -> float | None:
    """The counter at this second, or None outside of the samples."""
    if not curve or not curve[0][0] <= at <= curve[-1][0]:
        return None
    index = bisect_right(curve, at, key=lambda sample: sample[0])
    if index == len(curve):
        return curve[-1][1]
    (t0, v0), (t1, v1) = curve[index - 1], curve[index]
    return v0 + (v1 - v0) * (at - t0) / (t1 - t0)


def rate(curve: Curve, start: float, end: float) -> float | None:
    """Growth a second from the first to the last sample inside the window."""
    inside = [sample for sample in curve if start <= sample[0] <= end]
    if len(inside) < 2 or inside[-1][0] <= inside[0][0]:
        return None
    return (inside[-1][1] - inside[0][1]) / (inside[-1][0] - inside[0][0])


def slope(curve: Curve, start: float, end: float) -> float | None:
    """Growth a second as the line through the samples inside the window has it (least squares).

    Where samples come between a program's uneven steps, both ends of `rate` are off by a step; this is not.
    """
    inside = [sample for sample in curve if start <= sample[0] <= end]
    if len(inside) < 2 or inside[-1][0] <= inside[0][0]:
        return None
    return statistics.linear_regression(*zip(*inside, strict=True)).slope


def longest_gap(curve: Curve, start: float, end: float) -> float:
    """The longest time in the window without a sample: what lies inside cannot be told apart."""
    times = [start, *(at for at, _ in curve if start <= at <= end), end]
    return max(after - before for before, after in itertools.pairwise(times))


def each_second(curve: Curve, start: float, end: float) -> list[float]:
    """Growth in each whole second of the window that the samples cover."""
    found = []
    for index in range(int(end - start)):
        before, after = value(curve, start + index), value(curve, start + index + 1)
        if before is not None and after is not None:
            found.append(after - before)
    return found


def worst(seconds: Sequence[float], expected: float) -> float | None:
    """The growth of the second that is furthest off, less what was expected."""
    return max((one - expected for one in seconds), key=abs, default=None)
