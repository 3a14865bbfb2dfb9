/*
 * Waiting for the simulated card, without the lock and without burning a core.
 *
 * A ticket cannot be done before its estimate, so the caller sleeps until then and looks again; where other
 * processes slow it down the next estimate is nearer each time. Where no estimate exists (another process's
 * event, a host function, a word) the sleep grows from 20 µs to 500 µs, and ends when a word is reached.
 */
#include "timeline.h"

#include <time.h>

#define SHORTEST_NS UINT64_C(20000)
#define LONGEST_NS UINT64_C(500000)
#define ROOM (SIM_QUEUE / 8) /* a full queue is waited for until so many fit in: one sleep for many launches */

void sim_sleep_until(uint64_t when)
{
    struct timespec until = {(time_t)(when / 1000000000), (long)(when % 1000000000)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) != 0)
        ;
}

/* When to look again at something that is not done at `now`. */
static uint64_t next_look(uint64_t estimate, uint64_t now, uint64_t *patience)
{
    if (estimate > now + SHORTEST_NS / 4) {
        *patience = SHORTEST_NS;
        return estimate;
    }
    uint64_t when = now + *patience;
    *patience = *patience * 2 < LONGEST_NS ? *patience * 2 : LONGEST_NS;
    return when;
}

void sim_wait_ticket(struct sim_ticket ticket)
{
    uint64_t patience = SHORTEST_NS;
    for (;;) {
        uint64_t now = sim_lock();
        uint32_t seen = sim_self()->wake;
        bool done = sim_ticket_done(ticket);
        uint64_t estimate = sim_ticket_estimate(ticket, now);
        sim_unlock();
        if (done)
            return;
        uint64_t when = next_look(estimate, now, &patience);
        if (when == estimate)
            sim_sleep_until(when);
        else
            sim_process_sleep(sim_self(), seen, now, when);
    }
}

uint64_t sim_lock_with_room(uint32_t channel, uint32_t wanted)
{
    uint64_t now = sim_lock();
    while (sim_channel_full(channel, wanted)) {
        uint32_t room = wanted > ROOM ? wanted : ROOM;
        struct sim_ticket ticket = sim_channel_last(channel);
        ticket.position -= SIM_QUEUE - room;
        sim_unlock();
        sim_wait_ticket(ticket);
        now = sim_lock();
    }
    return now;
}
