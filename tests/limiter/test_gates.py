"""Gates by themselves (limiter/src/gate.c): a held stream goes on when it is let go, and in any case soon."""

from __future__ import annotations

import pytest

from .conftest import Compile, Run


@pytest.mark.parametrize("way", ["let-go", "kept", "later", "two", "between", "refused"])
def test_each_gate_opens_at_its_moment_and_a_held_stream_when_it_is_let_go(
    compile_program: Compile, run: Run, way: str
) -> None:
    program = compile_program("gates", sources=["gate.c"])
    assert run(program, way).stdout == "right\n"
