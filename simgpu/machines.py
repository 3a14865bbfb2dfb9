"""What a program needs in its environment to run on a simulated machine.

A machine is written `MODEL[:COUNT][,mig=PROFILE*N]`: `h200`, `a100-40g:2`, `h200:1,mig=1g.18gb*7`. The models
and their numbers are the engine's (simgpu/src/engine); this module only checks the spelling, so that a typing
error is told before any program starts. It starts nothing and writes nothing: the first program that asks the
simulated driver for something makes the machine.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from weir.errors import HostError, UsageError
from weir.simulation import SimulatedMachine

MODELS = ("h200", "a100-40g", "t4")
MAX_CARDS = 16
LIBRARIES = Path(__file__).parent / "lib"

_SPEC = re.compile(r"(?P<model>[a-z0-9-]+)(?::(?P<count>[0-9]+))?(?:,mig=(?P<mig>[0-9a-z.+*]+))?")


def check(spec: str) -> str:
    """`spec` unchanged, if it names a machine. Raises UsageError."""
    match = _SPEC.fullmatch(spec)
    allowed = f"one of {', '.join(MODELS)}, with :N for up to {MAX_CARDS} cards"
    if not match or match["model"] not in MODELS:
        raise UsageError("--simulate", spec, allowed)
    if match["count"] and not 1 <= int(match["count"]) <= MAX_CARDS:
        raise UsageError("--simulate", spec, allowed)
    return spec


def simulate(
    spec: str, environment: Mapping[str, str] | None = None, libraries: Path = LIBRARIES
) -> SimulatedMachine:
    """The machine called `spec`. `environment` is what programs have already (default: this process's).

    Raises UsageError for a machine nobody knows, HostError where the simulated driver was not compiled.
    """
    has = os.environ if environment is None else environment
    check(spec)
    for name in ("libcuda.so.1", "libnvidia-ml.so.1"):
        if not (libraries / name).exists():
            raise HostError(f"{libraries / name}: not there; `make native` compiles the simulated driver")
    search = [str(libraries), *(part for part in has.get("LD_LIBRARY_PATH", "").split(":") if part)]
    return SimulatedMachine(
        name=spec,
        environment={"SIMGPU_MACHINE": spec, "LD_LIBRARY_PATH": ":".join(dict.fromkeys(search))},
        nvml_library=libraries / "libnvidia-ml.so.1",
    )
