"""Which frameworks are asked, and how vLLM's memory profiling is driven, over stand-ins."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable, Iterator
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from benchmarks.card import frameworks
from benchmarks.card.bench import Names
from benchmarks.card.journal import Journal

STEP = 64 << 20


class OutOfMemoryError(Exception):
    """PyTorch's, in the stand-in."""


class Card:
    """A PyTorch whose card has so much room, and that counts how often its cache was emptied."""

    uint8 = int8 = None

    def __init__(self, room: int) -> None:
        self.room, self.emptied = room, 0
        self.cuda = SimpleNamespace(OutOfMemoryError=OutOfMemoryError, empty_cache=self._empty_cache)

    def inference_mode(self) -> Callable[[Any], Any]:
        return lambda function: function

    def _empty_cache(self) -> None:
        self.emptied += 1

    def empty(self, size: int, **_: Any) -> SimpleNamespace:
        if size > self.room:
            raise OutOfMemoryError
        self.room -= size
        return SimpleNamespace(nbytes=size)

    zeros = empty


@pytest.fixture
def card() -> Card:
    return Card(room=10 * STEP + 1)


@pytest.fixture
def program(card: Card, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    monkeypatch.setitem(sys.modules, "torch", card)
    monkeypatch.syspath_prepend(frameworks.HERE)
    yield importlib.import_module("vllm_memory")
    for name in ("vllm_memory", "torch_memory"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize(("limit", "tensors", "refused"), [(3 * STEP, 3, False), (1 << 40, 10, True)])
def test_memory_is_taken_up_to_a_limit_or_until_pytorch_says_that_there_is_no_more(
    program: ModuleType, limit: int, tensors: int, refused: bool
) -> None:
    held, was_refused = program.fill(limit)
    assert (len(held), was_refused) == (tensors, refused)


def test_another_error_than_out_of_memory_is_no_refusal(
    program: ModuleType, card: Card, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(size: int, **_: Any) -> SimpleNamespace:
        raise RuntimeError(f"no {size}")

    monkeypatch.setattr(card, "empty", broken)
    with pytest.raises(RuntimeError):
        program.fill(STEP)


def test_vllm_answers_with_bytes_or_with_its_own_words(program: ModuleType) -> None:
    def refuse() -> int:
        raise ValueError("Free memory on device cuda:0 is less than desired")

    assert program.answer(lambda: 7) == {"bytes": 7, "error": None}
    assert program.answer(refuse) == {
        "bytes": None,
        "error": "Free memory on device cuda:0 is less than desired",
    }


def test_the_first_snapshot_with_the_neighbours_memory_back_is_taken(program: ModuleType) -> None:
    seen = iter([1, 5, 9])
    assert program.until_free(lambda: SimpleNamespace(free_memory=next(seen)), 5).free_memory == 5
    with pytest.raises(TimeoutError, match=r"^4 bytes free, 5 before"):
        program.until_free(lambda: SimpleNamespace(free_memory=4), 5, patience=0.0)


def test_the_cache_is_what_the_worker_says_and_what_is_left_is_counted(
    program: ModuleType, card: Card
) -> None:
    runs: list[int] = []
    runner = SimpleNamespace(model_memory_usage=5, profile_run=lambda: runs.append(card.emptied))
    worker = SimpleNamespace(
        determine_available_memory=lambda: 6 * STEP + 3, device="cuda:0", model_runner=runner
    )
    assert program.cache_and_beyond(worker) == {
        "weights": 5,
        "kv_cache": 6 * STEP + 3,
        "kv_cache_allocated": 6 * STEP,
        "beyond": {"allocated": 4 * STEP, "refused": True},
    }
    assert runs == [1], "the model runs again once what was beyond is given back"


@pytest.mark.parametrize("here", [{"torch"}, {"torch", "vllm"}, set()])
def test_a_framework_that_cannot_be_imported_has_no_row(
    here: set[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def find(module: str) -> ModuleSpec | None:
        return ModuleSpec(module, None) if module in here else None

    monkeypatch.setattr(importlib.util, "find_spec", find)
    nothing: Any = None
    names = Names(Journal(tmp_path), nothing, nothing, tmp_path, None)
    frameworks.run(names)
    wanted = {name for name, case in frameworks.CASES.items() if case.module in here}
    assert {row.removeprefix("frameworks/").rpartition("/")[0] for row in names.asked} == wanted
    assert len(names.asked) == sum(len(frameworks.CASES[name].slices) for name in wanted)
