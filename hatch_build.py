"""Compiles the C parts of Weir: with the system's C compiler for a working tree, with zig's for a wheel.

hatchling calls `NativeBuildHook` while it builds a wheel or an editable install; `make native` runs this
file by itself. A wheel's parts go into other people's containers, so they are linked against the oldest
glibc that those may have, for this machine's processor or the one that WEIR_TARGET names. Each artifact is
rebuilt only when a source is newer than it. What it does not do: find or install a compiler, or link
anything but libc into what is loaded into other people's programs.
"""

import importlib.util
import os
import platform
import shlex
import shutil
import subprocess
import sys
import sysconfig
import time
import tomllib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

ROOT = Path(__file__).resolve().parent
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
WARNINGS = [
    "-Wall",
    "-Wextra",
    "-Wshadow",
    "-Wstrict-prototypes",
    "-Wmissing-prototypes",
    "-Wold-style-definition",
    "-Wpointer-arith",
    "-Wvla",
    "-Wformat=2",
    "-Wundef",
]
COMMON = ["-std=gnu17", "-O2", "-g", "-fno-strict-aliasing", *WARNINGS]
LIBRARY = ["-fPIC", "-shared", "-fvisibility=hidden", "-Wl,-z,now", "-Wl,-z,relro"]
GLIBC = "2.17"  # of CentOS 7: what manylinux2014 stands for, and the first with aarch64
MACHINES = ("x86_64", "aarch64")
# A driver answers with its own functions and calls its own, whatever an interposer preloads.
DRIVER = ["-Wl,-Bsymbolic"]


@dataclass(frozen=True)
class Artifact:
    """One file the compiler makes: its path, its sources (globs), and the flags that are its own.

    `generator` is a module of this tree that writes some of the sources first: `python -m MODULE CC FLAG…`.
    """

    output: str
    sources: tuple[str, ...]
    flags: tuple[str, ...] = ()
    libraries: tuple[str, ...] = ()
    depends: tuple[str, ...] = field(default=())
    generator: str = ""


ARTIFACTS = (
    Artifact(
        "limiter/libweir.so",
        ("limiter/src/*.c",),
        (
            *LIBRARY,
            "-ftls-model=initial-exec",  # it is always loaded at the start
            "-Wl,-z,defs",  # and needs nothing but libc
            "-Wl,-Bsymbolic",  # a hook is this library's, even where another tool's comes first
            "-Wl,--version-script=limiter/src/exports.map",
            "-Wl,-soname,libweir.so",
            f'-DWEIR_VERSION="{VERSION}"',
        ),
        depends=("limiter/src/*.h", "limiter/src/exports.map"),
    ),
    Artifact(
        "simgpu/lib/libcuda.so.1",
        ("simgpu/src/engine/*.c", "simgpu/src/cuda/*.c"),
        (*LIBRARY, *DRIVER, "-Wl,-soname,libcuda.so.1"),
        ("-lpthread",),
        depends=("simgpu/src/**/*.h",),
        generator="simgpu.generate",
    ),
    Artifact(
        "simgpu/lib/libnvidia-ml.so.1",
        ("simgpu/src/engine/*.c", "simgpu/src/nvml/*.c"),
        (*LIBRARY, *DRIVER, "-Wl,-soname,libnvidia-ml.so.1"),
        ("-lpthread",),
        depends=("simgpu/src/**/*.h",),
        generator="simgpu.generate",
    ),
    Artifact(
        "simgpu/bin/weir-load",
        ("simgpu/src/load/*.c",),
        libraries=("-ldl", "-lpthread", "-lm"),
        depends=("simgpu/src/load/*.h",),
    ),
)


class NativeBuildError(Exception):
    """There is no C compiler, no CUDA header, or the compiler refused a source."""


@dataclass(frozen=True)
class Toolchain:
    """A compiler's command, the folder under which it puts artifacts, and the platform of a wheel of them."""

    compiler: tuple[str, ...]
    directory: Path
    platform: str


def include_directories() -> list[Path]:
    """Where cuda.h and nvml.h are: beside this interpreter's packages, or in $CUDA_HOME/include."""
    candidates = [
        Path(path) / "nvidia/cu13/include" for path in {*sys.path, sysconfig.get_path("purelib")} if path
    ]
    candidates.append(Path(os.environ.get("CUDA_HOME", "/usr/local/cuda")) / "include")
    found = [path for path in candidates if (path / "cuda.h").exists() or (path / "nvml.h").exists()]
    for header in ("cuda.h", "nvml.h"):
        if not any((path / header).exists() for path in found):
            raise NativeBuildError(
                f"{header} not found: install nvidia-cuda-runtime and nvidia-nvml-dev, or set CUDA_HOME"
            )
    return found


def include_flags() -> list[str]:
    """What tells the compiler where they are."""
    return [f"-isystem{path}" for path in include_directories()]


