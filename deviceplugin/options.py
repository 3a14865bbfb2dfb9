"""Options that `weir run` and `weir set` have in common."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeVar

import click

from limiter.identity import MAX_FRAME_MS
from weir.errors import UsageError

SHORTEST_FRAME_MS = 5  # a slot's edges cost 0.2 to 0.3 ms of each frame

C = TypeVar("C", bound=Callable[..., Any])


def frame_option(otherwise: str, envvar: str | None = None) -> Callable[[C], C]:
    """Add --frame, which `envvar` stands in for; `otherwise`: what holds where neither is given."""
    return click.option(
        "--frame",
        metavar="MS|none",
        envvar=envvar,
        show_envvar=True,
        help="The frame of time slots that it shares with neighbours, as 10 (waits less) or 50 (loses less); "
        "a card keeps to the shortest that its slices ask for, longer where a kernel needs it. "
        "none: no wish, where there was one. "
        f"Not given: {otherwise}.",
    )


def parse_frame(text: str | None) -> int | None:
    """Milliseconds, 0 for no wish, None where nothing was asked. Raises UsageError."""
    if text is None:
        return None
    if text.strip() == "none":
        return 0
    digits = text.strip().removesuffix("ms")
    if not re.fullmatch("[0-9]{1,4}", digits) or not SHORTEST_FRAME_MS <= int(digits) <= MAX_FRAME_MS:
        allowed = f"whole milliseconds from {SHORTEST_FRAME_MS} to {MAX_FRAME_MS}, or none for no wish"
        raise UsageError("--frame", text, allowed)
    return int(digits)
