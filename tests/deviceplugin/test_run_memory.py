"""`weir run`: memory that cannot be accounted for, and a context that does not count."""

import json
import re
import subprocess
from pathlib import Path

import pytest

from exporter.slices import SlicesCollector
from limiter.pages import read_control
from simgpu.machines import simulate
from tests.deviceplugin.conftest import WEIR
from tests.deviceplugin.programs import MIB, WAIT, program

DOCS = Path(__file__).parents[2] / "docs"
PENDING_LAUNCHES = """
context()
count = ctypes.c_size_t()
check(cuda.cuCtxGetLimit(ctypes.byref(count), 4))
say(cuda.cuCtxSetLimit(4, ctypes.c_size_t(2 * count.value)))
"""
REFUSED = "weir: cuCtxSetLimit: refused: the memory it takes cannot be accounted for\n"


@pytest.mark.parametrize(
    ("options", "answer", "said"),
    [([], "0\n", ""), (["--unaccounted", "refuse"], "215\n", REFUSED)],
    ids=["counted", "refused"],
)
def test_memory_that_cannot_be_accounted_for(box, options, answer, said):
    result = box.run(*options, *program(PENDING_LAUNCHES))
    assert (result.returncode, result.stdout, result.stderr) == (0, answer, said)


ANSWERS = "context()\nfor line in sys.stdin: say(memory()[0] >> 20)"
FILLS = f"context(); check(allocate(100 << 30)); {WAIT}"


def test_what_is_free_follows_the_card_when_somebody_outside_fills_it(box):
    asks = box.start("--name", "alice", "--memory", "60GiB", *program(ANSWERS))
    first = free_mib(asks)
    control = box.slices()["alice"].control.devices[0]
    assert control.card_total == control.card_room  # from the start, before any audit
    assert first == (60 << 10) - 518
    environment = {**box.environment, **simulate("h200").environment}
    with subprocess.Popen(
        program(FILLS)[1:], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as outside:
        assert outside.stdout.readline() == "ready\n"
        assert box.eventually(lambda: free_mib(asks) == 143_155 - (100 << 10) - 2 * 518)
        outside.communicate()
    assert box.eventually(lambda: free_mib(asks) == first)


def free_mib(asks):
    asks.stdin.write("?\n")
    asks.stdin.flush()
    return int(asks.stdout.readline())


def test_what_was_let_through_is_told_by_doctor_and_metrics(box):
    running = box.start("--name", "hungry", *program(PENDING_LAUNCHES + WAIT))
    assert [running.stdout.readline() for _ in range(2)] == ["0\n", "ready\n"]
    command = [*WEIR, "doctor", "--simulate", "h200", "--root", str(box.root), "--json"]
    report = json.loads(subprocess.run(command, env=box.environment, capture_output=True, check=True).stdout)
    (met,) = [one for one in report["findings"] if one["subject"] == "slice hungry"]
    assert met["found"] == "calls that took memory unaccounted for: 1 to allocate"
    assert "--unaccounted refuse" in met["advice"]
    (container,) = SlicesCollector(box.box).collect().containers
    assert container.unaccounted_calls == {"memory": 1, "shared": 0, "code": 0, "table": 0}
    running.communicate()


USABLE = f"""
context()
free, total = memory()
say(json.dumps([free // {MIB}, total // {MIB}, [allocate(free), allocate({2 * MIB})]]))
"""


@pytest.mark.parametrize(
    ("options", "usable", "total"),
    [([], 1024 - 518, 1024), (["--context", "free"], 1024, 1024 + 518)],
    ids=["counted", "free"],
)
def test_what_a_gibibyte_leaves_for_a_bare_program(box, options, usable, total):
    result = box.run("--memory", "1GiB", *options, *program(USABLE))
    assert json.loads(result.stdout) == [usable, total, [0, 2]]
    assert f"| {usable:,} MiB |" in (DOCS / "limits.md").read_text()


def test_a_context_that_does_not_count_is_kept_free_on_the_card(box):
    card = 143_155
    first = box.start("--name", "one", "--memory", "100GiB", "--context", "free", *program(WAIT))
    assert first.stdout.readline() == "ready\n"
    left = card - 100 * 1024 - 518
    refused = box.run("--memory", f"{left + 1}MiB", "--", "true")
    assert refused.returncode == 3
    beside = box.run("--memory", f"{left - 517}MiB", "--context", "free", "--", "true")
    assert (beside.returncode, "with its context" in beside.stderr) == (3, True)
    fits = box.run("--memory", f"{left - 518}MiB", "--context", "free", "--", "true")
    assert fits.returncode == 0
    first.communicate()


def test_a_small_slice_is_possible_where_its_context_does_not_count(box):
    result = box.run("--memory", "4MiB", "--context", "free", *program(USABLE))
    assert json.loads(result.stdout) == [4, 522, [0, 2]]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--context", "none"], "--context.*none.*counted.*free"),
        (["--unaccounted", "log"], "--unaccounted.*log.*count.*refuse"),
        (["--memory", "100%", "--context", "free"], "--memory: 100%: .*at most 139.3 GiB.*context.*518 MiB"),
    ],
)
def test_what_is_not_allowed_is_one_line(box, options, said):
    result = box.run(*options, "--", "true")
    assert result.returncode == 2
    assert re.fullmatch(rf"weir: .*{said}.*\n", result.stderr)


def test_without_a_limit_a_context_that_does_not_count_changes_nothing(box):
    running = box.start("--name", "all", "--context", "free", *program(WAIT))
    assert running.stdout.readline() == "ready\n"
    (device,) = read_control(Path(box.box, "slices/all/control")).devices
    assert device.memory_limit == 143_155 * MIB
    running.communicate()
