"""What a program should have had of the card, and how far off it was.

A share is GPU time seen from outside. For a program that keeps the card busy by itself that is NVML's
utilisation; for others it is the kernel time by CUPTI, where both the row and the one without a limit have
it by the same arithmetic, for NVML counts a short kernel with what is around it. The error is the share less
the smaller of the limit and what the program uses without one. A program that uses less than its limit has
lost nothing if its pace is the one it has without; where its host sets the pace, two processes of it differ
by tens of percent, so where nothing held it back its share says nothing of the limiter: it has no error.
What was not measured is None, never a guess.
"""

from __future__ import annotations

from benchmarks.card import curves
from benchmarks.card.journal import Journal, Record
from benchmarks.card.loads import BY_NAME

NO_LIMIT = 100
BARE_FIRST = ("bare", "100")
# By whether the program fills the card, the best first.
WITNESSES = {True: ("nvml",), False: ("kernel_time", "cupti", "nvml")}
FULL = 95  # percent by NVML of a card that is hardly ever idle
AT_THE_LIMIT = 1  # points by which a program that is held back may be below its limit, as the limiter counts
SECONDS = {"load": "own", "limiter": "limiter", "CUPTI": "kernel_time"}  # keys, by who told single seconds


def unlimited(journal: Journal, load: str, key: str) -> float | None:
    """The load's figure without a limit: without Weir, or else in a slice that has none."""
    for row in BARE_FIRST:
        found = journal.get("alone", f"{load}/{row}")
        if found and found.get(key) is not None:
            return float(found[key])
    return None


def limited(record: Record) -> bool:
    """Whether the row is of a program that was held to something."""
    return record["limit"] not in (None, NO_LIMIT)


def fills(journal: Journal, load: str) -> bool:
    """Whether the load keeps the card busy by itself: on this card's host, where that was seen."""
    used = unlimited(journal, load, "nvml")
    return BY_NAME[load].fills or (used is not None and used >= FULL)


def same_process_unlimited(journal: Journal, record: Record) -> Record | None:
    """The row without a limit of the process that this row is of, if it is known."""
    own = journal.get("alone", f"{record['load']}/{NO_LIMIT}")
    known = own is not None and own.get("process") is not None and own["process"] == record.get("process")
    return own if known else None


def host_bound(journal: Journal, record: Record) -> bool:
    """Whether its host alone may have set the program's pace: hosts drift, so its own process tells best."""
    own = same_process_unlimited(journal, record)
    full = fills(journal, record["load"]) if own is None else own["nvml"] >= FULL
    return not full and not held_back(record)


def held_back(record: Record) -> bool:
    """Whether the limiter counted so much that the row's limit may have held the program."""
    counted = record.get("limiter")
    return counted is None or counted >= record["limit"] - AT_THE_LIMIT


def witness(journal: Journal, record: Record) -> str:
    """The key under which the row has the program's GPU time."""
    load = record["load"]
    for key in WITNESSES[fills(journal, load)]:
        if record.get(key) is not None and unlimited(journal, load, key) is not None:
            return key
    return "nvml"


def uses_less(journal: Journal, record: Record) -> bool:
    """Whether the program, left alone, uses less than this row's limit."""
    used = unlimited(journal, record["load"], witness(journal, record))
    return limited(record) and used is not None and used <= record["limit"]


def aim(journal: Journal, record: Record, key: str) -> float:
    """The smaller of the limit and what the program uses without one."""
    used = unlimited(journal, record["load"], key)
    return float(record["limit"]) if used is None else min(float(record["limit"]), used)


def error(journal: Journal, record: Record) -> float | None:
    """Points above (+) or below (-) what the program should have had; None if its host alone held it back."""
    key = witness(journal, record)
    if not limited(record) or record.get(key) is None:
        return None
    if host_bound(journal, record):
        return None
    return float(record[key]) - aim(journal, record, key)


def worst_second(journal: Journal, record: Record) -> float | None:
    """The second furthest off; None where a program uses less than its limit and only the limiter counts."""
    key = SECONDS[record["seconds_by"]]
    if error(journal, record) is None or (key == "limiter" and uses_less(journal, record)):
        return None
    goal = aim(journal, record, key)
    if key == "kernel_time" and witness(journal, record) == "nvml":  # CUPTI leaves out the changes of kernels
        goal = aim(journal, record, "nvml") * float(record[key]) / float(record["nvml"])
    return curves.worst(record["seconds"], goal)


def work(journal: Journal, record: Record) -> float | None:
    """What the program got done, in percent of what it does without a limit."""
    base = unlimited(journal, record["load"], "rate")
    return 100 * record["rate"] / base if base and record.get("rate") is not None else None


def pace_kept(journal: Journal, record: Record) -> float | None:
    """Of a program that uses less than its limit: its work against the same process without one, if known."""
    own = same_process_unlimited(journal, record)
    if own is None or not own.get("rate") or not uses_less(journal, record):
        return None
    return 100 * record["rate"] / own["rate"]
