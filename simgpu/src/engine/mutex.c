/*
 * The machine's one lock, and what is done when somebody died holding it.
 *
 * Whoever has it has also brought the cards up to the present. A process killed inside leaves the lock marked;
 * the next one rebuilds all that is derived, forgets the dead, and goes on. What it does not do: protect
 * anything that belongs to one process alone.
 */
#include "state.h"
#include "timeline.h"

#include <errno.h>
#include <time.h>

#define REAP_INTERVAL_NS UINT64_C(50000000) /* how long a killed process's work may stay on a card unseen */

uint64_t sim_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

uint64_t sim_lock(void)
{
    if (pthread_mutex_lock(&sim_machine->mutex) == EOWNERDEAD) {
        pthread_mutex_consistent(&sim_machine->mutex);
        sim_machine->repairs++;
        uint64_t now = sim_now();
        sim_timeline_rebuild(sim_machine, sim_hardware, now);
        sim_reap_at(now);
    }
    uint64_t now = sim_now();
    sim_advance(sim_machine, sim_hardware, now);
    if (now - sim_machine->last_reap > REAP_INTERVAL_NS)
        sim_reap_at(now);
    return now;
}

void sim_unlock(void)
{
    pthread_mutex_unlock(&sim_machine->mutex);
}
