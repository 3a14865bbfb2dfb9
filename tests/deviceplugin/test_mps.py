"""`--backend mps`: what is asked of a daemon, what of the program, and that the limiter then only measures.

No daemon of NVIDIA's is here: a listening socket stands where one has its own, and the simulated card holds
no share of multiprocessors.
"""

import json
import socket
import subprocess
import sys
import time

import pytest

from deviceplugin import findings, mps
from deviceplugin.agent import promised
from deviceplugin.change import Change, changed
from deviceplugin.run import Slice, Terms, held_by, program_environment
from exporter.slices import SlicesCollector
from limiter import layout
from limiter.identity import Identity, Share
from limiter.pages import read_control, read_stats
from limiter.slices import first_control, observe
from tests.deviceplugin.conftest import PATIENCE, WEIR, used_share
from tests.deviceplugin.fakes import GIB, UUIDS, gpu, listener
from tests.deviceplugin.programs import CUDA
from weir.errors import UsageError
from weir.mps import daemon_lives


def test_a_daemon_that_listens_lives_and_is_not_visited(tmp_path):
    for kind in (socket.SOCK_STREAM, socket.SOCK_SEQPACKET):
        with listener(tmp_path, kind) as control:
            assert daemon_lives(tmp_path)
            control.setblocking(False)
            with pytest.raises(BlockingIOError):
                control.accept()
        (tmp_path / "control").unlink()


def dead(pipes):
    with listener(pipes):
        pass


def file(pipes):
    (pipes / "control").touch()


def nothing(_):
    pass


@pytest.mark.parametrize("leave", [dead, file, nothing])
def test_what_a_daemon_left_behind_is_no_daemon(tmp_path, leave):
    leave(tmp_path)
    assert not daemon_lives(tmp_path)


def test_a_path_too_long_for_a_socket_is_no_daemon(tmp_path):
    assert not daemon_lives(tmp_path / ("x" * 120))


def here(pipes):
    return {"CUDA_MPS_PIPE_DIRECTORY": str(pipes)}


def test_only_mps_itself_needs_a_daemon_and_auto_is_weir(tmp_path):
    for asked in ("auto", "weir"):
        assert held_by(asked, Terms(), here(tmp_path), None).backend == "weir"
    with pytest.raises(UsageError, match=r"^--backend: mps: .*none listens at .*nvidia-cuda-mps-control -d"):
        held_by("mps", Terms(), here(tmp_path), None)
    with listener(tmp_path):
        held = held_by("mps", Terms(), here(tmp_path), None)
        assert (held.backend, held.mps_pipes) == ("mps", str(tmp_path))
        assert held_by("auto", Terms(), here(tmp_path), None).backend == "weir"


@pytest.mark.parametrize(
    ("terms", "option"),
    [(Terms(policy="burst"), "--policy"), (Terms(priority=0), "--priority"), (Terms(frame_ms=10), "--frame")],
)
def test_what_mps_has_not_got_is_refused(tmp_path, terms, option):
    with listener(tmp_path), pytest.raises(UsageError) as refused:
        held_by("mps", terms, here(tmp_path), None)
    assert refused.value.name == option


def test_a_simulated_card_has_no_mps(box):
    result = box.run("--backend", "mps", "--cores", "30", "--", "true")
    assert (result.returncode, result.stderr.count("\n")) == (2, 1)
    assert "--backend: mps: not allowed; weir or auto on a simulated card" in result.stderr
    assert not box.root.exists()


def identity(*shares, backend="mps"):
    return Identity("alice", 7, 0.0, shares, backend=backend)


HALF = Share(UUIDS[0], 0, GIB + 1, 5000, 5000)
OTHER = Share(UUIDS[1], 1, 2 * GIB, 5000, 5000, context_bytes=518 << 20)
WHOLE = Share(UUIDS[0], 0, None)
PERCENTAGE, MEMORY = "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"


@pytest.mark.parametrize(
    ("who", "told"),
    [
        (identity(HALF), {PERCENTAGE: "50", MEMORY: "0=1025M"}),
        (identity(HALF, OTHER), {PERCENTAGE: "50", MEMORY: "0=1025M,1=2566M"}),
        (identity(WHOLE), {}),
        (identity(HALF, backend="weir"), None),
    ],
    ids=["one card", "two cards and a context on top", "nothing asked", "weir's own"],
)
def test_a_program_is_told_its_daemon_and_its_limits(tmp_path, who, told):
    made = Slice(tmp_path / "alice", who, (gpu(0),), -1)
    given = program_environment(here(tmp_path) | {"PATH": "/bin"}, made, tmp_path / "libweir.so")
    assert given["LD_PRELOAD"] == str(tmp_path / "libweir.so")
    assert given["CUDA_MPS_PIPE_DIRECTORY"] == str(tmp_path)
    assert {name: given[name] for name in (PERCENTAGE, MEMORY) if name in given} == (told or {})


