"""Builds the limiter and the simulated GPU with sanitizers and runs the limiter's tests on them.

One round with AddressSanitizer and UndefinedBehaviorSanitizer, one with ThreadSanitizer. The tests' own
programs are compiled with the same sanitizer (tests/limiter/variant.py), so its runtime comes first in each
process, and what it reports ends the program with an error that a test sees. What runs at the first lookup of
a process is left as it is: a sanitizer looks its own functions up while it sets itself up, and is not ready.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import hatch_build
from tests.limiter import variant

ROOT = hatch_build.ROOT
EARLY = ("interpose.c", "linker.c", "symbols.c")  # they run before a sanitizer is ready
# These are about the linker, and sanitizers have their own ways with it.
IGNORED = ("interposition", "lookups")
# A program cannot have two sanitizers; and one's own threads and handlers are what the other test looks for.
NOT_HERE = {
    "address,undefined": "not no_data_race",
    "thread": "not nothing_of_the_process and not no_data_race",
}


def run(command: list[str]) -> None:
    if result := subprocess.run(command, cwd=ROOT, check=False).returncode:
        sys.exit(f"sanitize: {shlex.join(command)}: {result}")


def build(artifact: hatch_build.Artifact, sanitizer: str) -> None:
    """The artifact under build/, instrumented."""
    if artifact.generator:
        hatch_build.generate(artifact.generator, hatch_build.compiler())
    output = variant.directory(sanitizer) / Path(artifact.output).name
    output.parent.mkdir(parents=True, exist_ok=True)
    flags = [*hatch_build.COMMON, "-O1", *hatch_build.include_flags(), *artifact.flags]
    flags = [flag for flag in flags if flag != "-Wl,-z,defs"]  # the runtime comes with the program
    headers = max(path.stat().st_mtime for path in hatch_build.expand(artifact.depends))
    objects = []
    for source in hatch_build.expand(artifact.sources):
        instrumented = [] if source.name in EARLY else variant.flags(sanitizer)
        made = output.with_name(f"{output.name}.{source.parent.name}.{source.name}.o")
        objects.append(str(made))
        if not made.exists() or made.stat().st_mtime < max(source.stat().st_mtime, headers):
            run([*hatch_build.compiler(), *flags, *instrumented, "-c", "-o", str(made), str(source)])
    link = [*hatch_build.compiler(), *flags, *variant.flags(sanitizer), "-o", str(output), *objects]
    run([*link, *artifact.libraries])


def main() -> int:
    failed = 0
    for sanitizer in sys.argv[1:] or variant.SANITIZERS:
        for artifact in hatch_build.ARTIFACTS:
            if artifact.output.endswith((".so", ".so.1")):
                build(artifact, sanitizer)
        command = [sys.executable, "-m", "pytest", "-q", "--timeout", "600", "-k", NOT_HERE[sanitizer]]
        command += [f"--ignore=tests/limiter/test_{name}.py" for name in IGNORED]
        command.append("tests/limiter")
        environment = {**os.environ, variant.SETTING: sanitizer}
        failed |= subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode
    return failed


if __name__ == "__main__":
    sys.exit(main())
