"""What `weir run` refuses: one line that names field, value and what is allowed, and nothing left behind."""

import re
import subprocess
from pathlib import Path

import pytest

from tests.deviceplugin.conftest import WEIR

REFUSED = {
    "no memory": (["--memory", "0"], 2, "--memory: 0: "),
    "negative memory": (["--memory", "-5"], 2, "--memory: -5: "),
    "an unknown unit": (["--memory", "4XB"], 2, "--memory: 4XB: "),
    "more than the card": (["--memory", "200GiB"], 2, "--memory: 200GiB: .*139.8 GiB"),
    "less than a context": (["--memory", "4"], 2, "--memory: 4: .*518 MiB.*H200"),
    "more than all": (["--memory", "101%"], 2, "--memory: 101%: "),
    "no cores": (["--cores", "0"], 2, "--cores: 0: .*1 to 100"),
    "too many cores": (["--cores", "101"], 2, "--cores: 101: .*1 to 100"),
    "cores that are no number": (["--cores", "abc"], 2, "--cores: abc: .*1 to 100"),
    "an unknown card": (["--gpu", "7"], 2, "--gpu: 7: .*GPU-"),
    "an unknown UUID": (["--gpu", "GPU-0"], 2, "--gpu: GPU-0: .*GPU-"),
    "a name with a path": (["--name", "../x"], 2, "--name: ../x: "),
    "an unknown policy": (["--policy", "greedy"], 2, "--policy.*greedy.*fixed.*burst"),
    "an unknown option": (["--memroy", "4GiB"], 2, "--memroy"),
    "an unknown machine": (["--simulate", "h900"], 2, "--simulate: h900: .*h200"),
    "a root that cannot be": (["--root", "/proc/weir"], 5, "--root: /proc"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_bad_input_is_one_line_and_leaves_nothing(box, case):
    options, code, said = REFUSED[case]
    result = box.run(*options, "--", "true")
    assert result.returncode == code
    assert re.fullmatch(rf"weir: .*{said}.*\n", result.stderr)
    assert not box.root.exists()


def test_no_command_is_said_so(box):
    result = box.run("--memory", "1GiB")
    assert (result.returncode, result.stderr.count("\n")) == (2, 1)


def not_executable(directory):
    path = directory / "tool"
    path.write_text("#!/bin/sh\n")
    return path


def wrong_interpreter(directory):
    path = not_executable(directory)
    path.write_bytes(b"\x7fELF\x00\x00")
    path.chmod(0o755)
    return path


def missing_interpreter(directory):
    path = not_executable(directory)
    path.write_text("#!/no/such/interpreter -x\n")
    path.chmod(0o755)
    return path


COMMANDS = {
    "no such command": (lambda _: "no-such-command", 127),
    "no such file": (lambda directory: directory / "none", 127),
    "no permission": (not_executable, 126),
    "a directory": (lambda directory: directory, 126),
    "not a program": (wrong_interpreter, 126),
    "a script without its interpreter": (missing_interpreter, 126),
}


@pytest.mark.parametrize("case", COMMANDS)
def test_a_command_that_cannot_run(box, tmp_path, case):
    make, code = COMMANDS[case]
    result = box.run("--", make(tmp_path))
    assert (result.returncode, result.stderr.count("\n")) == (code, 1)
    assert box.slices() == {}


@pytest.mark.skipif(Path("/dev/nvidiactl").exists(), reason="this machine has a GPU")
def test_without_a_gpu_it_says_so_and_names_the_way_out(tmp_path):
    command = [*WEIR, "run", "--root", tmp_path / "root", "--", "true"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (result.returncode, result.stderr.count("\n")) == (4, 1)
    assert "--simulate" in result.stderr
    assert not (tmp_path / "root").exists()


def test_a_script_without_its_interpreter_is_told_which(box, tmp_path):
    assert "/no/such/interpreter" in box.run("--", missing_interpreter(tmp_path)).stderr


def test_a_slice_is_not_cut_again(box):
    result = box.run("--", *WEIR, "run", "--simulate", "h200", "--", "true")
    assert (result.returncode, result.stderr.count("\n")) == (5, 1)
    assert "already in a slice" in result.stderr
