/*
 * Processes of several threads take and give at once while a parent kills them in the middle, hundreds of times.
 * At every look the sum stays within the limit; when the storm is over, the sum is what the living say they hold,
 * to the byte; and when they are gone too, it is 0.
 *
 *   ledger_storm KILLS     prints the number of slots taken back
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "ledger_world.h"

#define CHILDREN 4
#define THREADS 3
#define LIMIT (256 * MIB)
#define ROUNDS_BETWEEN_KILLS 40

static struct shared {
    _Atomic bool stop;
    _Atomic int resting;             /* threads that have stopped, and hold what they say */
    _Atomic uint64_t held[CHILDREN];
    _Atomic uint64_t rounds;
} *shared;

static uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    return *state ^= *state << 17;
}

struct worker {
    const struct weir_slice *slice;
    int child;
    uint64_t seed;
};

static void *work(void *argument)
{
    struct worker *worker = argument;
    const struct weir_slice *slice = worker->slice;
    uint32_t slot = (uint32_t)weir_slot(slice);
    uint64_t held = 0;
    while (!atomic_load(&shared->stop)) {
        uint64_t bytes = (next_random(&worker->seed) % 64 + 1) * MIB;
        if (held && next_random(&worker->seed) % 2) {
            weir_ledger_give(slice, slot, 0, WEIR_KIND_BUFFER, held);
            held = 0;
        } else if (weir_ledger_take(slice, slot, 0, WEIR_KIND_BUFFER, bytes, LIMIT)) {
            held += bytes;
        }
        atomic_fetch_add(&shared->rounds, 1);
    }
    atomic_fetch_add(&shared->held[worker->child], held);
    atomic_fetch_add(&shared->resting, 1);
    pause();
    return NULL;
}

static pid_t start(int child, uint64_t seed)
{
    pid_t pid = fork();
    REQUIRE(pid >= 0);
    if (pid)
        return pid;
    struct worker workers[THREADS];
    const struct weir_slice *slice = weir_slice();
    REQUIRE(slice && weir_slot(slice) >= 0);
    for (int i = 0; i < THREADS; i++) {
        pthread_t thread;
        workers[i] = (struct worker){slice, child, seed + (uint64_t)i + 1};
        REQUIRE(pthread_create(&thread, NULL, work, &workers[i]) == 0);
    }
    for (;;)
        pause();
}

/* Waits until the workers have got so far, looking at the limit meanwhile. */
static void watch(const struct weir_slice *slice, uint64_t until)
{
    while (atomic_load(&shared->rounds) < until) {
        REQUIRE(weir_ledger_used(slice, 0) <= LIMIT);
        nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
    }
}

static void end(pid_t pid)
{
    REQUIRE(kill(pid, SIGKILL) == 0);
    REQUIRE(waitpid(pid, NULL, 0) == pid);
}

int main(int argc, char **argv)
{
    int kills = argc > 1 ? atoi(argv[1]) : 0;
    uint64_t random = 88172645463325252u, total = 0;
    pid_t children[CHILDREN];
    const struct weir_slice *slice = weir_slice();
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    REQUIRE(kills > 0 && slice && shared != MAP_FAILED);
    for (int i = 0; i < CHILDREN; i++)
        children[i] = start(i, next_random(&random));
    for (int i = 0; i < kills; i++) {
        watch(slice, atomic_load(&shared->rounds) + next_random(&random) % ROUNDS_BETWEEN_KILLS);
        int victim = (int)(next_random(&random) % CHILDREN);
        end(children[victim]);
        children[victim] = start(victim, next_random(&random));
    }
    atomic_store(&shared->stop, true);
    while (atomic_load(&shared->resting) < CHILDREN * THREADS)
        nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
    weir_reap(slice);
    for (int i = 0; i < CHILDREN; i++)
        total += atomic_load(&shared->held[i]);
    REQUIRE(weir_ledger_used(slice, 0) == total);
    REQUIRE(slots_total(slice, 0) == total);
    for (int i = 0; i < CHILDREN; i++)
        end(children[i]);
    weir_reap(slice);
    REQUIRE(weir_ledger_used(slice, 0) == 0 && slots_total(slice, 0) == 0);
    REQUIRE(atomic_load(&weir_stats_device(slice, 0)->hook_errors) == 0);
    printf("%lu\n", (unsigned long)atomic_load(&slice->stats->reaped));
    return 0;
}
