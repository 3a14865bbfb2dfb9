"""Memory that crosses processes is paid for once in a slice, and by every slice that holds it."""

from __future__ import annotations

import pytest

from .conftest import CONTEXT, LIMIT, MIB, Machine, MakeSlice, Slice
from .sharer import BIG, OUT_OF_MEMORY, REST, Start, lend, make_another, start, used

__all__ = ["start"]  # a fixture


class TestDescriptors:
    """cuMemExportToShareableHandle and cuMemImportFromShareableHandle."""

    def test_a_slice_pays_once_for_what_two_of_its_processes_hold(self, start: Start, slice_: Slice) -> None:
        payer, guest = start(slice_), start(slice_)
        lend(payer, guest)
        guest.do("map:1")
        assert used(slice_) == 64

    def test_it_pays_as_long_as_the_guest_holds_it(self, start: Start, slice_: Slice) -> None:
        payer, guest = start(slice_), start(slice_)
        lend(payer, guest)
        guest.do("shut:0", "map:1", "release:1")
        payer.do("shut:1", "release:0")
        assert payer.ask(f"alloc:{REST}") == OUT_OF_MEMORY
        assert used(slice_) == 64
        guest.do("unmap:1")
        assert payer.ask(f"alloc:{REST}") == 0

    def test_it_pays_while_only_a_descriptor_keeps_it(self, start: Start, slice_: Slice) -> None:
        payer, other = start(slice_), start(slice_)
        payer.do(f"create:{BIG}", "export:0", "release:0", "send:1", "shut:1")
        other.do("recv")
        assert payer.ask(f"alloc:{REST}") == OUT_OF_MEMORY
        other.do("shut:0")
        assert payer.ask(f"alloc:{REST}") == 0

    def test_it_pays_when_the_payer_is_dead(self, start: Start, slice_: Slice) -> None:
        payer, guest = start(slice_), start(slice_)
        payer.do("alloc:100000000")
        payer.do(f"create:{BIG}", "export:1", "send:2")
        guest.do("recv", "import:0", "shut:0")
        payer.end(kill=True)
        assert guest.ask(f"alloc:{REST + CONTEXT}") == OUT_OF_MEMORY
        assert slice_.stats.devices[0].used == CONTEXT + BIG  # the rest of what the payer held is back
        assert guest.ask(f"alloc:{REST + CONTEXT - BIG}") == 0
        guest.do("release:1", f"alloc:{BIG}")

    def test_no_process_of_a_slice_can_hold_more_than_its_limit(self, start: Start, slice_: Slice) -> None:
        slice_.update(memory_limit=2 * CONTEXT + 200 * MIB)
        payer, guest = start(slice_), start(slice_)
        answers = []
        for number in range(0, 10, 2):
            answers.append(payer.ask(f"create:{BIG}"))
            if answers[-1]:
                break
            payer.do(f"export:{number}", f"send:{number + 1}", f"shut:{number + 1}", f"release:{number}")
            guest.do("recv", f"import:{number}", f"shut:{number}")
        assert answers == [0, 0, 0, OUT_OF_MEMORY]
        assert slice_.stats.devices[0].peak_bytes <= 2 * CONTEXT + 200 * MIB

    def test_what_comes_back_to_its_maker_is_paid_once(self, start: Start, slice_: Slice) -> None:
        sharer = start(slice_)
        sharer.do(f"create:{BIG}", "export:0", "import:1", "release:0")
        assert used(slice_) == 64
        sharer.do("shut:1", "release:2")
        assert used(slice_) == 0

    def test_it_can_come_back_after_nothing_else_held_it(self, start: Start, slice_: Slice) -> None:
        sharer = start(slice_)
        sharer.do(f"create:{BIG}", "export:0", "release:0", "import:1", "shut:1")
        assert used(slice_) == 64
        sharer.do("release:2")
        assert used(slice_) == 0

    def test_a_guest_lends_it_on(self, start: Start, slice_: Slice) -> None:
        payer, guest, third = start(slice_), start(slice_), start(slice_)
        lend(payer, guest)
        guest.do("export:1", "send:2", "shut:0", "shut:2", "release:1")
        third.do("recv", "import:0", "shut:0")
        payer.do("shut:1", "release:0")
        assert used(slice_) == 64
        assert payer.ask(f"alloc:{LIMIT - 3 * CONTEXT}") == OUT_OF_MEMORY
        third.do("release:1")
        assert payer.ask(f"alloc:{LIMIT - 3 * CONTEXT}") == 0

    def test_another_slice_pays_too(
        self, machine: Machine, make_slice: MakeSlice, start: Start, slice_: Slice
    ) -> None:
        other = make_another(machine, make_slice)
        payer, stranger = start(slice_), start(other)
        lend(payer, stranger)
        assert (used(slice_), used(other)) == (64, 64)
        payer.do("shut:1", "release:0")
        stranger.do("shut:0", "release:1")
        assert payer.ask(f"alloc:{LIMIT - CONTEXT}") == 0
        assert used(other) == 0

    def test_of_memory_whose_size_nobody_says_what_is_mapped_is_paid(
        self, start: Start, slice_: Slice
    ) -> None:
        outsider, guest = start(None), start(slice_)
        lend(outsider, guest)
        guest.do("map:1")
        assert used(slice_) == 64
        guest.do("unmap:1")
        assert used(slice_) == 0
        guest.do(f"alloc:{LIMIT - CONTEXT}")
        assert guest.ask("map:1") == OUT_OF_MEMORY

    def test_another_slice_is_refused_what_does_not_fit(
        self, machine: Machine, make_slice: MakeSlice, start: Start, slice_: Slice
    ) -> None:
        other = make_another(machine, make_slice)
        other.update(memory_limit=CONTEXT + 32 * MIB)
        payer, stranger = start(slice_), start(other)
        payer.do(f"create:{BIG}", "export:0", "send:1")
        stranger.do("recv")
        assert stranger.ask("import:0") == OUT_OF_MEMORY
        card = other.stats.devices[0]
        assert (card.used, card.denied_limit) == (CONTEXT, 1)


