/*
 * Dies at every single step of a ledger operation, and then at every step of the reaper that cleans up after it.
 * Whatever the step, what a survivor finds after reaping must be exactly what the dead held: nothing.
 */
#include <sys/wait.h>
#include <unistd.h>

#include "ledger_world.h"

#define DIED 77

static long steps_left = -1; /* negative: do not die */

void ledger_step(void);

void ledger_step(void)
{
    if (steps_left > 0 && --steps_left == 0)
        _exit(DIED);
}

static void victim(const struct weir_slice *slice)
{
    int slot = weir_slot(slice);
    REQUIRE(slot >= 0);
    REQUIRE(weir_ledger_take(slice, (uint32_t)slot, 0, WEIR_KIND_BUFFER, 3 * MIB, WEIR_NO_LIMIT));
    REQUIRE(weir_ledger_take(slice, (uint32_t)slot, 1, WEIR_KIND_POOL, 5 * MIB, WEIR_NO_LIMIT));
    weir_ledger_give(slice, (uint32_t)slot, 0, WEIR_KIND_BUFFER, MIB);
    REQUIRE(!weir_ledger_take(slice, (uint32_t)slot, 1, WEIR_KIND_POOL, 50 * MIB, 40 * MIB));
}

static void reaper(const struct weir_slice *slice)
{
    weir_reap(slice);
}

/* Runs `body` in a child that dies at its given step. True if it did; false if it ended before. */
static bool dies(const struct weir_slice *slice, void (*body)(const struct weir_slice *), long step)
{
    int status;
    pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        steps_left = step;
        body(slice);
        _exit(0);
    }
    REQUIRE(waitpid(child, &status, 0) == child && WIFEXITED(status));
    REQUIRE(WEXITSTATUS(status) == DIED || WEXITSTATUS(status) == 0);
    return WEXITSTATUS(status) == DIED;
}

/* A neighbour's operation in between replaces the words, so that the dead one's marks are all that is left. */
static void disturb(const struct weir_slice *slice, bool yes)
{
    for (uint32_t device = 0; yes && device < slice->device_count; device++) {
        REQUIRE(weir_ledger_take(slice, (uint32_t)weir_slot(slice), device, WEIR_KIND_OTHER, MIB, WEIR_NO_LIMIT));
        weir_ledger_give(slice, (uint32_t)weir_slot(slice), device, WEIR_KIND_OTHER, MIB);
    }
}

static void expect_only_ours(const struct weir_slice *slice)
{
    for (uint32_t device = 0; device < slice->device_count; device++) {
        REQUIRE(weir_ledger_used(slice, device) == 7 * MIB);
        REQUIRE(slots_total(slice, device) == 7 * MIB);
    }
}

int main(void)
{
    const struct weir_slice *slice = weir_slice();
    long deaths = 0;
    REQUIRE(slice && slice->device_count == 2);
    for (uint32_t device = 0; device < 2; device++)
        REQUIRE(weir_ledger_take(slice, (uint32_t)weir_slot(slice), device, WEIR_KIND_OTHER, 7 * MIB, WEIR_NO_LIMIT));
    for (int disturbed = 0; disturbed < 2; disturbed++) {
        for (long step = 1; dies(slice, victim, step); step++) {
            long reaper_step = 1;
            do { /* the same death again, cleaned up by a reaper that dies one step later each time */
                disturb(slice, disturbed);
                bool died = dies(slice, reaper, reaper_step);
                disturb(slice, disturbed);
                weir_reap(slice);
                expect_only_ours(slice);
                deaths++;
                if (!died)
                    break;
                REQUIRE(dies(slice, victim, step));
            } while (++reaper_step);
            weir_reap(slice);
        }
        weir_reap(slice);
        expect_only_ours(slice);
    }
    printf("%ld\n", deaths);
    return 0;
}