def compiler() -> list[str]:
    """The C compiler's command: $CC, else cc, gcc or clang."""
    if chosen := shlex.split(os.environ.get("CC", "")):
        if not shutil.which(chosen[0]):
            raise NativeBuildError(f"CC: {chosen[0]}: no such command; name a C compiler, or leave CC unset")
        return chosen
    for name in ("cc", "gcc", "clang"):
        if path := shutil.which(name):
            return [path]
    raise NativeBuildError(
        "no C compiler: Weir compiles its limiter here; install gcc (or set CC) and try again"
    )


def native() -> Toolchain:
    """Builds for this machine, into the working tree."""
    return Toolchain(tuple(compiler()), ROOT, sysconfig.get_platform().replace("-", "_").replace(".", "_"))


def portable(machine: str) -> Toolchain:
    """Builds for every Linux of that processor whose glibc is GLIBC or newer, into build/."""
    command = (sys.executable, "-m", "ziglang", "cc", "-target", f"{machine}-linux-gnu.{GLIBC}")
    tag = f"manylinux_{GLIBC.replace('.', '_')}_{machine}.manylinux2014_{machine}"
    return Toolchain(command, ROOT / "build/portable" / machine, tag)


def wheel_toolchain() -> Toolchain:
    """zig's; where that is not installed (no build isolation), or CC is set, this machine's."""
    named = os.environ.get("WEIR_TARGET")
    machine = named or platform.machine()
    if machine not in MACHINES:
        raise NativeBuildError(f"WEIR_TARGET: {machine}: no such machine; give {' or '.join(MACHINES)}")
    if importlib.util.find_spec("ziglang") and not os.environ.get("CC"):
        return portable(machine)
    if named:
        raise NativeBuildError(f"WEIR_TARGET: {named}: only zig builds for it; install ziglang, unset CC")
    return native()


def expand(patterns: tuple[str, ...]) -> list[Path]:
    """The files of some globs, in a stable order."""
    return sorted(path for pattern in patterns for path in ROOT.glob(pattern))


def generate(module: str, command: Sequence[str]) -> None:
    """Let a module of this tree write its sources; it leaves those alone that are up to date."""
    command = [sys.executable, "-m", module, *command, *include_flags()]
    if subprocess.run(command, cwd=ROOT, check=False).returncode:
        raise NativeBuildError(f"{module}: could not write its sources: {shlex.join(command)}")


def build(artifact: Artifact, toolchain: Toolchain) -> None:
    """Compile one artifact unless it is newer than everything it is made from."""
    output = toolchain.directory / artifact.output
    sources = expand(artifact.sources)
    inputs = [*sources, *expand(artifact.depends), Path(__file__)]
    if output.exists() and output.stat().st_mtime > max(path.stat().st_mtime for path in inputs):
        return
    began = time.time()
    output.parent.mkdir(parents=True, exist_ok=True)
    strict = ["-Werror"] if os.environ.get("WEIR_STRICT") else []
    partial = output.with_name(f"{output.name}.{os.getpid()}.partial")  # of this build: two may run at once
    command = [*toolchain.compiler, *COMMON, *strict, *include_flags(), *artifact.flags, "-o", str(partial)]
    command += [str(path.relative_to(ROOT)) for path in sources] + list(artifact.libraries)
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    sys.stderr.write(result.stderr)
    if result.returncode:
        raise NativeBuildError(f"{artifact.output}: the compiler failed: {shlex.join(command)}")
    os.utime(partial, (began, began))  # a source saved while the compiler ran is newer than this
    partial.rename(output)  # never in place: a running program may have the old one mapped


def build_all(toolchain: Toolchain) -> list[Artifact]:
    """Compile every artifact whose sources are here."""
    present = [artifact for artifact in ARTIFACTS if expand(artifact.sources)]
    for module in dict.fromkeys(artifact.generator for artifact in present if artifact.generator):
        generate(module, toolchain.compiler)
    with ThreadPoolExecutor() as pool:
        list(pool.map(lambda artifact: build(artifact, toolchain), present))
    return present


class NativeBuildHook(BuildHookInterface[Any]):
    """Builds the artifacts and puts them into the wheel."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Called by hatchling before it collects files."""
        if self.target_name != "wheel":
            return
        try:
            toolchain = native() if version == "editable" else wheel_toolchain()
            artifacts = build_all(toolchain)
        except NativeBuildError as error:
            self.app.abort(f"weir: {error}")
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{toolchain.platform}"
        if version != "editable":
            made = {str(toolchain.directory / one.output): one.output for one in artifacts}
            build_data["force_include"].update(made)


if __name__ == "__main__":
    try:
        build_all(native())
    except NativeBuildError as error:
        sys.exit(f"weir: {error}")
