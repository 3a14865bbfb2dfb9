"""Several `weir run` at once: what fits, names, what a killed one leaves, and who is the agent."""

import fcntl
import json
import os
import re
import signal
import subprocess

import pytest

from simgpu.machines import simulate
from tests.deviceplugin.conftest import WEIR
from tests.deviceplugin.programs import CUDA, PYTHON, WAIT, program


def begin(box, *options, code="context()"):
    running = box.start(*options, *program(f"{code}; {WAIT}"))
    assert running.stdout.readline() == "ready\n", running.stderr.read()
    return running


def test_what_does_not_fit_is_refused_with_what_is_left(box):
    begin(box, "--memory", "100GiB", "--cores", "60")
    memory = box.run("--memory", "50GiB", "--", "true")
    assert memory.returncode == 3
    assert re.search(r"--memory: 50 GiB: .*39\.8 GiB of 139\.8 GiB left", memory.stderr)
    cores = box.run("--cores", "41", "--", "true")
    assert (cores.returncode, "40 % left" in cores.stderr) == (3, True)
    assert box.run("--memory", "39GiB", "--cores", "40", "--", "true").returncode == 0


def test_what_programs_outside_hold_is_gone(box):
    outside = [PYTHON, "-c", CUDA + f"context(); check(allocate(100 << 30)); {WAIT}"]
    environment = {**box.environment, **simulate("h200").environment}
    with subprocess.Popen(
        outside, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as held:
        assert held.stdout.readline() == "ready\n"
        assert box.run("--memory", "50GiB", "--", "true").returncode == 3
        held.stdin.close()


def test_a_name_is_refused_while_its_slice_lives_and_free_afterwards(box):
    running = begin(box, "--name", "alice")
    again = box.run("--name", "alice", "--", "true")
    assert (again.returncode, again.stderr.startswith("weir: --name: alice: ")) == (2, True)
    running.communicate("", timeout=30)
    assert box.run("--name", "alice", "--", "true").returncode == 0


def test_a_killed_supervisor_leaves_an_orphan_that_is_swept_when_its_program_ends(box):
    running = begin(box, "--name", "alice")
    running.kill()
    running.wait()
    assert box.eventually(lambda: box.slices()["alice"].state == "orphan")
    assert box.run("--name", "alice", "--", "true").returncode == 2
    running.stdin.close()
    assert box.eventually(lambda: box.slices()["alice"].state == "stale")
    assert box.run("--name", "alice", "--", "true").returncode == 0
    assert box.slices() == {}


def test_a_program_left_in_the_background_keeps_its_slice_until_it_ends(box, tmp_path):
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    code = f"""
if os.fork(): sys.exit(open({str(fifo)!r}).read() != "ready")
context()
open({str(fifo)!r}, "w").write("ready")
os.close(1); os.close(2)
open({str(fifo)!r}).read()
"""
    assert box.run("--name", "alice", *program(code)).returncode == 0
    assert box.slices()["alice"].state == "orphan"
    fifo.open("w").close()
    assert box.eventually(lambda: box.slices()["alice"].state == "stale")
    assert box.run("--", "true").returncode == 0
    assert box.slices() == {}


def has_agent(box):
    with (box.box / "agent.lock").open() as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


@pytest.mark.parametrize("ends", ["itself", "by kill -9"])
def test_the_agent_is_succeeded(box, ends):
    """The successor shows itself by its work: it removes what is left of a slice that died."""
    first = begin(box, "--name", "first")
    assert box.eventually(lambda: has_agent(box))
    begin(box, "--name", "second")
    if ends == "itself":
        first.communicate("", timeout=30)
    else:
        first.kill()
        first.communicate(timeout=30)
    assert box.eventually(lambda: has_agent(box))
    assert box.eventually(lambda: set(box.slices()) == {"second"})


def test_a_stopped_agent_is_succeeded_by_whoever_wants_a_limit_changed(box):
    """The only supervisor, stopped behind its back. On a busy machine one command may give up too early."""
    first = begin(box, "--name", "first", "--cores", "40")
    assert box.eventually(lambda: has_agent(box))
    os.kill(first.pid, signal.SIGSTOP)
    here = ["--simulate", "h200", "--root", str(box.root)]

    def weir(*arguments):
        return subprocess.run(
            [*WEIR, *arguments, *here], env=box.environment, capture_output=True, text=True, check=False
        )

    assert box.eventually(lambda: f"agent: process {first.pid} has not looked" in weir("doctor").stdout)
    assert box.eventually(lambda: weir("set", "first", "--cores", "20").returncode == 0)
    assert box.slices()["first"].control.devices[0].core_limit == 2000
    os.kill(first.pid, signal.SIGCONT)
    assert box.eventually(lambda: has_agent(box))
    first.communicate("", timeout=30)


def test_a_busy_pair_shares_the_card_as_asked(box):
    load = ["--", *WEIR, "load", "--seconds", "4", "--kernel-us", "1000", "--queue", "64"]
    running = [
        box.start("--name", name, "--cores", cores, *load) for name, cores in (("a", "60"), ("b", "30"))
    ]
    ended = [one.communicate(timeout=60)[0] for one in running]
    shares = [
        100 * done["kernel_seconds"] / done["t"]
        for done in (json.loads(text.splitlines()[-1]) for text in ended)
    ]
    assert shares == [pytest.approx(60, abs=6), pytest.approx(30, abs=6)]


@pytest.mark.parametrize(("policy", "share"), [("fixed", 30), ("burst", 100)])
def test_alone_a_fixed_slice_has_its_share_and_a_burst_slice_the_card(box, policy, share):
    load = ["--", *WEIR, "load", "--seconds", "3", "--kernel-us", "1000", "--queue", "64"]
    result = box.run("--cores", "30", "--policy", policy, *load)
    done = json.loads(result.stdout.splitlines()[-1])
    assert 100 * done["kernel_seconds"] / done["t"] == pytest.approx(share, abs=8)
