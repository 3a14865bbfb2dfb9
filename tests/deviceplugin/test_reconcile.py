"""Ledgers against NVML's figures."""

import pytest

from deviceplugin.reconcile import SeenTwice, context_cost, unaccounted
from limiter import layout
from limiter.ledger import Held, Process
from limiter.pages import StatsPage

CONTEXT, MANAGED = layout.Kind.CONTEXT, layout.Kind.MANAGED


def process(pid, used, context=0, managed=0):
    kinds = [0] * layout.KINDS
    kinds[CONTEXT], kinds[MANAGED] = context, managed
    return Process(slot=pid, pid=pid, attached=0, devices=(Held(used, tuple(kinds)),))


def page(*processes):
    return StatsPage(1, 0, 0, "", (), processes)


EXCESS = {
    "nobody": (page(), page(), {}, 0),
    "as accounted": (page(process(1, 600)), page(process(1, 600)), {1: 600}, 0),
    "more than accounted": (page(process(1, 600)), page(process(1, 600)), {1: 850}, 250),
    "less is no credit": (page(process(1, 600)), page(process(1, 600)), {1: 100}, 0),
    "over all processes": (
        page(process(1, 600), process(2, 600)),
        page(process(1, 600), process(2, 600)),
        {1: 700, 2: 550},
        50,
    ),
    "allocated between ledger and NVML": (page(process(1, 600)), page(process(1, 900)), {1: 900}, 0),
    "freed between NVML and ledger": (page(process(1, 900)), page(process(1, 600)), {1: 900}, 0),
    "managed memory is not in NVML's figure": (
        page(process(1, 900, managed=300)),
        page(process(1, 900, managed=300)),
        {1: 700},
        100,
    ),
    "came while we looked": (page(), page(process(1, 0)), {1: 500}, 0),
    "went while we looked": (page(process(1, 0)), page(), {1: 500}, 0),
    "not known to NVML": (page(process(1, 600)), page(process(1, 600)), {77: 9000}, 0),
}


@pytest.mark.parametrize("case", EXCESS)
def test_unaccounted(case):
    before, after, shown, excess = EXCESS[case]
    assert unaccounted(before, after, 0, shown) == excess


COSTS = {
    "a bare context": ([process(1, 512, context=512)], {1: 518}, 518),
    "with buffers": ([process(1, 612, context=512)], {1: 618}, 518),
    "the least of several": (
        [process(1, 512, context=512), process(2, 512, context=512)],
        {1: 780, 2: 518},
        518,
    ),
    "two contexts": ([process(1, 1024, context=1024)], {1: 1036}, None),
    "no context": ([process(1, 0)], {1: 9}, None),
    "not known to NVML": ([process(1, 512, context=512)], {}, None),
}


@pytest.mark.parametrize("case", COSTS)
def test_what_a_context_costs(case):
    processes, shown, cost = COSTS[case]
    assert context_cost(page(*processes), page(*processes), 0, shown, charge=512) == cost


def test_a_process_that_allocates_meanwhile_tells_nothing_of_contexts():
    assert context_cost(page(process(1, 512, 512)), page(process(1, 600, 512)), 0, {1: 518}, 512) is None


def test_a_figure_counts_as_far_as_two_looks_agree():
    seen = SeenTwice()
    assert [seen.confirm({"a": figure})["a"] for figure in (5, 9, 7, 0, 7)] == [0, 5, 7, 0, 0]
