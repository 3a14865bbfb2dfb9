"""The card harness on the simulated card: short runs, one cut and resumed, and what is refused before any."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks.card import company
from benchmarks.card.journal import Journal
from benchmarks.card.overhead import MODES
from benchmarks.card.turns import beyond_us
from tests.benchmarks.rows import journal_lines, row

ROOT = Path(__file__).resolve().parents[2]
HARNESS = ("-m", "benchmarks.card")


def card(directory: Path, *more: str, program: Sequence[str] = HARNESS) -> subprocess.CompletedProcess[str]:
    short = ["--simulate", "h200", "--seconds", "1", "--settle", "0.2", "--limits", "30"]
    environment = {**os.environ, "SIMGPU_STATE": str(directory / "machine"), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, *program, str(directory / "rows"), *short, *more]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


def changed(what: str) -> tuple[str, str]:
    """The harness with a constant of its parts changed."""
    names = "from benchmarks.card import company, loads, overhead, pairs, phases, __main__ as harness"
    return ("-c", f"import sys; {names}; {what}; sys.exit(harness.main())")


def test_a_run_that_spent_its_budget_goes_on_where_it_stopped(tmp_path: Path) -> None:
    first = card(tmp_path, "--parts", "alone", "--rows", "alone/1ms", "--budget", "1")
    assert (first.returncode, first.stderr) == (3, "")
    assert "budget spent" in first.stdout
    second = card(tmp_path, "--parts", "alone", "--rows", "alone/1ms")
    assert (second.returncode, second.stderr) == (0, "")
    rows = {one["limit"]: one for one in map(json.loads, (tmp_path / "rows/rows.jsonl").open())}
    assert set(rows) == {None, 30, 100}
    assert rows[None]["own"] > 90
    assert 10 < rows[30]["own"] < 60 < rows[100]["own"]
    assert "(simulated)" in (tmp_path / "rows/benchmarks.md").read_text()
    again = card(tmp_path, "--parts", "alone", "--rows", "alone/1ms")
    assert (again.returncode, again.stdout) == (0, "")


def test_rows_of_an_older_commit_or_another_length_are_measured_again_once(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "rows")
    journal.add(row("1ms", 30, 77.0, commit="new", length="8 s"))
    journal.add(row("44us", 30, 77.0, commit="old", length="1 s"))
    journal.add(row("wait", 30, 77.0, commit="new", length="1 s"))
    wanted = ("--parts", "alone", "--rows", "1ms/30", "--rows", "44us/30", "--rows", "wait/30")
    for again in ((), ("--again", "--commit", "new"), ("--again", "--commit", "new")):
        done = card(tmp_path, *wanted, *again)
        assert (done.returncode, done.stderr) == (0, "")
    found = {one["load"]: one for one in map(json.loads, journal_lines(tmp_path / "rows"))}
    assert {load: one["nvml"] == 77.0 for load, one in found.items()} == {
        "1ms": False,
        "44us": False,
        "wait": True,
    }
    assert done.stdout == ""
    assert "--again: alone: not allowed; together with --commit" in card(tmp_path, "--again").stderr


def test_four_slices_are_measured_side_by_side(tmp_path: Path) -> None:
    done = card(tmp_path, "--parts", "pairs", "--rows", "1ms+1ms+1ms+1ms/25")
    assert (done.returncode, done.stderr) == (0, "")
    (found,) = map(json.loads, (tmp_path / "rows/rows.jsonl").open())
    assert all(0 < given < 60 for given in found["given"])
    assert (tmp_path / "rows/images/1ms-1ms-1ms-1ms-25-25-25-25.svg").exists()


def running_in(directory: Path) -> list[str]:
    """The processes whose slices are there."""
    found = []
    for environment in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            if f"WEIR_SLICE_DIR={directory}".encode() in environment.read_bytes():
                found.append(environment.parent.name)
    return found


def test_who_cannot_fill_his_share_is_measured_with_his_neighbour_stopped(tmp_path: Path) -> None:
    light = "replace(loads.BY_NAME['wait'], fills=False, arguments=('--kernel-us', '2', '--idle-ms', '1'))"
    mix = "pairs.MIXES = (pairs.Mix(('wait', 'wait'), ((60, 30),)),)"
    program = changed(
        f"from dataclasses import replace; loads.BY_NAME['wait'] = {light}; {mix}; company.ROUNDS = 1"
    )
    done = card(tmp_path, "--parts", "pairs", "--rows", "60+30", program=program)
    assert (done.returncode, done.stderr) == (0, "")
    (found,) = map(json.loads, (tmp_path / "rows/rows.jsonl").open())
    assert all(50 < kept < 200 for kept in found["kept"])  # it sleeps most of the time
    assert running_in(tmp_path) == []
    page = (tmp_path / "rows/benchmarks.md").read_text()
    assert " + ".join(f"{kept:.1f}" for kept in found["kept"]) in page


def state(process: subprocess.Popen[bytes]) -> str:
    return Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0]


@pytest.fixture
def sleeping() -> Iterator[list[subprocess.Popen[bytes]]]:
    processes = [subprocess.Popen(["sleep", "60"]) for _ in range(4)]
    yield processes
    for one in processes:
        one.kill()
        one.wait()


def test_neighbours_go_on_though_one_of_them_ended_while_they_were_stopped(
    sleeping: list[subprocess.Popen[bytes]],
) -> None:
    ends, stays, *supervisors = sleeping
    programs: list[Any] = [
        SimpleNamespace(pids=lambda pid=one.pid: [pid], supervisor=supervisor.pid)
        for one, supervisor in zip((ends, stays), supervisors, strict=True)
    ]
    with company.stopped(programs):
        for one in supervisors:  # as they do when they see their program stopped
            one.send_signal(signal.SIGSTOP)
        for one in (stays, *supervisors):
            os.waitid(os.P_PID, one.pid, os.WSTOPPED | os.WNOWAIT)
            assert state(one) == "T"
        ends.kill()
        ends.wait()
    assert "T" not in [state(one) for one in (stays, *supervisors)]


def test_what_nvml_shows_beyond_kernels_is_told_for_each(tmp_path: Path) -> None:
    done = card(tmp_path, "--parts", "turns", "--rows", "turns/seldom+seldom")
    assert (done.returncode, done.stderr) == (0, "")
    (found,) = map(json.loads, (tmp_path / "rows/rows.jsonl").open())
    assert beyond_us(91.0, 25.0, 110_000) == pytest.approx(6.0)
    assert beyond_us(0.0, 0.0, 0) is None
    assert beyond_us(98.0, 8.0, 38_000) is None  # never idle: they might have taken more
    assert found["beyond_us"] == pytest.approx(
        beyond_us(found["nvml"], sum(found["own"]), sum(found["rates"]))
    )
    assert "| 100 µs, host 1 ms + 100 µs, host 1 ms |" in (tmp_path / "rows/benchmarks.md").read_text()


def test_each_part_writes_its_rows_and_its_table(tmp_path: Path) -> None:
    for part, wanted in (("memory", "plain/1GiB"), ("latency", "closed loop/30 %, alone")):
        done = card(tmp_path, "--parts", part, "--rows", wanted)
        assert (done.returncode, done.stderr) == (0, "")
    plain, step = map(json.loads, (tmp_path / "rows/rows.jsonl").open())
    assert (plain["refused"], plain["taken_mib"]) == ("CUDA_ERROR_OUT_OF_MEMORY", 448)
    assert plain["nvml_mib"] <= 1024
    assert 1.6 <= step["p50_ms"] <= step["p99_ms"]
    page = (tmp_path / "rows/benchmarks.md").read_text()
    assert "| plain | yes |" in page
    assert "| in a closed loop | 30 %, alone |" in page


def test_a_phase_begins_when_its_limit_is_in_force(tmp_path: Path) -> None:
    binding = changed("overhead.PHASES = (('wait', 30),)")
    done = card(tmp_path, "--parts", "overhead", "--rows", "phases/wait/30", program=binding)
    assert (done.returncode, done.stderr) == (0, "")
    (found,) = map(json.loads, (tmp_path / "rows/rows.jsonl").open())
    assert len(found["blocks"]) == 2
    assert found["added_percent"] == pytest.approx(100 * (0.9 / 0.3 - 1), rel=0.35)  # waiting, it uses 90 %


def test_loads_bound_by_their_launches_are_measured_in_turns(tmp_path: Path) -> None:
    done = card(
        tmp_path,
        "--parts",
        "overhead",
        "--rows",
        "overhead/launch-bound/wait",
        program=changed("overhead.TURNS = 2"),
    )
    assert (done.returncode, done.stderr) == (0, "")
    (found,) = map(json.loads, (tmp_path / "rows/rows.jsonl").open())
    ((_, modes),) = found["seen"].items()
    assert {mode: len(values) for mode, values in modes.items()} == dict.fromkeys(MODES, 2)
    assert min(map(min, modes.values())) >= 12


def test_rows_that_no_part_has_are_refused_before_one_is_measured(tmp_path: Path) -> None:
    refused = card(tmp_path, "--parts", "latency,alone", "--rows", "alone/1ms", "--rows", "alone/1sm")
    assert (refused.returncode, refused.stdout) == (2, "")
    (said,) = refused.stderr.splitlines()
    assert said.startswith("--rows: alone/1sm: not allowed; ")
    assert "alone/1ms/ " in said


def test_a_directory_that_cannot_be_is_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "rows").write_text("")
    refused = card(tmp_path)
    assert (refused.returncode, refused.stderr.count("\n")) == (5, 1)
    assert refused.stderr.startswith(f"DIR: {tmp_path / 'rows'}: ")


def test_a_machine_that_nobody_knows_is_refused_in_one_line(tmp_path: Path) -> None:
    refused = card(tmp_path, "--simulate", "nosuch")
    assert refused.returncode == 2
    assert refused.stderr.startswith("--simulate: nosuch: not allowed; ")
    assert refused.stderr.count("\n") == 1
