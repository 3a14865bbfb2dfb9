"""The timeline in virtual time (programs/timeline.c), and the machine's file that all processes share."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

PROGRAMS = Path(__file__).parent / "programs"


def cases(name: str) -> list[str]:
    """The cases that a program lists at its end."""
    return re.findall(r"CASE\((\w+)\)", (PROGRAMS / f"{name}.c").read_text())


@pytest.mark.parametrize(
    ("program", "case"), [(name, case) for name in ("timeline", "timeline_waits") for case in cases(name)]
)
def test_timeline(compile_c: Callable[..., Path], program: str, case: str) -> None:
    subprocess.run([compile_c(program, engine=True), case], check=True, timeout=60)


REFUSED = [
    ({"SIMGPU_MACHINE": "h300"}, "SIMGPU_MACHINE: h300: not a known machine; one of h200, a100-40g, t4"),
    ({"SIMGPU_MACHINE": "t4:0"}, "SIMGPU_MACHINE: t4:0: not a known machine"),
    ({"SIMGPU_MACHINE": "t4:17"}, "SIMGPU_MACHINE: t4:17: not a known machine"),
    ({"SIMGPU_STATE": "/nonexistent/state"}, "SIMGPU_STATE: /nonexistent/state: No such file or directory"),
    ({"SIMGPU_STATE": "/" + "x" * 5000}, "too long for a path"),
    ({"SIMGPU_STATE": "state"}, "SIMGPU_STATE: state: not an absolute path"),
]


@pytest.mark.parametrize(("environment", "message"), REFUSED)
def test_a_machine_that_cannot_be_is_refused_in_one_line(
    h200: Any, compile_c: Callable[..., Path], environment: dict[str, str], message: str
) -> None:
    result = h200.run(compile_c("execution"), "nothing_but_init", **environment)
    assert result.returncode == 1
    assert message in result.stderr.splitlines()[0]


def refusal(machine: Any, program: Path, **environment: str) -> str:
    result = machine.run(program, "nothing_but_init", **environment)
    assert result.returncode == 1
    line: str = result.stderr.splitlines()[0]
    return line


def test_a_file_that_is_not_this_machine_is_refused(h200: Any, compile_c: Callable[..., Path]) -> None:
    program = compile_c("execution")
    assert h200.run(program, "nothing_but_init").returncode == 0
    assert f"{h200.state}: is a machine h200:1, not t4:1" in refusal(h200, program, SIMGPU_MACHINE="t4")
    assert h200.state.stat().st_mode & 0o777 == 0o600


def test_a_file_of_something_else_is_refused_and_left_alone(
    h200: Any, compile_c: Callable[..., Path], tmp_path: Path
) -> None:
    program = compile_c("execution")
    text = tmp_path / "text"
    text.write_text("not a machine\n")
    assert "is not the state of a simulated machine" in refusal(h200, program, SIMGPU_STATE=str(text))
    assert text.read_text() == "not a machine\n"
    link = tmp_path / "link"
    link.symlink_to(text)
    assert f"SIMGPU_STATE: {link}: " in refusal(h200, program, SIMGPU_STATE=str(link))


def spoil_layout(state: Path) -> None:
    with state.open("r+b") as file:
        file.seek(8)
        file.write(b"\xff\xff\xff\x7f")


def test_what_another_version_left_is_made_anew(h200: Any, compile_c: Callable[..., Path]) -> None:
    program = compile_c("execution")
    h200.run(program, "nothing_but_init")
    spoil_layout(h200.state)
    for _ in range(2):
        result = h200.run(program, "the_primary_context_is_counted")
        assert (result.returncode, result.stderr) == (0, "")


def test_a_machine_that_programs_of_another_version_use_is_refused(
    h200: Any, compile_c: Callable[..., Path]
) -> None:
    user = subprocess.Popen(
        [compile_c("storm"), "everything"], env=h200.environment, stdout=subprocess.PIPE, text=True
    )
    h200.processes.append(user)
    assert user.stdout is not None
    assert user.stdout.readline() == "started\n"
    spoil_layout(h200.state)
    message = refusal(h200, compile_c("execution"))
    assert f"{h200.state}: is in use by programs of another version" in message


def test_processes_that_start_at_once_make_one_machine(h200: Any, compile_c: Callable[..., Path]) -> None:
    program = compile_c("execution")
    started = [
        subprocess.Popen([program, "nothing_but_init"], env=h200.environment, stderr=subprocess.PIPE)
        for _ in range(16)
    ]
    assert [process.wait(60) for process in started] == [0] * 16
    assert h200.state.stat().st_nlink == 1
