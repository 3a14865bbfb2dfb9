"""Part `frameworks`: unchanged frameworks in a slice, each as it starts, fills its memory, is refused and
goes on.

PyTorch with its caching and its expandable-segments allocator, with cuBLAS's workspace and without, and
NCCL's start-up on one card, in a slice of 3000 MiB. A framework that is not importable here is left out.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from benchmarks.card.bench import Bench, LoadError
from benchmarks.card.journal import Record
from benchmarks.card.program import weir

HERE = Path(__file__).resolve().parents[1]
MEMORY = "3000MiB"
LASTING = 60.0
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


def python(module: str, *arguments: str) -> tuple[str, list[str]]:
    """The module that is needed, and the command."""
    return module, [sys.executable, *arguments]


MEMORY_PROGRAM = str(HERE / "torch_memory.py")
CASES: dict[str, tuple[tuple[str, list[str]], Mapping[str, str]]] = {
    "PyTorch": (python("torch", MEMORY_PROGRAM), {}),
    "PyTorch, cuBLAS first": (python("torch", MEMORY_PROGRAM, "--product-first"), {}),
    "PyTorch, expandable segments": (python("torch", MEMORY_PROGRAM), EXPANDABLE),
    "NCCL in PyTorch": (python("torch", "-c", NCCL), {}),
    "CuPy": (python("cupy", "-c", CUPY), {}),
    "JAX": (python("jax", "-c", JAX), {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}),
}


def one_row(bench: Bench, command: list[str], more: Mapping[str, str], memory: str) -> Record:
    """Run one program in a slice; its last line, or its last words where it failed."""
    whole = [weir(), "run", *bench.options(), "--memory", memory, "--", *command]
    done = subprocess.run(
        whole, env={**os.environ, **more}, capture_output=True, text=True, timeout=LASTING, check=False
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode or not lines:
        words = done.stderr.strip().splitlines()
        raise LoadError(f"ended with {done.returncode}: {words[-1] if words else 'no word'}")
    return {"memory": memory, "saw": json.loads(lines[-1])}


def run(bench: Bench) -> None:
    """Every framework that is here; PyTorch in a slice of 1 GiB too."""
    for name, ((module, command), more) in CASES.items():
        if importlib.util.find_spec(module) is None:
            continue
        for memory in (MEMORY, "1GiB") if command[1] == MEMORY_PROGRAM else (MEMORY,):
            measure = partial(one_row, bench, command, more, memory)
            bench.row("frameworks", f"{name}/{memory}", measure, LASTING)
