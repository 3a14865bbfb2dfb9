"""Whether the demo's slices were held, judged from measured numbers alone. Pure functions."""

from __future__ import annotations

from dataclasses import dataclass

from weir.units import format_bytes

POINTS = 6.0  # a busy machine of two cores delays threads that much over ten seconds; benchmarks/ is stricter


@dataclass(frozen=True)
class Judgement:
    """One line of the verdict."""

    held: bool
    text: str


def percent(ratio: float | None) -> str:
    """A share for people."""
    return "-" if ratio is None else f"{ratio * 100:.1f} %"


def judge_share(name: str, asked: float, given: float | None, own: float | None) -> Judgement:
    """Whether a slice got what it asked for: by the limiter's clock, and by its own count of finished work.

    `own` is None where there is nothing to judge by (on a real card a kernel's work depends on the clocks).
    """
    measured = [value for value in (given, own) if value is not None]
    held = given is not None and all(abs(value - asked) * 100 <= POINTS for value in measured)
    counted = f", own count {percent(own)}" if own is not None else ""
    off = "" if held else f": more than {POINTS:.0f} points off"
    return Judgement(held, f"{name:5} asked {asked * 100:.0f} %, got {percent(given)}{counted}{off}")


def judge_memory(
    name: str, limit: float | None, most: float | None, source: str, refused: float, out_of_memory: int
) -> Judgement:
    """Whether a greedy slice was refused as out of memory, and never held more than its limit."""
    if not limit or most is None:
        return Judgement(False, f"{name:5} its memory was never seen")
    refusals = f"refused {refused:.0f} time{'' if refused == 1 else 's'}"
    told = "as out of memory" if out_of_memory else "and never told that it is out of memory"
    over = ": OVER ITS LIMIT" if most > limit else ""
    held = f"held at most {format_bytes(most)} of {format_bytes(limit)} {source}{over}"
    return Judgement(refused > 0 and out_of_memory > 0 and not over, f"{name:5} {refusals} {told}; {held}")
