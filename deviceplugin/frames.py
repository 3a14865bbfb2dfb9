"""How long a card's frame is: long enough for what is lost where slots meet, and no longer.

Pure; times are nanoseconds, shares are basis points. Where one slot ends and the next begins the card rests
or exchanges two processes, and what is left of a slot behind its last whole kernel is lost, or taken from the
next. What nobody was promised pays for that first, then each slice with a point of the card. Of the frames in
which that suffices the shortest is taken; among them are those that cut a slot to whole kernels, for a slot
of 2.5 of its slice's kernels is run over every second time. Where none suffices, what loses least is taken.

A frame is kept while it is good enough: with each change every slot begins at another time. Kernels that vary
make a frame as good as any other of its length, and no worse.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from limiter import layout

FULL = layout.FULL_CORES
MS = 1_000_000

FRAME = 20 * MS  # 20 and 50 ms held a pair to the same point on an H200; the shorter waits less
LONGEST_FRAME = 200 * MS  # a claim of endless kernels must not make the neighbours wait for seconds …
LONGEST_WAIT = 120 * MS  # … nor for longer than this where a longer frame holds one of them
FRAME_BOUND = 1_200 * MS
KERNELS = 3  # a slot of one or two kernels rounds too much: 57 + 29 of 60 + 30, of three 60 + 30 (pacing.md)
FEWEST = 2  # … but rather two whole ones than two and a half
FRAME_STEP = 10 * MS  # so that a kernel measured a little longer does not move every slot
GUARD = 100_000  # between two slots that would touch: the last launch of one drains into it
EDGE = 350_000  # what the card loses where slots meet, beside what does not fit (slots.md) …
EDGE_LOSS = 100  # … and how much of all that, in basis points of the card, a slice may bear
MARGIN = 50_000  # by which a slot is longer than its whole kernels: wake-ups are late, …
PART = 64  # … and by such a part of a kernel: what ran over into it must be made up for
DIVISIBLE = 500_000  # slots are not cut to shorter kernels: those fill any
KEPT = 1.1  # a frame is kept while it loses no more than so many times what one may lose


class Part(NamedTuple):
    """What a slice has of the card, and its longest kernel."""

    share: int
    longest: int


def frame_length(parts: Sequence[Part], asked: int = 0, before: int = 0, stretched: bool = True) -> int:
    """The frame for these promised slices, where the shortest that was asked for is `asked` (0: none was).

    `before`: the frame there is; `stretched`: nobody else is busy, so their slots fill the frame.
    """
    needed = max((KERNELS * one.longest * FULL // one.share for one in parts), default=0)
    if asked or not parts:
        return min(max(asked or FRAME, whole_steps(needed) if needed > asked else 0), LONGEST_FRAME)
    least = max(FRAME, min(whole_steps(needed), LONGEST_FRAME))
    edges = steps_for_edges(parts)
    if not stretched:
        return min(max(least, edges), LONGEST_FRAME)
    bound = min(2 * max(least, edges), longest_frame(parts))
    if least // 2 <= before <= bound and suffices(parts, before, KEPT):
        return before
    return best_frame(tuple(parts), least, needed * FEWEST // KERNELS)


@lru_cache(maxsize=256)
def best_frame(parts: tuple[Part, ...], least: int, floor: int) -> int:
    """The shortest frame from `least` on that suffices, else the longest down to `floor`, else the best."""
    frames = sorted(set(candidates(parts, least)))
    above = [frame for frame in frames if frame >= least]
    below = [frame for frame in reversed(frames) if floor <= frame < least]
    for frame in above + below:
        if suffices(parts, frame):
            return frame
    return min((one for one in above if one <= LONGEST_FRAME), key=lambda frame: loss(parts, frame))


def candidates(parts: Sequence[Part], least: int) -> Iterator[int]:
    """Whole steps, and frames in which one of the slots is cut to whole kernels."""
    bound = longest_frame(parts)
    yield from range(least, LONGEST_FRAME + 1, FRAME_STEP)
    for one in parts:
        if one.longest < DIVISIBLE:
            continue
        kernels = 1
        while (frame := frame_of(parts, one, kernels)) <= bound:
            if frame >= FRAME:
                yield frame
            kernels += 1


def frame_of(parts: Sequence[Part], one: Part, kernels: int) -> int:
    """The frame in which the slot of `one` holds so many of its longest kernels, and not much more."""
    total = sum(part.share for part in parts)
    slot = kernels * one.longest + one.longest // PART + MARGIN
    return slot * total // one.share + GUARD * len(parts)


def longest_frame(parts: Sequence[Part]) -> int:
    """Longer than others would have it only where one long kernel fits then, and they need not wait long."""
    long = [one for one in parts if frame_of(parts, one, 1) > LONGEST_FRAME]
    others = [one for one in parts if one not in long]
    bound = min((LONGEST_WAIT * FULL // max(1, FULL - one.share) for one in others), default=FRAME_BOUND)
    fits = [frame_of(parts, one, 1) for one in long if frame_of(parts, one, 1) <= min(bound, FRAME_BOUND)]
    return max([LONGEST_FRAME + FRAME_STEP, *fits])


def suffices(parts: Sequence[Part], frame: int, times: float = 1.0) -> bool:
    """Whether the unpromised pays for all that is lost, or nobody loses more of his promise than a point."""
    lost = sum(EDGE + rest(slot, one.longest) for slot, one in zip(slots(parts, frame), parts, strict=True))
    unpromised = FULL - sum(one.share for one in parts)
    return lost * FULL <= unpromised * frame or loss(parts, frame) <= times * EDGE_LOSS / FULL


def loss(parts: Sequence[Part], frame: int) -> float:
    """What this frame leaves out of the promise for which it leaves out most; a part of the card."""
    pairs = zip(slots(parts, frame), parts, strict=True)
    return max(one.share / FULL - (slot - EDGE - rest(slot, one.longest)) / frame for slot, one in pairs)


def slots(parts: Sequence[Part], frame: int) -> list[int]:
    """The lengths of the slots."""
    room, total = frame - GUARD * len(parts), sum(one.share for one in parts)
    return [room * one.share // total for one in parts]


def rest(slot: int, kernel: int) -> int:
    """What is left of a slot behind its last whole kernel."""
    return slot % kernel if kernel >= DIVISIBLE else 0


def steps_for_edges(parts: Sequence[Part]) -> int:
    """The frame in whole steps that suffices where all kernels are short."""
    paid = max(0, FULL - sum(one.share for one in parts)) + EDGE_LOSS * len(parts)
    return whole_steps(EDGE * len(parts) * FULL // paid)


def whole_steps(length: int) -> int:
    """Rounded up to FRAME_STEP."""
    return -(-length // FRAME_STEP) * FRAME_STEP
