"""Puts vLLM's Python files, and what they import, into a folder small enough to be taken to a card's machine.

vLLM's wheel has hundreds of MB of compiled kernels, and vllm_memory.py calls none of them: this keeps the
Python files alone, with tiny stand-ins for the kernels, so the row says `"compiled": false`. Beside
them go, at fixed versions, only the packages that vllm_memory.py makes vLLM import and that a machine with
PyTorch 2.11, transformers, aiohttp and their requirements lacks. It cannot serve a model.

    python benchmarks/vllm_python.py DIR        for Python 3.12 on x86-64; DIR must not be there yet
    PYTHONPATH=DIR:DIR/vllm.zip                 there
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

VLLM = "vllm==0.25.1"
BESIDE = (
    "annotated-types==0.8.0",
    "apache-tvm-ffi==0.1.15.post2",
    "cachetools==8.0.2",
    "cbor2==6.3.0",
    "httpx2==2.16.2",
    "llguidance==1.9.1",
    "msgspec==0.23.0",
    "openai==3.60.0",
    "openai-harmony==0.0.8",
    "pybase64==1.5.1",
    "pydantic==2.14.4",
    "pydantic-core==2.50.5",
    "pyzmq==27.3.0",
    "sniffio==1.3.1",
    "typing-extensions==4.16.0",
    "typing-inspection==0.4.5",
    "xgrammar==0.2.9",
)
ASKED = """import torch
for name in ("scaled_mm_supports_fp8", "scaled_mm_supports_block_fp8", "group_gemm_supported"):
    setattr(torch.ops._C, "cutlass_" + name, lambda capability: False)
"""
KERNELS = {  # imported, never called, except for what vLLM asks of them at once
    "vllm/_C_stable_libtorch.py": ASKED,
    "vllm/vllm_flash_attn/_vllm_fa2_C.py": "",
}
PLATFORM = ("--python-version=3.12", "--implementation=cp", "--only-binary=:all:", "--no-deps")
SYSTEMS = [f"--platform=manylinux{tag}_x86_64" for tag in ("_2_34", "_2_31", "_2_28", "2014")]


def pip(*arguments: str) -> None:
    """pip for the card's machine, whatever this one is. Raises CalledProcessError."""
    command = [sys.executable, "-m", "pip", arguments[0], "-q", *PLATFORM, *SYSTEMS, *arguments[1:]]
    subprocess.run(command, check=True)


def python_of(wheel: Path, target: Path) -> None:
    """A zip of the Python files and metadata of vLLM's wheel, and stand-ins for its kernels."""
    with zipfile.ZipFile(wheel) as whole, zipfile.ZipFile(target, "x", zipfile.ZIP_DEFLATED) as part:
        for name in whole.namelist():
            if name.endswith((".py", ".dist-info/METADATA")):
                part.writestr(name, whole.read(name))
        for name, text in KERNELS.items():
            part.writestr(name, text)


def main() -> None:
    """Download, unpack, and say how large it is."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("directory", type=Path, metavar="DIR", help="made here")
    directory: Path = parser.parse_args().directory
    directory.mkdir(parents=True)
    pip("install", "--no-compile", "--target", str(directory), *BESIDE)
    with tempfile.TemporaryDirectory() as wheels:
        pip("download", "--dest", wheels, VLLM)
        python_of(next(Path(wheels).glob("vllm-*.whl")), directory / "vllm.zip")
    size = sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())
    print(f"{directory}: {size / 2**20:.0f} MiB")


if __name__ == "__main__":
    main()
