"""What a metric family is: its name, type, help, labels, collector, and how one subject's samples are read.

The tables of all families are families.py (slices) and node_families.py (cards, node, exporter). The subject
is what the table is about: a slice, a container, a card, a collector, the page itself. A family adds its own
labels to those of its subject. Labels with few, known values (reason, state) always have all of them, from
0, so that rate() sees the first event. What nobody can say is no sample.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

T = TypeVar("T")
Sample = tuple[tuple[str, ...], float]  # values of the family's own labels, and the number


@dataclass(frozen=True)
class Family(Generic[T]):
    """One metric family. `labels` are its own, beside those of its subject."""

    name: str
    kind: Literal["gauge", "counter"]
    help: str
    collector: str
    samples: Callable[[T], Iterable[Sample]]
    labels: tuple[str, ...] = ()


def _one(read: Callable[[T], float | None]) -> Callable[[T], Iterable[Sample]]:
    """Samples of a family with no label of its own."""

    def samples(subject: T) -> Iterable[Sample]:
        value = read(subject)
        return () if value is None else (((), value),)

    return samples


def gauge(name: str, text: str, read: Callable[[T], float | None], collector: str = "slices") -> Family[T]:
    """A gauge with no label of its own."""
    return Family(name, "gauge", text, collector, _one(read))


def counter(name: str, text: str, read: Callable[[T], float | None], collector: str = "slices") -> Family[T]:
    """A counter with no label of its own."""
    return Family(name, "counter", text, collector, _one(read))
