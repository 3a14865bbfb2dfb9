"""Which build the tests of the limiter run: the working tree's, or (make sanitize) one with a sanitizer.

With a sanitizer the limiter, the simulated driver and the tests' own programs are instrumented alike, and its
runtime is preloaded before everything else. It ends a program with an error at its first finding.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import hatch_build
from simgpu.machines import LIBRARIES

SETTING = "WEIR_TEST_SANITIZER"
SANITIZERS = ("address,undefined", "thread")
SANITIZER = os.environ.get(SETTING, "")
OPTIONS = {
    "ASAN_OPTIONS": "detect_leaks=0:abort_on_error=1:handle_sigbus=0",
    "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1",
    "TSAN_OPTIONS": "halt_on_error=1:die_after_fork=0:handle_sigbus=0"
    ":report_signal_unsafe=0:report_thread_leaks=0",  # a test's handler jumps; a fork leaves its threads
}


def directory(sanitizer: str) -> Path:
    """Where the instrumented build is."""
    return hatch_build.ROOT / "build/sanitize" / sanitizer.replace(",", "-")


def flags(sanitizer: str) -> list[str]:
    """What the compiler needs to instrument; nothing without a sanitizer."""
    return [f"-fsanitize={sanitizer}", "-fno-omit-frame-pointer"] if sanitizer else []


def _runtime() -> str:
    """The sanitizer's own library."""
    name = "libtsan.so" if SANITIZER == "thread" else "libasan.so"
    command = [*hatch_build.compiler(), f"-print-file-name={name}"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


LIBRARY = directory(SANITIZER) / "libweir.so" if SANITIZER else hatch_build.ROOT / "limiter/libweir.so"
DRIVERS = directory(SANITIZER) if SANITIZER else LIBRARIES
FIRST = [_runtime()] if SANITIZER else []
ENVIRONMENT = {**OPTIONS, "LD_PRELOAD": FIRST[0]} if SANITIZER else {}


def preload(library: Path) -> str:
    """LD_PRELOAD for a program under this build of the limiter."""
    return ":".join([*FIRST, str(library)])
