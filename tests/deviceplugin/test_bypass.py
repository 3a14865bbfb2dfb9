"""Programs that get around the limiter: seen, charged and named within seconds (docs/security.md)."""

import json
import subprocess
import time

import pytest

from exporter.slices import SlicesCollector
from simgpu.machines import simulate
from tests.deviceplugin.conftest import PATIENCE, WEIR
from tests.deviceplugin.programs import CUDA, PYTHON, WAIT, program

MIB = 1 << 20
GIB = 1 << 30
SEEN_WITHIN = 5  # seconds, by promise
TAKE = f"context(); check(allocate(3 << 30)); {WAIT}"  # of a slice of 2 GiB

# Takes the place of the program: what is left of its environment is what a simulated card needs.
EXEC = """
import os, sys
keep = {name: os.environ[name] for name in ("LD_LIBRARY_PATH", "PATH") if name in os.environ}
keep |= {name: value for name, value in os.environ.items() if name.startswith("SIMGPU_")}
"""
UNSET = EXEC + "keep['WEIR_SLICE_DIR'] = os.environ['WEIR_SLICE_DIR']\n"
RUN = "os.execve(sys.executable, [sys.executable, '-c', CODE], keep)"
DAEMON = """
if os.fork(): sys.stdin.read(); sys.exit()
os.setsid()
if os.fork(): os._exit(0)
"""
DLMOPEN = """
libc = ctypes.CDLL(None)
libc.dlmopen.restype = ctypes.c_void_p
handle = libc.dlmopen(ctypes.c_long(-1), b"libcuda.so.1", 2)
cuda = ctypes.CDLL("libcuda.so.1", handle=handle)
"""
COPY = """
import shutil, pathlib, tempfile
real = next(line.split()[-1] for line in open("/proc/self/maps") if "libcuda.so" in line)
copy = pathlib.Path(tempfile.mkdtemp()) / "mine.so"
shutil.copy(real, copy)
cuda = ctypes.CDLL(str(copy))
"""

BYPASSES = {
    "LD_PRELOAD unset": UNSET + RUN,
    "env -i": EXEC + RUN,
    "a daemon of env -i": EXEC + DAEMON + RUN,
}


def bypass(code):
    return ["--", PYTHON, "-c", f"CODE = {CUDA + TAKE!r}\n{code}"]


def top(box):
    command = [*WEIR, "top", "--json", "--simulate", "h200", "--root", str(box.root), "--interval", "0.1"]
    done = subprocess.run(command, env=box.environment, capture_output=True, timeout=PATIENCE, check=True)
    return json.loads(done.stdout)


def by_name(report):
    return {one["container"]: one for one in report["slices"]}


def test_whoever_sheds_the_limiter_is_charged_to_his_slice_and_named_within_seconds(box):
    names = {f"b{index}": case for index, case in enumerate(BYPASSES)}
    running = [
        box.start("--name", name, "--memory", "2GiB", *bypass(BYPASSES[case])) for name, case in names.items()
    ]
    for one in running:
        assert one.stdout.readline() == "ready\n", one.stderr.read()
    began = time.monotonic()
    assert box.eventually(
        lambda: all(box.slices()[name].control.devices[0].unaccounted > 3 * GIB for name in names)
    )
    assert time.monotonic() - began < SEEN_WITHIN
    report = top(box)
    for name, case in names.items():
        audit = by_name(report)[name]["audit"]
        assert (case, len(audit["processes_without_limiter"])) == (case, 1)
        assert audit["memory_unaccounted_bytes"] == 3 * GIB + 518 * MIB
    assert report["gpus"][0]["processes_outside_slices"] == []


def test_a_held_program_beside_one_that_is_not_gets_only_what_that_one_left(box):
    other = CUDA + f"context(); check(allocate(1 << 30)); {WAIT}"
    code = f"""
import subprocess
{EXEC}
other = subprocess.Popen([sys.executable, "-c", {other!r}], env=keep, stdin=subprocess.PIPE)
context()
for line in sys.stdin: say(allocate(1 << 30))
"""
    running = box.start("--name", "alice", "--memory", "3GiB", *program(code))
    assert running.stdout.readline() == "ready\n", running.stderr.read()
    assert box.eventually(lambda: box.slices()["alice"].control.devices[0].unaccounted > GIB)
    running.stdin.write("try\n")
    running.stdin.flush()
    assert running.stdout.readline() == "2\n"


