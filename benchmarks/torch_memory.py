"""What an unchanged PyTorch program sees of its slice's memory, and how it recovers at the limit.

Prints one JSON line: what `torch.cuda.mem_get_info` says before anything is allocated; twice, how much it
could allocate in 64 MiB tensors and whether the refusal was `torch.cuda.OutOfMemoryError`, the second time
after dropping them and `torch.cuda.empty_cache()`; and whether it still computes. `--product-first` computes
before it fills, so that cuBLAS has its workspace. Anything else that goes wrong ends it with a traceback.
"""

from __future__ import annotations

import json
import sys

import torch

STEP = 64 << 20


def fill(limit: int = 1 << 40) -> tuple[list[torch.Tensor], bool]:
    """Tensors of 64 MiB up to a limit in bytes; whether it ended with PyTorch's out-of-memory error."""
    held: list[torch.Tensor] = []
    try:
        while len(held) * STEP < limit:
            held.append(torch.empty(STEP, dtype=torch.uint8, device="cuda"))
    except torch.cuda.OutOfMemoryError:
        return held, True
    return held, False


def main() -> None:
    """Fill, be refused, recover, fill again, and compute."""
    if "--product-first" in sys.argv[1:]:
        ones = torch.ones(1024, 1024, device="cuda")
        (ones @ ones).sum().item()
    free, total = torch.cuda.mem_get_info()
    line: dict[str, object] = {"free_before": free, "total": total}
    for attempt in ("first", "after_empty_cache"):
        held, refused = fill()
        line[attempt] = {"allocated": len(held) * STEP, "refused": refused}
        held.clear()
        torch.cuda.empty_cache()
    ones = torch.ones(1024, 1024, device="cuda")
    line["product_is_right"] = (ones @ ones).sum().item() == 1024**3
    print(json.dumps(line))


if __name__ == "__main__":
    main()