def test_the_daemons_directory_is_told_where_it_is_the_usual_one():
    assert mps.client_environment({}, identity(WHOLE)) == {"CUDA_MPS_PIPE_DIRECTORY": "/tmp/nvidia-mps"}


def test_the_page_says_no_cap_of_time_and_the_promise_stands():
    page = first_control(identity(HALF), [100 * GIB], [518 << 20])
    (device,) = page.devices
    assert (device.core_limit, device.core_guarantee) == (layout.FULL_CORES, 5000)
    assert device.memory_limit == GIB + 1
    assert promised(page, identity(HALF)) == page


@pytest.mark.parametrize("change", [Change(cores="40"), Change(memory="2GiB"), Change(policy="burst")])
def test_what_the_driver_was_told_at_the_start_is_not_changed(change):
    with pytest.raises(UsageError, match="MPS holds this slice to what it was started with"):
        changed(identity(HALF), change, [gpu(0)])


# As `weir run` does it, past the daemon that a simulated card has not got.
HELD_BY_MPS = """
import os, sys
from pathlib import Path
from deviceplugin import child
from deviceplugin.cards import Wanted
from deviceplugin.run import Terms, make_slice, supervise
from weir.roots import make_box_root
from weir.simulation import open_nvml
root, *command = sys.argv[1:]
nvml, box = open_nvml("h200"), make_box_root(Path(root), "h200")
file, mask = child.resolve(command[0], "/bin"), child.block()
pipes = os.environ.get("CUDA_MPS_PIPE_DIRECTORY", "")
made = make_slice(box, nvml, Wanted("1GiB", "30"), "alice", Terms(backend="mps", mps_pipes=pipes))
sys.exit(supervise(box, nvml, made, lambda environment: child.Child(file, command, environment, mask)))
"""
COUNT_AND_ASK = (
    CUDA
    + """
import subprocess
from limiter.pages import read_stats
load = [sys.executable, "-m", "weir", "load", "--seconds", "1", "--report", "-"]
line = json.loads(subprocess.run(load, stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()[-1])
context()
answer = allocate(2 << 30)
device = read_stats(os.environ["WEIR_SLICE_DIR"] + "/rw/stats").devices[0]
seen = [device.gpu_time, device.launches, device.throttled_time, device.denied_limit]
say(json.dumps([line["kernel_seconds"], answer, *seen]))
"""
)


LOAD = ["load", "--no-calibrate", "--kernel-us", "1000", "--queue", "8", "--seconds", "30"]


def held_by_mps(box, *command):
    return [sys.executable, "-c", HELD_BY_MPS, str(box.root), sys.executable, *command]


def test_the_limiter_measures_and_refuses_memory_but_holds_nothing_back(box):
    done = subprocess.run(
        held_by_mps(box, "-c", COUNT_AND_ASK),
        env=box.environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    own, answer, gpu_time, launches, throttled, denied = json.loads(done.stdout)
    assert gpu_time > own * 0.5e9
    assert launches > 100 * own
    assert (throttled, denied, answer) == (0, 1, 2)


def test_a_lease_is_obeyed_for_as_long_as_it_lasts(box):
    stats = box.box / "slices/alice/rw/stats"
    load = box.begin(held_by_mps(box, "-m", "weir", *LOAD))
    assert box.eventually(lambda: stats.exists() and read_stats(stats).devices[0].launches > 20)
    page = box.box / "slices/alice/control"
    for arguments, cores in ((("5m", "--cores", "10"), 1000), (("0",), layout.FULL_CORES)):
        lease = [*WEIR, "set", "--simulate", "h200", "--root", box.root, "alice", "--lease", *arguments]
        subprocess.run(lease, env=box.environment, check=True)
        assert read_control(page).devices[0].core_limit_at(time.monotonic_ns()) == cores
        time.sleep(0.1)
        share = used_share(stats, 0.5)
        assert (share < 0.3) == (cores == 1000), share
    load.terminate()


def test_a_daemon_that_is_gone_is_told_and_one_that_is_back(box, tmp_path):
    pipes = tmp_path / "p"
    pipes.mkdir()
    box.environment |= here(pipes)

    def told():
        (seen,) = SlicesCollector(box.box).collect().containers
        return seen.daemon_lives, [one.found for one in findings.slices(observe(box.box))]

    with listener(pipes):
        program = box.begin(held_by_mps(box, "-c", "import sys; sys.stdin.read()"))
        assert box.eventually(lambda: "alice" in box.slices())
        assert told() == (True, [])
    gone = f"weir: the MPS daemon at {pipes} is gone: what starts in slice alice now has no share"
    assert program.stderr.readline().startswith(gone)
    assert told() == (False, [f"its MPS daemon at {pipes} is gone: what starts in it now has no share"])
    (pipes / "control").unlink()
    with listener(pipes):
        assert program.stderr.readline() == f"weir: an MPS daemon listens at {pipes} again\n"
        program.stdin.close()
        assert program.wait(PATIENCE) == 0
