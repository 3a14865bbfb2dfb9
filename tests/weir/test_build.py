"""The build hook: what it says where it cannot compile."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import hatch_build


def build(**environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, hatch_build.__file__]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        ({"PATH": "/nonexistent"}, "weir: no C compiler: "),
        ({"PATH": os.environ["PATH"], "CC": "nosuchcc -m64"}, "weir: CC: nosuchcc: no such command"),
    ],
)
def test_without_a_compiler_it_says_so_in_one_line(environment: dict[str, str], said: str) -> None:
    result = build(**environment)
    assert result.returncode == 1
    assert result.stderr.startswith(said)
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        ({"CC": "nosuchcc"}, "weir: CC: nosuchcc: no such command"),
        ({"WEIR_TARGET": "riscv64"}, "weir: WEIR_TARGET: riscv64: no such machine; give x86_64 or aarch64"),
        ({"WEIR_TARGET": "aarch64", "CC": "cc"}, "weir: WEIR_TARGET: aarch64: only zig builds for it"),
    ],
)
def test_a_wheel_that_cannot_be_compiled_ends_with_one_line_and_no_traceback(
    tmp_path: Path, environment: dict[str, str], said: str
) -> None:
    result = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(tmp_path)],
        cwd=Path(hatch_build.__file__).parent,
        env={"PATH": os.environ["PATH"], **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 1
    assert said in result.stderr + result.stdout
    assert "Traceback" not in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_an_empty_cc_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", " ")
    assert Path(hatch_build.compiler()[0]).name in ("cc", "gcc", "clang")
