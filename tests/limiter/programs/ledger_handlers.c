/*
 * Handlers within handlers: at any step of an operation, by chance, one comes from a depth of its own, makes
 * operations that others interrupt in turn, and returns, or jumps to any place further out that still stands.
 *
 * After a jump the next operation comes from as far out as the one that was left, as in a loop. Always: the sequence
 * of an intent never goes back, as it would where an operation that still goes on had been taken for abandoned. After
 * every round one operation more is left, and one made from the outermost frame, which ends all: the slot says what
 * the device says, nothing is under way, and the sum lies between what must and what can have been moved.
 *
 *   ledger_handlers ROUNDS     prints how many jumps there were
 */
#include <setjmp.h>

#include "ledger_world.h"

#define DEPTH 2

static const struct weir_slice *slice;
static uint32_t slot;
static sigjmp_buf places[DEPTH + 1]; /* 0: the program's */
static volatile int depth;           /* handlers under way; −1: none may come */
static bool leave_at_once;
static long jumps;
static uint64_t random_state = 88172645463325252u;
static uint64_t least, most; /* what the sum can be */

static uint64_t chance(uint64_t out_of)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (random_state >> 20) % out_of;
}

/* Until it has ended it may or may not have moved the sum. Frames of one depth, whether it fits or not. */
static void operate(void)
{
    bool fits = chance(4) != 0;
    most += fits * MIB;
    REQUIRE(weir_ledger_take(slice, slot, 0, WEIR_KIND_BUFFER, MIB, fits ? WEIR_NO_LIMIT : 0) == fits);
    least += fits * MIB;
}

/* From deeper in the stack by so many pages. */
__attribute__((noinline)) static void operate_below(uint64_t pages)
{
    volatile char page[512];
    page[0] = (char)pages;
    if (pages)
        operate_below(pages - 1);
    else
        operate();
    page[1] = page[0];
}

static void handle(void)
{
    depth++;
    if (sigsetjmp(places[depth], 0) == 0)
        operate_below(1 + chance(3));
    operate_below(0);
    depth--;
}

void ledger_step(void);

void ledger_step(void)
{
    check_sequences(slice, slot);
    if (leave_at_once) {
        leave_at_once = false;
        siglongjmp(places[0], 1);
    }
    if (depth >= 0 && depth < DEPTH && chance(16) == 0)
        handle();
    if (depth >= 0 && chance(40) == 0) {
        int place = (int)chance((uint64_t)depth + 1);
        depth = place;
        jumps++;
        siglongjmp(places[place], 1);
    }
}

static void expect_even(void)
{
    REQUIRE(under_way(slice, slot) == 0);
    uint64_t used = weir_ledger_used(slice, 0);
    REQUIRE(used == slots_total(slice, 0) && least <= used && used <= most);
    weir_ledger_give(slice, slot, 0, WEIR_KIND_BUFFER, used);
    REQUIRE(weir_ledger_used(slice, 0) == 0 && slots_total(slice, 0) == 0);
    least = most = 0;
}

int main(int argc, char **argv)
{
    long rounds = argc > 1 ? atol(argv[1]) : 0;
    depth = -1;
    slice = weir_slice();
    REQUIRE(rounds > 0 && slice && weir_slot(slice) >= 0);
    slot = (uint32_t)weir_slot(slice);
    for (volatile long round = 0; round < rounds; round++) {
        depth = 0;
        volatile uint64_t pages = 6;
        sigsetjmp(places[0], 0);
        while (pages > 2)
            operate_below(--pages);
        depth = -1;
        if (sigsetjmp(places[0], 0) == 0) {
            leave_at_once = true;
            operate_below(1);
        }
        operate();
        expect_even();
    }
    printf("%ld\n", jumps);
    return 0;
}
