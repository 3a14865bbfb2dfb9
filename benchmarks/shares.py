"""The share of GPU time that slices get on the simulated H200, told by witnesses outside the limiter.

Runs the load generator under the limiter: alone at several limits, then as a pair in time slots, kernels of
1 ms and a full queue. What was given is told by the load (kernel time it completed) and by the simulated NVML
(utilisation of the process, sampled each second after its lag). The limiter's own count stands beside them.
Prints a line for each run as it ends, then JSON; ends with 1 where the load's figure is off by more than
--tolerance points. A busy machine can cost a point: run it alone.

    python benchmarks/shares.py [--seconds 20] [--kernel-us 1000] [--frame-ms 50] [--tolerance 2]
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.arguments import LONGEST, Parser, number
from limiter.layout import DEADLINE_REACH
from limiter.pages import ControlDevice, ControlPage, read_stats, uuid_bytes
from limiter.writer import create_control, create_stats
from simgpu.load import program
from weir.nvml import DriverNvml
from weir.simulation import open_nvml

LIBRARY = Path(__file__).resolve().parents[1] / "limiter/libweir.so"
ALONE = (10, 30, 50, 70, 90)
PAIR = (60, 30)
NVML_LAG_S = 2.0  # utilisation is over a second late


@dataclass(frozen=True)
class Result:
    """One slice of one run, in percent of the card's time."""

    run: str
    asked: float
    load: float
    nvml: float
    limiter: float


@dataclass(frozen=True)
class Bench:
    """Where slices are made, the card, and how the load is run."""

    root: Path
    nvml: DriverNvml
    uuid: str
    seconds: float
    kernel_us: float

    def control(self, percent: float, offset: int = 0, length: int = 0, frame: int = 0) -> ControlDevice:
        """The limits of a slice of `percent`, in a slot if there is a frame (all in nanoseconds)."""
        return ControlDevice(
            uuid=uuid_bytes(self.uuid),
            core_limit=round(percent * 100),
            slot_deadline=time.monotonic_ns() + DEADLINE_REACH if frame else 0,
            slot_frame=frame,
            slot_offset=offset,
            slot_length=length,
        )

    def run(self, name: str, asked: tuple[float, ...], controls: list[ControlDevice]) -> list[Result]:
        """Runs one load in each slice, all at once."""
        directories = [self._slice(f"{name}-{index}", control) for index, control in enumerate(controls)]
        loads = [self._start(directory) for directory in directories]
        seen = self._watch([load.pid for load in loads])
        reports = [json.loads(load.communicate()[0].splitlines()[-1]) for load in loads]
        results = [
            Result(
                run=name,
                asked=share,
                load=100 * report["kernel_seconds"] / report["t"],
                nvml=100 * seen[load.pid],
                limiter=100 * read_stats(directory / "rw/stats").devices[0].gpu_time / (report["t"] * 1e9),
            )
            for share, load, report, directory in zip(asked, loads, reports, directories, strict=True)
        ]
        for one in results:
            print(
                f"{one.run:12} asked {one.asked:5.1f}  load {one.load:6.2f}  NVML {one.nvml:6.2f}"
                f"  limiter {one.limiter:6.2f}",
                flush=True,
            )
        return results

    def _slice(self, name: str, control: ControlDevice) -> Path:
        directory = self.root / name
        (directory / "rw").mkdir(parents=True)
        create_control(directory / "control", ControlPage(generation=1, devices=(control,)))
        create_stats(directory / "rw/stats", 1, 1)
        return directory

    def _start(self, directory: Path) -> subprocess.Popen[str]:
        shape = ["--kernel-us", str(self.kernel_us), "--queue", "64", "--no-calibrate"]
        return subprocess.Popen(
            [str(program()), *shape, "--seconds", str(self.seconds)],
            env={**os.environ, "LD_PRELOAD": str(LIBRARY), "WEIR_SLICE_DIR": str(directory)},
            stdout=subprocess.PIPE,
            text=True,
        )

    def _watch(self, pids: list[int]) -> dict[int, float]:
        """Mean utilisation of each process while all of them run."""
        end = time.monotonic() + self.seconds - 0.5
        samples: dict[int, list[float]] = {pid: [] for pid in pids}
        time.sleep(min(NVML_LAG_S, self.seconds / 2))
        while time.monotonic() < end:
            now = self.nvml.utilization_by_process(self.uuid)
            for pid in pids:
                samples[pid].append(now.get(pid, 0.0))
            time.sleep(1)
        return {pid: sum(seen) / max(len(seen), 1) for pid, seen in samples.items()}


def measure(bench: Bench, frame: int) -> list[Result]:
    """Every run of this benchmark, one after another."""
    results = []
    for percent in ALONE:
        results += bench.run(f"alone {percent}", (percent,), [bench.control(percent)])
    first = frame * PAIR[0] // sum(PAIR)  # the frame is cut in proportion to the shares
    slots = [bench.control(PAIR[0], 0, first, frame), bench.control(PAIR[1], first, frame - first, frame)]
    return results + bench.run(f"pair {PAIR[0]}+{PAIR[1]}", PAIR, slots)


def main() -> int:
    parser = Parser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=number(1, LONGEST), default=20.0, help="of each run (20)")
    parser.add_argument(
        "--kernel-us", type=number(1, 1e6), default=1000.0, help="duration of a kernel (1000)"
    )
    parser.add_argument("--frame-ms", type=number(1, 200), default=50.0, help="the pair's frame (50)")
    parser.add_argument(
        "--tolerance", type=number(0, 100), default=2.0, help="points that a share may be off (2)"
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir="/dev/shm") as temporary:
        os.environ["SIMGPU_STATE"] = f"{temporary}/machine"
        nvml = open_nvml("h200")
        bench = Bench(Path(temporary), nvml, nvml.gpus()[0].uuid, options.seconds, options.kernel_us)
        results = measure(bench, round(options.frame_ms * 1e6))
    print(json.dumps([asdict(one) for one in results], indent=2))
    return int(any(abs(one.load - one.asked) > options.tolerance for one in results))


if __name__ == "__main__":
    sys.exit(main())
