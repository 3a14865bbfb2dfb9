"""Which calls of the driver disturb a stream's capture: makes each in every situation and prints a table.

    python benchmarks/capture_calls.py

A line is a call, where it was made, and what came of it: six outcomes, for captures in global, thread-local
and relaxed mode, each first by a thread in its own mode and then by one in relaxed mode; only one where all
are alike. `ok` (which "not ready" is too) or the driver's error; `!`: the capture was invalid after it. Made
by this thread on the capturing stream (`own`) or on another one, if any (`other`), by another thread
(`thread-own`, `thread`), on the legacy stream while a stream captures that waits for it (`legacy`) or does
not (`legacy-apart`), and without a stream while one that waits for it captures (`blocking`).

Needs nothing but libcuda, and seconds: it knows nothing of Weir. What calls make stays till the process ends.
It judges nothing: tests hold the simulated card, and a slice, against what it printed on a card."""

from __future__ import annotations

import sys
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from ctypes import byref, c_char_p, c_int, c_void_p

from capture_cases import CASES, MADE, STREAM, Card, Case
from memory_ways import call, driver

RELAXED, ACTIVE = 2, 1  # CU_STREAM_CAPTURE_MODE_RELAXED, CU_STREAM_CAPTURE_STATUS_ACTIVE


def ask(symbol: str, *arguments: object) -> int:
    """The driver's answer; -1: it has no such function."""
    function = getattr(driver(), symbol, None)
    return function(*arguments) if function else -1


def make_calls(case: Case, stream: c_void_p, thing: object, relaxed: bool) -> int:
    """The case's answer, by this thread in one of its modes."""
    mode, answer = c_int(RELAXED), 0
    if relaxed:
        call("cuThreadExchangeStreamCaptureMode", byref(mode))
    for symbol, arguments in case.steps:
        given = (stream if one is STREAM else thing if one is MADE else one for one in arguments)
        answer = answer or ask(symbol, *given)
    if relaxed:
        call("cuThreadExchangeStreamCaptureMode", byref(mode))
    return answer


def in_another_thread(card: Card, work: Callable[[], int]) -> int:
    answers: list[int] = []

    def run() -> None:
        call("cuCtxSetCurrent", card.context)
        answers.append(work())

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return answers[0]


def name_of(answer: int) -> str:
    """In one word."""
    text = c_char_p()
    driver().cuGetErrorName(answer, byref(text))
    name = (text.value or b"no such function").decode().removeprefix("CUDA_").removeprefix("ERROR_")
    return (
        "ok"
        if name in ("SUCCESS", "NOT_READY")
        else name.removeprefix("STREAM_CAPTURE_").lower().replace("_", "-")
    )


def outcome(card: Card, case: Case, where: str, mode: int, relaxed: bool) -> str:
    """Captures a stream, makes the calls meanwhile, and says what came of both."""
    thing = case.makes() if case.makes else None
    capturing = card.stream(0 if where in ("legacy", "blocking") else 1)
    stream = capturing if where.endswith("own") else c_void_p() if where.startswith("legacy") else card.other
    status, graph = c_int(), c_void_p()
    call("cuStreamBeginCapture_v2", capturing, c_int(mode))

    def work() -> int:
        return make_calls(case, stream, thing, relaxed)

    answer = in_another_thread(card, work) if where.startswith("thread") else work()
    call("cuStreamIsCapturing", capturing, byref(status))
    ask("cuStreamEndCapture", capturing, byref(graph))
    call("cuCtxSynchronize")
    return name_of(answer) + ("" if status.value == ACTIVE else "!")


def places(case: Case) -> tuple[str, ...]:
    if case.on_stream:
        return ("own", "thread-own", "other", "thread", "legacy", "legacy-apart")
    return ("other", "thread", "blocking") if case.legacy else ("other", "thread")


def lines(card: Card, case: Case) -> Iterator[str]:
    """The case's part of the table: places where all went alike in one line."""
    alike: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for where in places(case):
        came = [outcome(card, case, where, mode, relaxed) for mode in range(3) for relaxed in (False, True)]
        alike[tuple(came)].append(where)
    for outcomes, wheres in alike.items():
        yield "\t".join(
            (
                case.label,
                " ".join(wheres),
                " ".join(dict.fromkeys(outcomes) if len(set(outcomes)) == 1 else outcomes),
            )
        )


def main() -> None:
    card = Card()
    for kind in CASES:
        for case in kind(card):
            for line in lines(card, case):
                sys.stdout.write(line + "\n")


if __name__ == "__main__":
    main()
