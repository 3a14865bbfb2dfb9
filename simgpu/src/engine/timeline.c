/*
 * How the cards get from one moment to the next: a discrete-event model, advanced by whoever holds the lock.
 *
 * Each channel runs its operations in order. Kernels share their card's compute engine (turns.c); copies run
 * beside them; records, waits and marks take no time of their own.
 *
 * Invariant: everything up to `now` has happened, in order of time, on all cards, and nothing after it. The
 * cost is constant for each operation and each turn. What it does not do: read a clock, or wake anybody but
 * the helper threads of a process whose host function or word is due.
 */
#include "timeline.h"

/* ---- channels: beginning and ending operations ---- */

static void count_runnable(struct sim_state *machine, struct sim_channel *channel, int change)
{
    uint32_t *runnable = &machine->processes[channel->process].device[channel->device].runnable;
    struct sim_device *device = &machine->devices[channel->device];
    if (change > 0 && (*runnable)++ == 0)
        device->competitors++;
    if (change < 0 && --*runnable == 0)
        device->competitors--;
}

static bool channel_reached(const struct sim_state *machine, const struct sim_op *op)
{
    const struct sim_channel *target = &machine->channels[op->target];
    return target->generation != op->generation || target->completed >= op->sequence;
}

/* Begin the first operation. True when it is over at once. */
static bool begin(struct sim_state *machine, struct sim_channel *channel, uint64_t now)
{
    struct sim_op *op = sim_first_op(channel);
    channel->started = 1;
    channel->ready_at = now;
    switch (op->type) {
    case SIM_OP_KERNEL:
        channel->remaining = op->duration;
        count_runnable(machine, channel, +1);
        return false;
    case SIM_OP_COPY:
        channel->finish_at = now + op->duration;
        return op->duration == 0;
    case SIM_OP_RECORD:
        machine->events[op->target].time = now;
        machine->events[op->target].reached = op->sequence;
        machine->rescan |= machine->events[op->target].waiters > 0;
        return true;
    case SIM_OP_WAIT_EVENT:
        if (machine->events[op->target].reached >= op->sequence)
            return true;
        machine->events[op->target].waiters++;
        return false;
    case SIM_OP_WAIT_CHANNEL:
        if (channel_reached(machine, op))
            return true;
        machine->channels[op->target].waiters++;
        return false;
    case SIM_OP_HOST:
        sim_wake_process(&machine->processes[channel->process]);
        return false;
    case SIM_OP_WAIT_VALUE:
    case SIM_OP_WRITE_VALUE:
        if (channel->process == sim_self_index() && sim_word_try(op))
            return true;
        sim_wake_process(&machine->processes[channel->process]);
        return false;
    default:
        return true;
    }
}

static void pop(struct sim_state *machine, struct sim_channel *channel)
{
    struct sim_op *op = sim_first_op(channel);
    if (op->type == SIM_OP_RECORD || op->type == SIM_OP_WAIT_EVENT)
        sim_event_unreference(machine, op->target);
    channel->words -= sim_is_word_op(op);
    channel->done_ns += op->duration;
    channel->started = 0;
    channel->completed++;
    machine->rescan |= channel->waiters > 0;
}

void sim_channel_deactivate(struct sim_state *machine, struct sim_channel *channel)
{
    struct sim_device *device = &machine->devices[channel->device];
    uint32_t index = (uint32_t)(channel - machine->channels);
    for (uint32_t i = 0; i < device->active_count; i++)
        if (device->active[i] == index) {
            device->active[i] = device->active[--device->active_count];
            break;
        }
    channel->active = 0;
}

/* Begin operations until one takes time or none is left. */
void sim_channel_run(struct sim_state *machine, struct sim_channel *channel, uint64_t now)
{
    while (channel->completed < channel->submitted && begin(machine, channel, now))
        pop(machine, channel);
    if (channel->completed < channel->submitted)
        return;
    if (channel->active)
        sim_channel_deactivate(machine, channel);
    if (channel->orphan)
        sim_channel_retire(machine, channel);
}

