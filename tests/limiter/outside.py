"""What NVML says of the first card, asked by a program that is in no slice."""

from __future__ import annotations

import subprocess

from simgpu.machines import LIBRARIES

from .conftest import Machine

NVML = (f"-L{LIBRARIES}", "-l:libnvidia-ml.so.1")


class Watch:
    """Looks at the card as fast as it can from now on."""

    def __init__(self, machine: Machine) -> None:
        self._process = subprocess.Popen(
            [machine.compile_program("nvml_watch", flags=NVML)],
            env=machine.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout
        self.start = int(self._process.stdout.readline())  # bytes in use

    def end(self) -> tuple[int, int]:
        """How often it looked, and the most bytes that were in use beyond the start."""
        output, _ = self._process.communicate("", timeout=30)
        assert self._process.returncode == 0
        looks, most = map(int, output.split())
        return looks, most


def in_use(machine: Machine) -> int:
    """Bytes in use now."""
    watch = Watch(machine)
    watch.end()
    return watch.start
