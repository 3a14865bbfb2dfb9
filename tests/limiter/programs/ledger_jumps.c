/*
 * Leaves an operation of the ledger by siglongjmp at every single step, as a signal handler may; and at every step of
 * it runs a handler that makes an operation of its own, which it ends, or leaves at every step: for the program, or
 * for a place within the handler, whereupon the interrupted operation goes on.
 *
 * Compared is the ledger with what the operations can have done: what was ended has moved both sums by exactly its
 * bytes, what was left by them or by nothing. After one more operation the slot must say what the device says, and
 * none of the process's intents may be under way. More jumps than a process has intents, by hundreds.
 */
#include <setjmp.h>

#include "ledger_world.h"

enum leave { RETURN, TO_PROGRAM, TO_HANDLER };

static sigjmp_buf program, handler;
static long steps_left, inner_steps_left; /* until the handler comes, until it leaves; negative: never */
static enum leave leave;
static bool in_handler, outer_ended, inner_ended;
static int outer_kind, inner_kind;

static const int64_t moved[] = {3 * MIB, -(int64_t)(2 * MIB), 0}; /* by each kind of operation */

static void operate(int kind)
{
    const struct weir_slice *slice = weir_slice();
    uint32_t slot = (uint32_t)weir_slot(slice);
    if (kind == 0)
        REQUIRE(weir_ledger_take(slice, slot, 0, WEIR_KIND_BUFFER, 3 * MIB, WEIR_NO_LIMIT));
    else if (kind == 1)
        weir_ledger_give(slice, slot, 0, WEIR_KIND_BUFFER, 2 * MIB);
    else
        REQUIRE(!weir_ledger_take(slice, slot, 0, WEIR_KIND_BUFFER, 50 * MIB, 40 * MIB));
}

__attribute__((noinline)) static void handle(void)
{
    in_handler = true;
    if (leave == RETURN || sigsetjmp(handler, 0) == 0) {
        operate(inner_kind);
        inner_ended = true;
        if (inner_steps_left >= 0)
            inner_steps_left = 0; /* there was no such step */
    }
    in_handler = false;
}

void ledger_step(void);

void ledger_step(void)
{
    if (in_handler) {
        if (inner_steps_left > 0 && --inner_steps_left == 0)
            siglongjmp(leave == TO_PROGRAM ? program : handler, 1);
    } else if (steps_left > 0 && --steps_left == 0) {
        if (inner_kind < 0)
            siglongjmp(program, 1);
        handle();
    }
}

/* Deeper in the stack than the operation that comes after it, whatever frames the compiler makes of either. */
__attribute__((noinline)) static void attempt(void)
{
    volatile char depth[4096];
    depth[0] = 0;
    operate(outer_kind);
    outer_ended = depth[0] == 0;
}

static bool can_be(int64_t change, int64_t outer, int64_t inner)
{
    for (int left = 0; left < 4; left++) {
        bool with_outer = left & 1, with_inner = left & 2;
        if ((with_outer || !outer_ended) && (with_inner || !inner_ended) &&
            change == with_outer * outer + with_inner * inner)
            return true;
    }
    return false;
}

/* False: the operation has fewer steps than that. */
static bool try_at(long step, long inner_step)
{
    const struct weir_slice *slice = weir_slice();
    int64_t before = (int64_t)weir_ledger_used(slice, 0);
    steps_left = step;
    inner_steps_left = inner_step;
    in_handler = outer_ended = inner_ended = false;
    if (sigsetjmp(program, 0) == 0)
        attempt();
    bool reached = steps_left == 0 && (inner_kind < 0 || leave == RETURN || !inner_ended);
    in_handler = false;
    steps_left = -1;
    operate(2);
    int64_t change = (int64_t)weir_ledger_used(slice, 0) - before;
    REQUIRE(can_be(change, moved[outer_kind], inner_kind < 0 ? 0 : moved[inner_kind]));
    REQUIRE(slots_total(slice, 0) == weir_ledger_used(slice, 0));
    REQUIRE(under_way(slice, (uint32_t)weir_slot(slice)) == 0);
    if (change > 0)
        weir_ledger_give(slice, (uint32_t)weir_slot(slice), 0, WEIR_KIND_BUFFER, (uint64_t)change);
    else if (change < 0)
        REQUIRE(weir_ledger_take(slice, (uint32_t)weir_slot(slice), 0, WEIR_KIND_BUFFER, (uint64_t)-change,
                                 WEIR_NO_LIMIT));
    return reached;
}

int main(void)
{
    const struct weir_slice *slice = weir_slice();
    long tries = 0;
    REQUIRE(slice && weir_slot(slice) >= 0);
    steps_left = inner_steps_left = -1;
    REQUIRE(weir_ledger_take(slice, (uint32_t)weir_slot(slice), 0, WEIR_KIND_OTHER, 16 * MIB, WEIR_NO_LIMIT));
    for (outer_kind = 0; outer_kind < 3; outer_kind++) {
        inner_kind = -1;
        for (long step = 1; try_at(step, -1); step++)
            tries++;
        for (inner_kind = 0; inner_kind < 3; inner_kind++)
            for (leave = RETURN; leave <= TO_HANDLER; leave++)
                for (long step = 1, inner; ; step++) {
                    for (inner = 1; try_at(step, leave == RETURN ? -1 : inner) && leave != RETURN; inner++)
                        tries++;
                    if (inner == 1 && !try_at(step, -1))
                        break;
                }
    }
    printf("%ld\n", tries);
    return 0;
}