class TestHandles:
    """cuIpcGetMemHandle and cuIpcOpenMemHandle."""

    @pytest.mark.parametrize("size", [BIG, 1000])
    def test_a_slice_pays_once_for_what_two_of_its_processes_have_open(
        self, start: Start, slice_: Slice, size: int
    ) -> None:
        payer, guest = start(slice_), start(slice_)
        payer.do(f"alloc:{size}", "give:0")
        guest.do("take")
        assert used(slice_) == max(size // MIB, 2)
        payer.do("free:0")
        assert used(slice_) == max(size // MIB, 2)
        assert payer.ask(f"alloc:{REST}") == OUT_OF_MEMORY
        guest.do("close:0")
        payer.do(f"alloc:{REST}")

    def test_what_nobody_has_open_is_given_back_at_once(self, start: Start, slice_: Slice) -> None:
        payer, guest = start(slice_), start(slice_)
        payer.do(f"alloc:{BIG}", "give:0")
        guest.do("take", "close:0")
        payer.do("free:0")
        assert used(slice_) == 0

    def test_it_pays_when_the_payer_is_dead(self, start: Start, slice_: Slice) -> None:
        payer, guest = start(slice_), start(slice_)
        payer.do(f"alloc:{BIG}", "give:0", f"alloc:{BIG}")
        guest.do("take")
        payer.end(kill=True)
        assert guest.ask(f"alloc:{REST + CONTEXT}") == OUT_OF_MEMORY
        assert slice_.stats.devices[0].used == CONTEXT + BIG
        guest.do("close:0", f"alloc:{REST + CONTEXT}")

    def test_another_slice_pays_too_or_is_refused(
        self, machine: Machine, make_slice: MakeSlice, start: Start, slice_: Slice
    ) -> None:
        other = make_another(machine, make_slice)
        payer, stranger = start(slice_), start(other)
        payer.do(f"alloc:{BIG}", "give:0", "give:0")
        stranger.do("take")
        assert used(other) == 64
        stranger.do("close:0")
        assert used(other) == 0
        other.update(memory_limit=CONTEXT + 32 * MIB)
        assert stranger.ask("take") == OUT_OF_MEMORY
        assert other.stats.devices[0].used == CONTEXT

    def test_what_is_opened_twice_is_paid_once(
        self, machine: Machine, make_slice: MakeSlice, start: Start, slice_: Slice
    ) -> None:
        other = make_another(machine, make_slice)
        payer, stranger = start(slice_), start(other)
        payer.do(f"alloc:{BIG}", "give:0", "give:0")
        stranger.do("take", "take")
        assert used(other) == 64
        stranger.do("close:0")
        assert used(other) == 64
        stranger.do("close:1")
        assert used(other) == 0
        assert stranger.ask("close:1") != 0  # and nothing is given back twice
        assert other.stats.devices[0].used == CONTEXT
