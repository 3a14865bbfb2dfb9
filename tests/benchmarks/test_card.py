"""The card harness: its arithmetic, its journal, its tables and pictures, and what it is given."""

from __future__ import annotations

import json
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from benchmarks.card import __main__ as harness
from benchmarks.card import company, curves, tables
from benchmarks.card.journal import Journal
from benchmarks.card.loads import ALL, BY_NAME, LAUNCH_BOUND
from benchmarks.card.memory import held
from benchmarks.card.pairs import MIXES
from benchmarks.card.picture import Series, draw
from tests.benchmarks.rows import journal_lines, row

ROOT = Path(__file__).resolve().parents[2]


def test_a_page_says_which_rows_nobody_has_measured_yet(tmp_path: Path) -> None:
    Journal(tmp_path).add(row("1ms", 30, 30.0))
    names = ["alone/1ms/10", "alone/1ms/30", "alone/1ms/bare", "pairs/1ms+1ms/60+30"]
    said = "**Not measured yet**, 3 of 4 rows: alone/1ms (10, bare); pairs/1ms+1ms (60+30)."
    assert said in tables.render(Journal(tmp_path), names)
    assert "Not measured" not in tables.render(Journal(tmp_path), ["alone/1ms/30"])


def test_a_counter_is_even_between_its_samples() -> None:
    curve = [(0.0, 0.0), (1.0, 0.5), (3.0, 1.5)]
    assert curves.value(curve, 2.0) == pytest.approx(1.0)
    assert curves.value(curve, 3.0) == 1.5
    assert curves.value(curve, 3.1) is None
    assert curves.each_second(curve, 0.0, 4.0) == pytest.approx([0.5, 0.5, 0.5])
    assert curves.rate(curve, 0.0, 3.0) == pytest.approx(0.5)
    assert curves.rate(curve, 0.5, 1.5) is None


def test_a_counter_that_is_seldom_told_says_so() -> None:
    assert curves.longest_gap([(0.1, 0), (0.2, 1), (1.4, 2)], 0.0, 1.5) == pytest.approx(1.2)
    assert curves.longest_gap([(0.1, 0)], 0.0, 1.5) == pytest.approx(1.4)


def test_the_worst_second_is_the_one_furthest_off_on_either_side() -> None:
    assert curves.worst([30.0, 26.0, 33.0], 30.0) == -4.0
    assert curves.worst([], 30.0) is None


def test_a_line_that_was_cut_short_is_measured_again(tmp_path: Path) -> None:
    Journal(tmp_path).add(row("1ms", 30, 30.0))
    with (tmp_path / "rows.jsonl").open("a") as file:
        file.write('{"part": "alone", "row": "1ms/70", "nv')
    journal = Journal(tmp_path)
    assert ("alone", "1ms/30") in journal
    assert ("alone", "1ms/70") not in journal
    journal.add(row("1ms", 70, 70.0))
    assert [one["row"] for one in Journal(tmp_path).of("alone")] == ["1ms/30", "1ms/70"]


