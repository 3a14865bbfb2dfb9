"""Execution as programs see it: C clients (programs/*.c), cuda-bindings, several processes on a card."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

PROGRAMS = Path(__file__).parent / "programs"


def cases(name: str) -> list[str]:
    """The cases that a program lists at its end."""
    return re.findall(r"CASE\((\w+)\)", (PROGRAMS / f"{name}.c").read_text())


@pytest.mark.parametrize("case", cases("execution"))
def test_execution(h200: Any, compile_c: Callable[..., Path], case: str) -> None:
    result = h200.run(compile_c("execution"), case)
    assert (result.returncode, result.stderr) == (0, "")