@pytest.mark.parametrize("second", [COPY, DLMOPEN], ids=["a copied file", "dlmopen"])
def test_a_second_driver_is_held_like_the_first(box, second):
    done = box.run("--name", "alice", "--memory", "2GiB", *program(second + TAKE))
    assert (done.returncode, done.stderr) == (1, "CUDA error 2\n")


def test_a_program_of_no_slice_is_counted_on_its_card(box):
    box.start("--name", "alice", *program(f"context(); {WAIT}")).stdout.readline()
    environment = {**box.environment, **simulate("h200").environment}
    outside = [PYTHON, "-c", CUDA + f"context(); check(allocate(1 << 30)); {WAIT}"]
    with subprocess.Popen(
        outside, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as stranger:
        assert stranger.stdout.readline() == "ready\n"
        report = top(box)
        stranger.stdin.close()
    assert report["gpus"][0]["processes_outside_slices"] == [stranger.pid]
    assert by_name(report)["alice"]["audit"]["processes_without_limiter"] == []


FORGERIES = {
    "its own sums": 'page = "rw/stats"; at, what = 0x100, bytes(0x100)',
    "all of its page": 'page = "rw/stats"; at, what = 0, os.urandom(4096)',
}


@pytest.mark.parametrize("what", FORGERIES)
def test_bytes_taken_before_a_page_was_forged_are_charged_again_from_outside(box, what):
    code = f"""
context()
check(allocate(1 << 30))
{FORGERIES[what]}
with open(os.path.join(os.environ["WEIR_SLICE_DIR"], page), "r+b") as file:
    file.seek(at)
    file.write(what)
{WAIT}
"""
    running = box.start("--name", "alice", "--memory", "2GiB", *program(code))
    assert running.stdout.readline() == "ready\n", running.stderr.read()
    assert box.eventually(lambda: forgery_shows(box))


def forgery_shows(box):
    report = top(box)
    one = by_name(report).get("alice")
    spoiled = report["regions"]["corrupt"] + report["regions"]["version_mismatch"]
    return spoiled or (one and one["audit"]["memory_unaccounted_bytes"] > GIB // 2)


# One write over memory_limit, context_bytes and core_limit of its card, at every line; then it takes 3 GiB.
RAISE = """
import struct
page = open(os.path.join(os.environ["WEIR_SLICE_DIR"], "control"), "r+b", buffering=0)
context()
say("ready")
for line in sys.stdin:
    if line == "allocate\\n": say(allocate(3 << 30)); break
    os.pwrite(page.fileno(), struct.pack("<QQI", 100 << 30, 0, 10_000), 128 + 16)
    say("raised")
"""


def test_a_program_that_raises_its_own_limits_is_put_back_and_told_within_seconds(box):
    running = box.start("--name", "alice", "--memory", "2GiB", "--cores", "10", *program(RAISE))

    def says(line):
        running.stdin.write(f"{line}\n")
        running.stdin.flush()
        return running.stdout.readline().strip()

    def seen():  # again and again: the agent may not have looked before
        assert says("raise") == "raised"
        return forgeries(box)

    assert running.stdout.readline() == "ready\n", running.stderr.read()
    began = time.monotonic()
    assert box.eventually(seen)
    assert box.eventually(lambda: limits(box) == (1000, 2 * GIB))
    assert time.monotonic() - began < SEEN_WITHIN
    assert says("allocate") == "2"
    _, said = running.communicate(timeout=PATIENCE)
    assert said.count("slice alice: its control page was changed") == 1
    assert "core_limit 10000, not 1000" in said
    assert f"memory_limit {100 * GIB}, not {2 * GIB}" in said


def limits(box):
    control = box.slices()["alice"].control  # None while the agent is writing it
    return control and (control.devices[0].core_limit, control.devices[0].memory_limit)


def forgeries(box):
    return sum(one.forgeries for one in SlicesCollector(box.box).collect().containers)
