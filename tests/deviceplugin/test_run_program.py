"""What a program gets from `weir run` (its card, its memory, its signals), and its exit code back."""

import json
import signal
import subprocess

import pytest

from tests.deviceplugin.conftest import WEIR
from tests.deviceplugin.programs import MIB, PYTHON, program


def lines_of(result):
    assert result.returncode == 0, result.stderr
    return result.stdout.split()


def test_the_program_sees_a_card_of_its_slice_s_size(box):
    code = "context(); free, total = memory(); say(total); say(free)"
    total, free = map(int, lines_of(box.run("--memory", "3000MiB", *program(code))))
    assert total == 3000 * MIB
    assert 3000 * MIB - free == 518 * MIB  # the context


def test_memory_is_refused_past_the_limit_and_given_again_after(box):
    code = "context(); say(allocate(2600 << 20)); say(allocate(2400 << 20)); say(allocate(1 << 30))"
    assert lines_of(box.run("--memory", "3000MiB", *program(code))) == ["2", "0", "2"]


def test_without_memory_asked_the_card_is_the_limit(box):
    total = int(*lines_of(box.run(*program("context(); say(memory()[1])"))))
    assert total == 143_155 * MIB


CARDS = """
check(cuda.cuInit(0))
count, total = ctypes.c_int(), ctypes.c_size_t()
check(cuda.cuDeviceGetCount(ctypes.byref(count)))
for ordinal in range(count.value):
    check(cuda.cuDeviceTotalMem_v2(ctypes.byref(total), ordinal))
    say(total.value >> 20)
say(os.environ["CUDA_VISIBLE_DEVICES"])
"""


@pytest.mark.parametrize("gpu", ["0", "1", "1,0"])
def test_several_cards_each_at_the_slice_s_size_and_no_others(box, gpu):
    *totals, visible = lines_of(
        box.run("--simulate", "h200:2", "--gpu", gpu, "--memory", "10%", *program(CARDS))
    )
    assert totals == ["14315"] * len(gpu.split(","))
    assert len(visible.split(",")) == len(totals)


def test_the_machine_can_be_named_by_the_environment(box):
    box.environment["WEIR_SIMULATE"] = "h200"
    command = [*WEIR, "run", "--root", box.root, "--", *program("context(); say(1)")[1:]]
    assert subprocess.run(command, env=box.environment, check=False).returncode == 0


def test_a_program_without_cuda_runs_as_ever_and_leaves_nothing(box):
    result = box.run("--", "sh", "-c", "echo out; echo err >&2; exit 3")
    assert (result.returncode, result.stdout, result.stderr) == (3, "out\n", "err\n")
    assert box.slices() == {}


FORKS = {
    "before it uses CUDA": ("child = os.fork(); context(); say(memory()[1])", [3000 * MIB] * 2),
    "after it has used CUDA": (
        "context(); child = os.fork()\nsay(memory()[1]) if child else os._exit(0)",
        [3000 * MIB],
    ),
    "and the child starts a program": ("context(); say(os.spawnl(os.P_WAIT, '/bin/true', 'true'))", [0]),
}


@pytest.mark.parametrize("case", FORKS)
def test_a_program_that_forks(box, case):
    code, said = FORKS[case]
    end = "if globals().get('child'): sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))"
    shown = lines_of(box.run("--memory", "3000MiB", *program(f"{code}\n{end}")))
    assert [int(line) for line in shown] == said
    assert box.slices() == {}


# ---- exit codes and signals ----


@pytest.mark.parametrize("code", [0, 1, 7, 255])
def test_the_exit_code_is_the_program_s(box, code):
    assert box.run("--", "sh", "-c", f"exit {code}").returncode == code


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM, signal.SIGPIPE])
def test_a_program_ended_by_a_signal_gives_128_and_its_number(box, number):
    assert box.run("--", "sh", "-c", f"kill -{number.value} $$").returncode == 128 + number
    assert box.slices() == {}


PASSED = ["INT", "TERM", "HUP", "QUIT", "USR1", "USR2", "WINCH", "TSTP", "CONT"]


@pytest.mark.parametrize("name", PASSED)
def test_a_signal_sent_to_us_reaches_the_program_once(box, name):
    code = f"""
import signal
ours = [signal.SIG{name}]
signal.pthread_sigmask(signal.SIG_BLOCK, ours)
print("ready", flush=True)
print(signal.sigwait(ours) == ours[0], signal.sigtimedwait(ours, 0.1), flush=True)
"""
    running = box.start("--", PYTHON, "-c", code)
    assert running.stdout.readline() == "ready\n"
    running.send_signal(getattr(signal, f"SIG{name}"))
    assert running.communicate(timeout=30)[0] == "True None\n"
    assert running.returncode == 0


AS_ANOTHER_USER = """
import os
from weir.cli import main
def refuse(pid, number):
    raise PermissionError(1, "Operation not permitted")
os.kill = refuse
main()
"""


def test_a_program_that_runs_as_another_user_outlives_a_signal_that_may_not_be_sent_to_it(box):
    command = box.command("--", "sh", "-c", "echo ready; read line; exit 5")
    running = box.begin([PYTHON, "-c", AS_ANOTHER_USER, *command[len(WEIR) :]])
    assert running.stdout.readline() == "ready\n"
    running.send_signal(signal.SIGTERM)
    _, errors = running.communicate("\n", timeout=30)
    assert (running.returncode, errors) == (5, "")


# ---- what it was started with ----


@pytest.mark.parametrize("code", [0, 7])
def test_the_program_s_end_is_seen_where_dead_children_were_ignored(box, code):
    ignoring = "import os, signal, sys; signal.signal(signal.SIGCHLD, signal.SIG_IGN)"
    start = [PYTHON, "-c", f"{ignoring}; os.execv(sys.argv[1], sys.argv[1:])"]
    running = box.begin([*start, *box.command("--", "sh", "-c", f"exit {code}")])
    assert running.wait(timeout=30) == code
    assert box.slices() == {}


DESCRIPTORS = """
import json, os, pathlib, sys
open_here = [os.path.exists(f"/proc/self/fd/{number}") for number in range(3)]
ours = [os.readlink(f"/proc/{os.getppid()}/fd/{number}") for number in range(3)]
pathlib.Path(sys.argv[1]).write_text(json.dumps([open_here, ours]))
"""


@pytest.mark.parametrize("closed", [{0}, {1}, {2}, {0, 1, 2}])
def test_a_descriptor_that_was_closed_is_closed_in_the_program_and_no_file_of_ours(box, tmp_path, closed):
    told = tmp_path / "told"
    shell = ["sh", "-c", " ".join(['exec "$@"', *(f"{number}>&-" for number in closed)]), "sh"]
    command = box.command("--", PYTHON, "-c", DESCRIPTORS, told)
    subprocess.run([*shell, *command], env=box.environment, stdin=subprocess.PIPE, check=True)
    open_there, ours = json.loads(told.read_text())
    assert open_there == [number not in closed for number in range(3)]
    assert all(ours[number] == "/dev/null" for number in closed)
    assert not any(str(box.root) in file for file in ours)