void sim_channel_finish(struct sim_state *machine, struct sim_channel *channel, uint64_t now)
{
    if (sim_wants_engine(channel)) {
        count_runnable(machine, channel, -1);
        struct sim_device *device = &machine->devices[channel->device];
        if (device->running == (uint32_t)(channel - machine->channels))
            device->running = SIM_NONE;
    }
    pop(machine, channel);
    sim_channel_run(machine, channel, now);
}

/* ---- all cards ---- */

/* Is the first operation one that waits, and has what it waits for been reached? */
static bool released(struct sim_state *machine, struct sim_channel *channel)
{
    struct sim_op *op = sim_first_op(channel);
    if (!channel->started)
        return false;
    if (op->type == SIM_OP_WAIT_EVENT && machine->events[op->target].reached >= op->sequence) {
        machine->events[op->target].waiters--;
        return true;
    }
    if (op->type == SIM_OP_WAIT_CHANNEL && channel_reached(machine, op)) {
        if (machine->channels[op->target].generation == op->generation)
            machine->channels[op->target].waiters--;
        return true;
    }
    return false;
}

/* Backwards, because a channel that runs dry leaves the list and the last one takes its place. */
static void release_waiters(struct sim_state *machine, const struct sim_model *model, uint32_t d, uint64_t now)
{
    struct sim_device *device = &machine->devices[d];
    for (uint32_t i = device->active_count; i-- > 0;) {
        struct sim_channel *channel = &machine->channels[device->active[i]];
        if (!released(machine, channel))
            continue;
        sim_device_progress(machine, model, d, now);
        sim_channel_finish(machine, channel, now);
    }
}

/* After any change at `now`: let go what was waiting, keep every engine busy, find the next event. */
void sim_timeline_settle(struct sim_state *machine, const struct sim_model *model, uint64_t now)
{
    while (machine->rescan) {
        machine->rescan = 0;
        for (uint32_t d = 0; d < machine->device_count; d++)
            release_waiters(machine, model, d, now);
    }
    machine->next_event = UINT64_MAX;
    for (uint32_t d = 0; d < machine->device_count; d++) {
        struct sim_device *device = &machine->devices[d];
        if (device->running == SIM_NONE && device->competitors > 0) {
            sim_device_progress(machine, model, d, now);
            sim_turn_pick(machine, model, device);
        }
        device->next_event = sim_turn_event(machine, model, device);
        for (uint32_t i = 0; i < device->active_count; i++) {
            struct sim_channel *channel = &machine->channels[device->active[i]];
            bool copying = channel->started && sim_first_op(channel)->type == SIM_OP_COPY;
            if (copying && channel->finish_at < device->next_event)
                device->next_event = channel->finish_at;
        }
        if (device->next_event < machine->next_event)
            machine->next_event = device->next_event;
    }
}

/* What is due on one card at `now`: a kernel's end, copies' ends, the end of a turn. */
static void step(struct sim_state *machine, const struct sim_model *model, uint32_t d, uint64_t now)
{
    struct sim_device *device = &machine->devices[d];
    sim_device_progress(machine, model, d, now);
    if (device->running != SIM_NONE && machine->channels[device->running].remaining == 0)
        sim_channel_finish(machine, &machine->channels[device->running], now);
    for (uint32_t i = device->active_count; i-- > 0;) {
        struct sim_channel *channel = &machine->channels[device->active[i]];
        if (channel->started && sim_first_op(channel)->type == SIM_OP_COPY && channel->finish_at <= now)
            sim_channel_finish(machine, channel, now);
    }
    if (device->competitors > 1 && device->turn_ends <= now)
        sim_turn_end(device);
}

void sim_advance(struct sim_state *machine, const struct sim_model *model, uint64_t now)
{
    while (machine->next_event <= now) {
        uint64_t when = machine->next_event;
        for (uint32_t d = 0; d < machine->device_count; d++)
            if (machine->devices[d].next_event <= when)
                step(machine, model, d, when);
        sim_timeline_settle(machine, model, when);
    }
    for (uint32_t d = 0; d < machine->device_count; d++)
        sim_device_progress(machine, model, d, now);
}
