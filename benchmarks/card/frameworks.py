"""Part `frameworks`: unchanged frameworks in a slice, each as it starts, fills its memory, is refused and
goes on.

PyTorch with its caching and its expandable-segments allocator, with cuBLAS's workspace and without, and
NCCL's start-up on one card, in a slice of 3000 MiB; vLLM's memory profiling at 0.9 in one of 8 GiB, since the
part that vLLM leaves alone must hold the CUDA context, and at 0.8 in 3000 MiB. A framework that is not
importable here is left out.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from benchmarks.card.bench import Bench, LoadError
from benchmarks.card.journal import Record
from benchmarks.card.program import weir

HERE = Path(__file__).resolve().parents[1]
LASTING = 60.0
IMPORTING = 150.0  # seconds: vLLM's worker imports most of vLLM, on a cold disk
EXPANDABLE = {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}

NCCL = """
import json, torch, torch.distributed as group
group.init_process_group("nccl", init_method="tcp://127.0.0.1:29511", rank=0, world_size=1)
ones = torch.ones(1 << 20, device="cuda")
group.all_reduce(ones)
torch.cuda.synchronize()
print(json.dumps({"sum_is_right": ones.sum().item() == 1 << 20}))
group.destroy_process_group()
"""
CUPY = """
import json, cupy
free, total = cupy.cuda.runtime.memGetInfo()
held, refused = [], False
try:
    while len(held) < 1000:
        held.append(cupy.zeros(64 << 20, dtype=cupy.uint8))
except cupy.cuda.memory.OutOfMemoryError:
    refused = True
print(json.dumps({"total": total, "first": {"allocated": len(held) << 26, "refused": refused}}))
"""
JAX = """
import json, jax, jax.numpy as jnp
x = jnp.ones((1024, 1024))
right = float((x @ x).sum()) == 1024.0 ** 3
held, refused = [], False
try:
    while len(held) < 1000:
        held.append(jnp.zeros(64 << 20, dtype=jnp.uint8).block_until_ready())
except Exception as error:
    refused = "RESOURCE_EXHAUSTED" in str(error)
first = {"allocated": len(held) << 26, "refused": refused}
print(json.dumps({"product_is_right": right, "first": first}))
"""


@dataclass(frozen=True)
class Case:
    """A program: the module it needs, what its interpreter is given, and the slices it runs in."""

    module: str
    arguments: tuple[str, ...]
    more: Mapping[str, str] = field(default_factory=dict)
    slices: tuple[str, ...] = ("3000MiB",)
    lasting: float = LASTING

    @property
    def command(self) -> list[str]:
        """With the interpreter that runs this."""
        return [sys.executable, *self.arguments]


MEMORY_PROGRAM = str(HERE / "torch_memory.py")
VLLM_PROGRAM = str(HERE / "vllm_memory.py")
TWO_SLICES = ("3000MiB", "1GiB")
CASES: dict[str, Case] = {
    "PyTorch": Case("torch", (MEMORY_PROGRAM,), slices=TWO_SLICES),
    "PyTorch, cuBLAS first": Case("torch", (MEMORY_PROGRAM, "--product-first"), slices=TWO_SLICES),
    "PyTorch, expandable segments": Case("torch", (MEMORY_PROGRAM,), EXPANDABLE, TWO_SLICES),
    "NCCL in PyTorch": Case("torch", ("-c", NCCL)),
    "CuPy": Case("cupy", ("-c", CUPY)),
    "JAX": Case("jax", ("-c", JAX), {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}),
    "vLLM's memory profiling": Case("vllm", (VLLM_PROGRAM,), slices=("8GiB",), lasting=IMPORTING),
    "vLLM's memory profiling at 0.8": Case("vllm", (VLLM_PROGRAM, "--utilization", "0.8"), lasting=IMPORTING),
}


def one_row(bench: Bench, case: Case, memory: str) -> Record:
    """Run one program in a slice; its last line, or its last words where it failed."""
    whole = [weir(), "run", *bench.options(), "--memory", memory, "--", *case.command]
    done = subprocess.run(
        whole,
        env={**os.environ, **case.more},
        capture_output=True,
        text=True,
        timeout=case.lasting,
        check=False,
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode or not lines:
        words = done.stderr.strip().splitlines()
        raise LoadError(f"ended with {done.returncode}: {words[-1] if words else 'no word'}")
    return {"memory": memory, "saw": json.loads(lines[-1])}


def run(bench: Bench) -> None:
    """Every framework that is here, in each of its slices."""
    for name, case in CASES.items():
        if importlib.util.find_spec(case.module) is None:
            continue
        for memory in case.slices:
            bench.row("frameworks", f"{name}/{memory}", partial(one_row, bench, case, memory), case.lasting)
