"""How vLLM, unchanged, sizes its KV cache in a slice, and how it is refused when there is too little.

Prints one JSON line: total and free memory in vLLM's own snapshot; vLLM's own error when a neighbour in the
slice holds memory that it asks for; then, with the neighbour gone, what it asks for, what its worker finds
for the KV cache after profiling eight layers, that so much can be allocated, how much more until PyTorch's
out-of-memory error, and whether it still computes. Snapshot, check, profiling and arithmetic are vLLM's (seen
with 0.25.1); the layers, and the runner that calls them, stand in for a model. It calls none of vLLM's
compiled kernels and says whether they are there. Anything else that goes wrong ends it with a traceback.
"""

from __future__ import annotations

import argparse
import importlib
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import torch
from torch_memory import STEP, fill

LAYERS, WIDTH, TOKENS = 8, 4096, 8192
PATIENCE = 20.0  # seconds until the memory of an ended neighbour must be free
HOLD = """
import sys, torch
held = torch.empty(int(sys.argv[1]), dtype=torch.uint8, device="cuda")
print("held", flush=True)
sys.stdin.read()
"""


@contextmanager
def neighbour(size: int) -> Iterator[None]:
    """Another process of the same slice that holds so many bytes."""
    command = [sys.executable, "-c", HOLD, str(size)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        if process.stdout is None or process.stdout.readline() != "held\n":
            raise RuntimeError(f"the neighbour took no {size} bytes")
        yield
        process.communicate("")


def answer(ask: Callable[[], int]) -> dict[str, Any]:
    """The bytes that vLLM settled on, or its own words against it."""
    try:
        return {"bytes": ask(), "error": None}
    except ValueError as error:
        return {"bytes": None, "error": str(error)}


def until_free(measure: Callable[[], Any], wanted: int, patience: float = PATIENCE) -> Any:
    """The first snapshot that has so much free memory again. Raises TimeoutError."""
    end = time.monotonic() + patience
    while (snapshot := measure()).free_memory < wanted:
        if time.monotonic() > end:
            raise TimeoutError(f"{snapshot.free_memory} bytes free, {wanted} before the neighbour came")
        time.sleep(0.1)
    return snapshot


class Runner:
    """What a worker needs of a model runner to profile: a model's weights and its largest batch."""

    def __init__(self, device: torch.device) -> None:
        from vllm.utils.mem_utils import DeviceMemoryProfiler

        with DeviceMemoryProfiler(device) as loading:
            layers = [
                torch.nn.Linear(WIDTH, WIDTH, device=device, dtype=torch.bfloat16) for _ in range(LAYERS)
            ]
        self.model_memory_usage = loading.consumed_memory
        self._model = torch.nn.Sequential(*layers)
        self._batch = (TOKENS, WIDTH)

    @torch.inference_mode()
    def profile_run(self) -> None:
        """One pass of the largest batch, as vLLM's worker makes it: without gradients."""
        self._model(torch.zeros(self._batch, device="cuda", dtype=torch.bfloat16))
        torch.cuda.synchronize()


def worker_of(device: torch.device, cache: Any, snapshot: Any, requested: int) -> Any:
    """vLLM's worker as `init_device` and `load_model` leave it, as far as its profiling looks."""
    from vllm.config import CUDAGraphMode
    from vllm.v1.worker.gpu_worker import Worker

    worker = Worker.__new__(Worker)
    worker.device, worker.cache_config = device, cache
    worker.init_snapshot, worker.requested_memory = snapshot, requested
    worker.model_config = SimpleNamespace(multimodal_config=None)
    worker.vllm_config = SimpleNamespace(
        compilation_config=SimpleNamespace(cudagraph_mode=CUDAGraphMode.NONE)
    )
    worker.model_runner = Runner(device)
    return worker


def cache_and_beyond(worker: Any) -> dict[str, Any]:
    """Allocate the KV cache that vLLM's worker finds room for, by layers; then more, until refused."""
    size = worker.determine_available_memory()
    cache = [torch.zeros(size // LAYERS, dtype=torch.int8, device=worker.device) for _ in range(LAYERS)]
    more, refused = fill()
    line = {"weights": worker.model_runner.model_memory_usage, "kv_cache": size}
    line |= {"kv_cache_allocated": sum(one.nbytes for one in cache)}
    line |= {"beyond": {"allocated": len(more) * STEP, "refused": refused}}
    more.clear()
    torch.cuda.empty_cache()
    worker.model_runner.profile_run()
    return line


def compiled() -> bool:
    """Whether vLLM's compiled kernels were loaded, not an empty module in their place."""
    kernels = importlib.import_module("vllm._C_stable_libtorch")
    return str(kernels.__file__).endswith(".so")


def main() -> None:
    """Be refused beside a neighbour; then profile, allocate, be refused, and go on."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--utilization", type=float, default=0.9, help="vLLM's gpu_memory_utilization")
    parser.add_argument("--neighbour", type=int, default=1 << 30, metavar="BYTES", help="what it holds")
    options = parser.parse_args()
    import vllm
    from vllm.config import CacheConfig
    from vllm.utils.mem_utils import MemorySnapshot
    from vllm.v1.worker.utils import request_memory

    device = torch.device("cuda:0")
    torch.cuda.set_device(device)
    cache = CacheConfig(gpu_memory_utilization=options.utilization)
    first = MemorySnapshot(device=device)
    line: dict[str, Any] = {"vllm": vllm.__version__, "compiled": compiled()}
    line |= {"total": first.total_memory, "free_before": first.free_memory}
    with neighbour(options.neighbour):
        line["beside_neighbour"] = answer(lambda: request_memory(MemorySnapshot(device=device), cache))
    snapshot = until_free(lambda: MemorySnapshot(device=device), first.free_memory)
    line["alone"] = answer(lambda: request_memory(snapshot, cache))
    if requested := line["alone"]["bytes"]:
        line |= cache_and_beyond(worker_of(device, cache, snapshot, requested))
        ones = torch.ones(1024, 1024, device=device)
        line["product_is_right"] = (ones @ ones).sum().item() == 1024**3
    print(json.dumps(line))


if __name__ == "__main__":
    main()
