/*
 * A simulated machine in virtual time, in this process only: channels, operations pushed at chosen moments.
 *
 * For programs that are compiled together with the engine's own sources. No clock is read.
 */
#ifndef VIRTUAL_H
#define VIRTUAL_H

#include "check.h"
#include "timeline.h"
#include "state.h"

#include <sys/mman.h>

#define MS UINT64_C(1000000)
#define START UINT64_C(1000000000)
#define EXCHANGE (sim_hardware->exchange_ns)

static inline void machine_with(uint32_t cards)
{
    uint32_t unused;
    sim_hardware = sim_model_find("h200", &unused);
    sim_machine = mmap(NULL, sizeof(*sim_machine), PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    REQUIRE(sim_machine != MAP_FAILED);
    sim_state_initialise(sim_machine, cards, START);
    sim_machine->process_limit = 8;
    for (uint32_t p = 0; p < 8; p++)
        sim_machine->processes[p].in_use = 1;
}

static inline void advance(uint64_t to)
{
    sim_advance(sim_machine, sim_hardware, START + to);
}

static inline uint32_t channel(uint32_t process)
{
    return sim_channel_create(process, 0, 0, 1);
}

static inline struct sim_ticket push(uint32_t where, enum sim_op_type type, uint64_t duration, uint64_t at)
{
    struct sim_op op = {.type = type, .duration = duration};
    advance(at);
    return sim_channel_push(where, &op, START + at);
}

/* Records an event behind what is queued; `when` tells when it was reached. */
static inline uint32_t record(uint32_t where, uint64_t at)
{
    uint32_t event = sim_event_create(0);
    advance(at);
    sim_event_record(event, where, START + at);
    return event;
}

static inline uint64_t when(uint32_t event)
{
    REQUIRE(sim_event_done(event));
    return sim_machine->events[event].time - START;
}

static inline uint64_t work_of(uint32_t process)
{
    return sim_machine->processes[process].device[0].history.total;
}

/* A kernel ends at a whole nanosecond, so a turn at nine tenths of the speed loses up to one for each. */
static inline void about(uint64_t have, uint64_t want)
{
    REQUIRE(have <= want && have + 1000 > want);
}

#endif