def test_what_was_not_measured_is_a_dash(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.add(row("1ms", None, 100.0))
    dashes = " | ".join("\u2013" * 4)
    assert f"| no Weir | 100.0 | 100.0 | {dashes} | 100.0 | \u2013 | 1980 |" in tables.alone(journal)


def test_the_journal_of_the_docs_and_rows_of_today_make_one_page(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text((ROOT / "docs/benchmarks/h200.jsonl").read_text())
    journal = Journal(tmp_path)
    new = {"cupti": 8.0, "kernel_time": 9.0, "cupti_pace": 80.0, "seconds_by": "CUPTI"}
    for name, limit in (("inference/bare", None), ("inference/100", 100), ("inference/50", 50)):
        journal.add(row("inference", limit, 17.0, **new) | {"row": name})
    text = tables.render(Journal(tmp_path))
    assert text.count("\n### ") == len(
        {record["part"] for record in map(json.loads, journal_lines(tmp_path))}
    )
    assert "| 50 % | 17.0 | 17.0 | \u2013 | 9.0 | +0.0 (CUPTI) |" in text


def test_a_row_that_is_measured_again_replaces_the_old_one(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    for nvml, limit in ((31.0, 30), (70.0, 70), (30.0, 30)):
        journal.add(row("1ms", limit, nvml))
    assert [json.loads(line)["nvml"] for line in journal_lines(tmp_path)] == [30.0, 70.0]
    assert [one["nvml"] for one in Journal(tmp_path).of("alone")] == [30.0, 70.0]


def test_tables_replace_what_stood_between_the_marks(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"before\n{tables.BEGIN}\nwhat stood here\n{tables.END}\nafter\n")
    journal = Journal(tmp_path / "rows")
    journal.add(row("1ms", 30, 30.0))
    tables.write(journal, page)
    text = page.read_text()
    assert text.startswith("before\n")
    assert text.endswith("\nafter\n")
    assert "what stood here" not in text
    assert "1 limited rows: error 0.00" in text


def test_a_picture_is_whole_and_says_who_is_who() -> None:
    picture = draw("a < b", [Series("one & all", 60, [60, 59.5]), Series("free", None, [30, 120])])
    tree = ET.fromstring(picture)
    texts = [one.text for one in tree.iter("{http://www.w3.org/2000/svg}text")]
    assert {"a < b", "one & all (60)", "free"} <= set(texts)
    assert len(list(tree.iter("{http://www.w3.org/2000/svg}polyline"))) == 2


def test_every_mix_is_of_known_loads_and_fits_the_card() -> None:
    assert len(BY_NAME) == len(ALL) + len(LAUNCH_BOUND)
    for mix in MIXES:
        assert all(load in BY_NAME for load in mix.loads)
        assert all(len(shares) == len(mix.loads) and sum(shares) <= 100 for shares in mix.shares)


OUT = "CUDA_ERROR_OUT_OF_MEMORY"
HELD = {
    "refused within the limit": ("plain", OUT, 966, True),
    "refused too late": ("plain", OUT, 1030, False),
    "refused, unseen by NVML": ("imported", OUT, None, True),
    "refused for another reason": ("graph-capture", "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED", 518, False),
    "given, and nothing taken of the card": ("graph-upload", None, 594, True),
    "given, and taken": ("graph-upload", None, 2054, False),
    "given, nobody knows": ("plain", None, None, False),
    "given, and NVML cannot see it": ("managed", None, 518, False),
}


@pytest.mark.parametrize(("way", "refused", "used", "expected"), HELD.values(), ids=list(HELD))
def test_a_limit_held_where_the_card_says_so(
    way: str, refused: str | None, used: float | None, expected: bool
) -> None:
    assert held({"way": way, "refused": refused, "nvml_mib": used, "limit_mib": 1024}) is expected


def test_the_pace_kept_beside_a_neighbour_is_against_the_times_alone_around_it() -> None:
    """A host that becomes slower and slower, and a program that is half as fast beside others."""
    curve, done = [], 0.0
    for tick in range(900):
        together = tick // 100 % 2 == 0
        done += (0.01 if together else 0.02) * 0.999**tick
        curve.append((tick / 100, done))
    times = [((a, a + 1), (a + 1, a + 2), (a + 2, a + 3)) for a in (0, 2, 4)]
    assert company.kept_percent(curve, times) == pytest.approx(50, rel=0.02)
    assert company.kept_percent(curve, [((0, 1), (20, 21), (2, 3))]) is None


@pytest.mark.parametrize(
    ("option", "value", "allowed"),
    [
        ("--parts", "speed", "of overhead,"),
        *(("--seconds", value, "a number from 0.1 to") for value in ("0", "-1", "nan", "inf", "x", "1e300")),
        ("--settle", "nan", "a number from 0 to"),
        ("--budget", "0", "a number from 1 to"),
        *(("--limits", value, "percents from 1 to 100") for value in ("0", "101", "a", "30,", "")),
        ("--docs", "/nowhere/page.md", "a page in a directory that exists"),
    ],
)
def test_what_is_not_allowed_is_refused_in_one_line(
    option: str, value: str, allowed: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["card", "rows", f"{option}={value}"])
    with pytest.raises(SystemExit, match="2"):
        harness.options()
    (said,) = capsys.readouterr().err.splitlines()
    assert option in said
    assert f"{value}: not allowed; {allowed}" in said
