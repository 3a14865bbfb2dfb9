/*
 * Events: a point in a channel that others wait for, with the time at which it was passed.
 *
 * Each record gets the next number; a wait is for the number that was newest when it was queued, so recording
 * an event again never moves what already waits. A slot is free again once it is destroyed and no queue
 * names it. What it does not do: know which events time and which do not.
 */
#include "timeline.h"

#include <string.h>

uint32_t sim_event_create(uint32_t process)
{
    for (uint32_t n = 0; n < SIM_EVENTS; n++) {
        uint32_t i = (sim_machine->event_hint + n) % SIM_EVENTS;
        struct sim_event *event = &sim_machine->events[i];
        if (event->in_use)
            continue;
        memset(event, 0, sizeof(*event));
        event->process = process;
        event->serial = ++sim_machine->event_serial;
        event->in_use = 1;
        sim_machine->event_hint = (i + 1) % SIM_EVENTS;
        if (sim_machine->event_limit <= i)
            sim_machine->event_limit = i + 1;
        return i;
    }
    return SIM_NONE;
}

static void free_if_unused(struct sim_state *machine, uint32_t event)
{
    if (!machine->events[event].destroyed || machine->events[event].references > 0)
        return;
    machine->events[event].in_use = 0;
    machine->event_hint = event; /* few slots, often used, keep the file small */
}

void sim_event_unreference(struct sim_state *machine, uint32_t event)
{
    machine->events[event].references--;
    free_if_unused(machine, event);
}

void sim_event_destroy_in(struct sim_state *machine, uint32_t event)
{
    machine->events[event].destroyed = 1;
    free_if_unused(machine, event);
}

void sim_event_destroy(uint32_t event)
{
    sim_event_destroy_in(sim_machine, event);
}

struct sim_ticket sim_event_record(uint32_t index, uint32_t channel, uint64_t now)
{
    struct sim_event *event = &sim_machine->events[index];
    struct sim_op op = {.type = SIM_OP_RECORD, .target = index, .sequence = event->recorded + 1};
    event->recorded++;
    event->channel = channel;
    event->generation = sim_machine->channels[channel].generation;
    event->position = sim_machine->channels[channel].submitted + 1;
    return sim_channel_push(channel, &op, now);
}

void sim_event_wait(uint32_t index, uint32_t channel, uint64_t now)
{
    struct sim_event *event = &sim_machine->events[index];
    struct sim_op op = {.type = SIM_OP_WAIT_EVENT, .target = index, .sequence = event->recorded};
    if (event->reached < event->recorded)
        sim_channel_push(channel, &op, now);
}

bool sim_event_done(uint32_t event)
{
    return sim_machine->events[event].reached >= sim_machine->events[event].recorded;
}
