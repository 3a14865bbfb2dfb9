"""What is taken of vLLM's wheel, over a wheel made here."""

from __future__ import annotations

import zipfile
from pathlib import Path

from benchmarks import vllm_python


def test_only_python_and_metadata_of_the_wheel_are_taken_with_stand_ins_for_the_kernels(
    tmp_path: Path,
) -> None:
    wheel, target = tmp_path / "whole.whl", tmp_path / "vllm.zip"
    with zipfile.ZipFile(wheel, "x") as archive:
        for name in ("__init__.py", "v1/worker.py", "_C_stable_libtorch.abi3.so", "csrc/kernel.cuh"):
            archive.writestr(f"vllm/{name}", f"# {name}")
        archive.writestr("vllm-0.dist-info/METADATA", "Name: vllm")
        archive.writestr("vllm-0.dist-info/RECORD", "")
    vllm_python.python_of(wheel, target)
    with zipfile.ZipFile(target) as archive:
        assert {name: archive.read(name).decode() for name in archive.namelist()} == {
            "vllm/__init__.py": "# __init__.py",
            "vllm/v1/worker.py": "# v1/worker.py",
            "vllm-0.dist-info/METADATA": "Name: vllm",
            **vllm_python.KERNELS,
        }
