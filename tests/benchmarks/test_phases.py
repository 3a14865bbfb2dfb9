"""What a limit adds inside one process: the right ratio comes out of paces that drift and jitter."""

from __future__ import annotations

import itertools
import math
import random
from pathlib import Path

import pytest

from benchmarks.card import curves, phases
from benchmarks.card.bench import LoadError
from benchmarks.card.journal import Journal
from benchmarks.card.tables import overhead


def made(
    added: float, seed: int, drift: float, jitter: float
) -> tuple[curves.Curve, list[list[phases.Span]]]:
    """A counter's samples, and the blocks in which a limit added so many percent of time."""
    chance = random.Random(seed)
    blocks, limited, now = [], [], 0.0
    for _ in range(phases.BLOCKS):
        block = []
        for before, held in itertools.pairwise((False, *phases.BLOCK)):
            now += phases.GAP if held != before else 0
            block.append((now, now + phases.PHASE))
            limited += [block[-1]] if held else []
            now += phases.PHASE
        blocks.append(block)
    curve, count, at = [], 0.0, 0.0
    while at < now + 1:
        curve.append((at, count))
        held = any(start <= at < end for start, end in limited)
        pace = 60 * (1 + drift * math.sin(2 * math.pi * at / 7)) * math.exp(chance.gauss(0, jitter))
        count += pace / (1 + added / 100 * held) * phases.LINES
        at += phases.LINES
    return curve, blocks


@pytest.mark.parametrize("added", [0.0, 2.0, 15.0])
@pytest.mark.parametrize(
    ("drift", "jitter", "width"),
    [(0.0, 0.0, 0.05), (0.3, 0.0, 4.0), (0.0, 0.05, 4.0), (0.3, 0.05, 4.0)],
    ids=["steady", "drifting", "jittering", "both"],
)
def test_what_a_limit_added_is_found(added: float, drift: float, jitter: float, width: float) -> None:
    found = phases.figures(*made(added, seed=4, drift=drift, jitter=jitter))
    low, high = found["sure"]
    assert low - 0.01 <= added <= high + 0.01
    assert high - low <= width
    assert found["without"] >= found["with_limit"] * (1 + added / 100 - 0.03)


def test_an_even_drift_falls_out_of_each_block() -> None:
    paces = [math.exp(0.2 * index) for index in range(4)]
    assert phases.added_percent(paces) == pytest.approx(0.0)
    assert phases.added_percent([100, 98, 98, 100]) == pytest.approx(100 * (100 / 98 - 1))


@pytest.mark.parametrize(
    ("count", "interval"),
    [(5, None), (6, (0, 5)), (9, (1, 7)), (22, (5, 16))],  # tables of the sign test at 95 %
)
def test_the_interval_is_that_of_the_median(count: int, interval: phases.Span | None) -> None:
    assert phases.median_interval(range(count)) == interval


def test_the_interval_holds_the_median_as_often_as_it_says() -> None:
    chance, held = random.Random(1), 0
    for _ in range(1000):
        found = phases.median_interval([chance.expovariate(1) for _ in range(phases.BLOCKS)])
        held += bool(found and found[0] <= math.log(2) <= found[1])
    assert 940 <= held <= 990


def test_a_phase_without_a_pace_leaves_its_block_out() -> None:
    curve, blocks = made(2.0, seed=1, drift=0, jitter=0)
    torn = [one for one in curve if not blocks[3][2][0] < one[0] < blocks[3][2][1]]
    assert len(phases.figures(torn, blocks)["blocks"]) == phases.BLOCKS - 1
    with pytest.raises(LoadError, match="no block"):
        phases.figures([], blocks)


def test_the_slope_does_not_see_where_between_two_steps_a_window_ends() -> None:
    steps = [(0.1 * index, float(index // 5 * 5)) for index in range(100)]
    assert curves.slope(steps, 0.0, 9.9) == pytest.approx(10, rel=0.01)
    assert curves.slope(steps[:1], 0.0, 9.9) is None


def test_the_table_tells_how_sure_a_figure_is(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    old = {"load": "wait", "without": 982.0, "with_limit": 982.3, "added_percent": -0.02}
    journal.add({"part": "overhead", "row": "phases/wait", **old})
    new = old | {
        "load": "training",
        "limit": 50,
        "added_percent": 0.4,
        "sure": [0.1, 0.6],
        "blocks": [0.1, 0.4, 0.6],
    }
    journal.add({"part": "overhead", "row": "phases/training", **new})
    seen = {"bare": [4.0, 5.0, 4.0], "memory limit": [4.1, 5.0, 4.4]}
    medians = {"bare": 4.0, "memory limit": 4.4}
    journal.add({"part": "overhead", "row": "launch", "medians": {"µs": medians}, "seen": {"µs": seen}})
    text = overhead(journal)
    assert "| 99 % | 982.0 | 982.3 | -0.02 | \u2013 | \u2013 |" in text
    assert "| 50 % | 982.0 | 982.3 | +0.40 | +0.10 to +0.60 | 3 |" in text
    assert "| µs | 4.00 | 4.40 (+2.5 %; +0.0 to +10.0) |" in text
