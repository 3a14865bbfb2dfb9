/*
 * An operation that a handler on an alternate stack interrupts at any step, which makes one of its own and returns, or
 * jumps out of it; in a thread whose own stack lies below that one, or above. Addresses then say nothing of who is
 * further out.
 *
 * Always: the sequence of an intent never goes back, as it would where the operation that goes on had been taken for
 * abandoned. After each step one operation more is made, from where the first was: nothing is under way then, and the
 * slot says what the device says.
 *
 *   ledger_stacks below|above     prints how many handlers ran
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <setjmp.h>
#include <string.h>
#include <sys/mman.h>

#include "ledger_world.h"

#define STACK (1 << 20)

static const struct weir_slice *slice;
static uint32_t slot;
static char *stacks; /* two: one is the thread's own */
static sigjmp_buf program;
static long steps_left, inner_steps_left; /* until the signal comes; until its handler is left, 0: never */
static bool in_handler;
static long handlers;

static void take(void)
{
    REQUIRE(weir_ledger_take(slice, slot, 0, WEIR_KIND_BUFFER, MIB, WEIR_NO_LIMIT));
}

static void handle(int signal)
{
    (void)signal;
    handlers++;
    in_handler = true;
    take();
    in_handler = false;
}

void ledger_step(void);

void ledger_step(void)
{
    check_sequences(slice, slot);
    if (in_handler) {
        if (inner_steps_left > 0 && --inner_steps_left == 0)
            siglongjmp(program, 1);
    } else if (steps_left > 0 && --steps_left == 0) {
        raise(SIGUSR1);
    }
}

static void expect_even(void)
{
    REQUIRE(under_way(slice, slot) == 0);
    uint64_t used = weir_ledger_used(slice, 0);
    REQUIRE(used == slots_total(slice, 0) && used > 0 && used <= 3 * MIB);
    weir_ledger_give(slice, slot, 0, WEIR_KIND_BUFFER, used);
}

/* False: neither the signal nor the jump was to come so late. */
static bool attempt(volatile long step, volatile long inner)
{
    volatile bool jumped = true;
    steps_left = step;
    inner_steps_left = inner;
    in_handler = false;
    if (sigsetjmp(program, 1) == 0) {
        take();
        jumped = false;
    }
    bool came = steps_left == 0 && (jumped || !inner);
    steps_left = in_handler = 0;
    take();
    expect_even();
    return came;
}

static void *everywhere(void *alternate)
{
    stack_t stack = {.ss_sp = alternate, .ss_size = STACK};
    REQUIRE(sigaltstack(&stack, NULL) == 0);
    for (long step = 1; attempt(step, 0); step++)
        for (long inner = 1; attempt(step, inner); inner++)
            ;
    return NULL;
}

int main(int argc, char **argv)
{
    REQUIRE(argc == 2);
    bool below = strcmp(argv[1], "below") == 0;
    slice = weir_slice();
    REQUIRE(slice && weir_slot(slice) >= 0);
    slot = (uint32_t)weir_slot(slice);
    stacks = mmap(NULL, 2 * STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(stacks != MAP_FAILED);
    sigaction(SIGUSR1, &(struct sigaction){.sa_handler = handle, .sa_flags = SA_ONSTACK}, NULL);
    pthread_t thread;
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    REQUIRE(pthread_attr_setstack(&attributes, below ? stacks : stacks + STACK, STACK) == 0);
    REQUIRE(pthread_create(&thread, &attributes, everywhere, below ? stacks + STACK : stacks) == 0);
    pthread_join(thread, NULL);
    printf("%ld\n", handlers);
    return 0;
}
