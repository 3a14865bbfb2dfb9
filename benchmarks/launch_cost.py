"""What the limiter adds to a kernel launch, in nanoseconds, over a driver that does nothing.

Compiles `native/null_driver.c` as libcuda.so.1 and `native/launch_cost.c` as the program, and runs it bare
and under the limiter: without a core limit, and with one that does not bind. The quickest of many rounds
counts, so a busy machine disturbs little; the bare run's time is taken off. Prints JSON; ends with 1 when a
goal is missed.

    python benchmarks/launch_cost.py [--rounds 50] [--functions 1]
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import hatch_build
from benchmarks.arguments import Parser, whole
from limiter.layout import FULL_CORES
from limiter.pages import ControlDevice, ControlPage
from limiter.writer import create_control, create_stats

ROOT = Path(__file__).resolve().parents[1]
NATIVE = ROOT / "benchmarks/native"
LIBRARY = ROOT / "limiter/libweir.so"
UUID = b"\x11" * 16  # as the null driver gives it
MEMORY = 1 << 42
HALF_AN_HOUR_NS = 1_800 * 10**9
KERNEL_NS = "5"  # kernels that take less than a launch, so that a limit has nothing to hold back
GOALS_NS = {"no core limit": 30.0, "a limit that does not bind": 60.0}


def compile_into(directory: Path) -> Path:
    """The null driver as libcuda.so.1 and the program, whose path is returned."""
    base = [*hatch_build.compiler(), *hatch_build.COMMON, f"-I{ROOT / 'limiter/src'}"]
    base += [f"-isystem{path}" for path in hatch_build.include_directories()]
    sources = [str(NATIVE / "null_driver.c"), str(NATIVE / "null_defaults.c")]
    driver = [*base, *hatch_build.LIBRARY, "-Wl,-soname,libcuda.so.1", "-o", str(directory / "libcuda.so.1")]
    subprocess.run([*driver, *sources], check=True)
    program = directory / "launch_cost"
    subprocess.run([*base, "-o", str(program), str(NATIVE / "launch_cost.c"), "-ldl"], check=True)
    return program


def make_slice(directory: Path, core_limit: int) -> Path:
    """A slice directory with one card and this core limit, a memory limit far off, and a fresh page."""
    (directory / "rw").mkdir(parents=True)
    device = ControlDevice(
        uuid=UUID,
        memory_limit=MEMORY,
        core_limit=core_limit,
        card_total=MEMORY,
        card_room=MEMORY,
        card_deadline=time.monotonic_ns() + HALF_AN_HOUR_NS,
    )
    control = ControlPage(generation=1, devices=(device,))
    create_control(directory / "control", control)
    create_stats(directory / "rw/stats", 1, 1)
    return directory


def cost(program: Path, arguments: list[str], slice_directory: Path | None) -> float:
    """Nanoseconds for each launch; under the limiter where a slice is given."""
    environment = {**os.environ, "LD_LIBRARY_PATH": str(program.parent), "NULL_KERNEL_NS": KERNEL_NS}
    if slice_directory:
        environment |= {"LD_PRELOAD": str(LIBRARY), "WEIR_SLICE_DIR": str(slice_directory)}
    result = subprocess.run(
        [str(program), *arguments], env=environment, check=True, capture_output=True, text=True
    )
    return float(result.stdout)


def main() -> int:
    parser = Parser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=whole(1, 1_000_000), default=50)
    parser.add_argument(
        "--functions", type=whole(1, 10_000), default=1, help="different kernels, launched in turn (1)"
    )
    options = parser.parse_args()
    arguments = [str(options.rounds), "100000", str(options.functions)]
    with tempfile.TemporaryDirectory() as temporary:
        directory = Path(temporary)
        program = compile_into(directory)
        bare = cost(program, arguments, None)
        limits = {"no core limit": FULL_CORES, "a limit that does not bind": 9900}
        added = {
            name: round(cost(program, arguments, make_slice(directory / str(limit), limit)) - bare, 1)
            for name, limit in limits.items()
        }
    print(json.dumps({"bare_ns": bare, "added_ns": added, "goal_ns": GOALS_NS}, indent=2))
    return int(any(added[name] > goal for name, goal in GOALS_NS.items()))


if __name__ == "__main__":
    sys.exit(main())
