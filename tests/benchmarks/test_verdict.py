"""What a program should have had of the card: by the witness that suits it, against limit and own use."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from benchmarks.card import verdict
from benchmarks.card.alone import by_cupti, figures
from benchmarks.card.journal import Journal, Record
from benchmarks.card.loads import BY_NAME
from benchmarks.card.program import Program
from benchmarks.card.watch import Window

NAN: dict[str, Any] = {"own": None, "limiter": None, "cupti": None, "seconds": [], "seconds_by": "limiter"}


def made(load: str, limit: int | None, rate: float, **more: Any) -> Record:
    name = "bare" if limit is None else limit
    return NAN | {
        "part": "alone",
        "row": f"{load}/{name}",
        "load": load,
        "limit": limit,
        "rate": rate,
        **more,
    }


def journal_of(directory: Path, *records: Record) -> Journal:
    journal = Journal(directory)
    for record in records:
        journal.add(record)
    return journal


@pytest.mark.parametrize(
    ("limit", "measured", "unlimited", "error"),
    [(30, 31.0, 100.0, 1.0), (70, 47.0, 48.0, -1.0), (30, 29.5, None, -0.5), (100, 99.0, 100.0, None)],
    ids=["the limit binds", "the program cannot use it", "not known without a limit", "no limit"],
)
def test_the_error_is_against_the_smaller_of_limit_and_use(
    tmp_path: Path, limit: int, measured: float, unlimited: float | None, error: float | None
) -> None:
    bare = () if unlimited is None else (made("1ms", None, 990, nvml=unlimited),)
    journal = journal_of(tmp_path, *bare)
    assert verdict.error(journal, made("1ms", limit, 300, nvml=measured)) == (error and pytest.approx(error))


@pytest.mark.parametrize(
    ("load", "bare", "limited", "witness"),
    [
        ("matmul", {"kernel_time": 98.0}, {"kernel_time": 29.0}, "nvml"),
        ("inference", {"kernel_time": 8.0}, {"kernel_time": 8.0}, "kernel_time"),
        ("inference", {"cupti": 7.0}, {"cupti": 7.0}, "cupti"),
        ("inference", {"cupti": 7.0}, {"cupti": 7.0, "kernel_time": 8.0}, "cupti"),
        ("inference", {"cupti": 7.0, "kernel_time": 8.0}, {"cupti": 7.0}, "cupti"),
        ("inference", {}, {"cupti": 7.0, "kernel_time": 8.0}, "nvml"),
    ],
    ids=[
        "keeps the card busy",
        "held up by its host",
        "old rows",
        "old bare row",
        "old limited row",
        "no CUPTI",
    ],
)
def test_the_witness_is_the_best_that_both_rows_have(
    tmp_path: Path, load: str, bare: Record, limited: Record, witness: str
) -> None:
    journal = journal_of(tmp_path, made(load, None, 900, nvml=17.0, **bare))
    assert verdict.witness(journal, made(load, 30, 900, nvml=16.0, **limited)) == witness


def test_a_program_that_uses_less_than_its_limit_is_judged_by_its_pace(tmp_path: Path) -> None:
    journal = journal_of(
        tmp_path,
        made("inference", None, 1000, nvml=17.0, kernel_time=8.0),
        made("inference", 100, 800, nvml=17.0, kernel_time=6.4, process=1.0),
    )
    slowed = made("inference", 50, 400, nvml=9.0, kernel_time=3.2, process=1.0)
    assert verdict.uses_less(journal, slowed)
    assert verdict.pace_kept(journal, slowed) == 50.0  # of the same process's pace, not of another's
    assert verdict.pace_kept(journal, slowed | {"process": 2.0}) is None
    assert verdict.work(journal, slowed) == 40.0
    assert verdict.error(journal, slowed) == pytest.approx(3.2 - 8.0)
    held = made("inference", 5, 500, nvml=9.0, kernel_time=5.0)
    assert not verdict.uses_less(journal, held)
    assert verdict.pace_kept(journal, held) is None


def test_a_program_that_only_its_host_held_back_has_no_error(tmp_path: Path) -> None:
    """Two processes of it differ by tens of percent."""
    journal = journal_of(tmp_path, made("inference", None, 1000, nvml=40.0, kernel_time=31.8))
    assert (
        verdict.error(journal, made("inference", 50, 750, nvml=30.0, kernel_time=23.8, limiter=21.0)) is None
    )
    assert (
        verdict.worst_second(journal, made("inference", 50, 750, nvml=30.0, limiter=21.0, seconds=[1.0]))
        is None
    )
    held = made("inference", 10, 400, nvml=14.0, kernel_time=10.8, limiter=9.6)
    assert verdict.error(journal, held) == pytest.approx(0.8)


def test_a_program_that_fills_the_card_on_this_host_is_judged_by_the_cards_utilisation(
    tmp_path: Path,
) -> None:
    journal = journal_of(tmp_path, made("elementwise", None, 1000, nvml=99.0, kernel_time=92.0))
    half = made("elementwise", 50, 500, nvml=49.4, kernel_time=45.8, limiter=50.0)
    assert verdict.error(journal, half) == pytest.approx(-0.6)
    told = half | {"seconds": [45.0, 46.4], "seconds_by": "CUPTI"}
    assert verdict.worst_second(journal, told) == pytest.approx(45.0 - 50 * 45.8 / 49.4, abs=0.01)


def test_seconds_told_by_the_limiter_say_nothing_of_a_program_that_it_need_not_hold(tmp_path: Path) -> None:
    journal = journal_of(
        tmp_path,
        made("inference", None, 1000, nvml=17.0),
        made("inference", 100, 1000, nvml=17.0, limiter=60.0),
    )
    limited = made("inference", 50, 1000, nvml=17.0, seconds=[49.0, 50.0])
    assert verdict.worst_second(journal, limited) is None
    assert verdict.worst_second(journal, limited | {"limit": 10}) == 40.0
    by_load = made("1ms", 30, 300, nvml=30.0, seconds=[29.0, 30.5], seconds_by="load")
    assert verdict.worst_second(journal, by_load) == -1.0


class Steps:
    """A program of 100 steps a second of which each takes 2 ms of the card, and half as quick under CUPTI."""

    def curve(self, key: str) -> list[tuple[float, float]]:
        return [(0.1 * index, 10.0 * index) for index in range(60)] if key == "steps" else []

    def profile(self, seconds: float) -> dict[str, float] | None:
        seen = {"profiled_seconds": seconds, "profiled_steps": 50 * seconds, "kernel_share": 0.1}
        return seen if seconds else None


def test_gpu_time_by_cupti_is_that_of_the_window_and_not_of_the_slower_time_under_it() -> None:
    program, window = cast(Program, Steps()), Window(1.0, 5.0, 50.0, 1980.0, ())
    rate = figures(BY_NAME["training"], program, window, [])["rate"]
    seen = by_cupti(program, window, rate, 2.0)
    assert seen.pop("seconds") == pytest.approx([20.0] * 4)
    assert seen.pop("seconds_by") == "CUPTI"
    assert seen == pytest.approx({"cupti": 10.0, "kernel_time": 20.0, "cupti_pace": 50.0})
    assert by_cupti(program, window, rate, 0) == {"cupti": None}


def test_a_host_that_became_too_slow_for_the_card_is_told_by_the_same_process(tmp_path: Path) -> None:
    """Elementwise on an H200 with a busy host: it filled the card without Weir, and minutes later no more."""
    journal = journal_of(
        tmp_path,
        made("elementwise", None, 36_600, nvml=96.2),
        made("elementwise", 100, 28_100, nvml=73.2, limiter=76.9, process=1.0),
    )
    late = made("elementwise", 70, 22_800, nvml=59.7, limiter=62.6, process=1.0)
    assert verdict.error(journal, late) is None
    assert verdict.error(journal, late | {"process": 2.0}) == pytest.approx(-10.3)
    assert verdict.error(journal, late | {"limiter": 70.0}) == pytest.approx(-10.3)  # the limit held it
