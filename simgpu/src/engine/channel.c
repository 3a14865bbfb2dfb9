/*
 * Channels: queues of operations that run in order, and tickets for places in them.
 *
 * A channel's slot is given to somebody else only after its generation has changed, so an old ticket reads as
 * done and never as somebody else's work. Whoever pushes has made sure that there is room.
 * What it does not do: run anything (timeline.c) or wait (wait.c).
 */
#include "timeline.h"

#include <stddef.h>
#include <string.h>
#include <sys/mman.h>

static struct sim_channel *at(uint32_t channel)
{
    return &sim_machine->channels[channel];
}

uint32_t sim_channel_create(uint32_t process, uint32_t device, int32_t priority, uint64_t owner)
{
    for (uint32_t i = 0; i < SIM_CHANNELS; i++) {
        struct sim_channel *channel = at(i);
        if (channel->in_use)
            continue;
        uint32_t generation = channel->generation + 1;
        memset(channel, 0, offsetof(struct sim_channel, ops));
        channel->generation = generation;
        channel->process = process;
        channel->device = device;
        channel->priority = priority;
        channel->owner = owner;
        channel->in_use = 1;
        if (sim_machine->channel_limit <= i)
            sim_machine->channel_limit = i + 1;
        return i;
    }
    return SIM_NONE;
}

/* What queued operations hold goes with them: references to events, and their place among those who wait. */
static void forget_ops(struct sim_state *machine, struct sim_channel *channel)
{
    if (channel->started) {
        struct sim_op *op = sim_first_op(channel);
        if (op->type == SIM_OP_WAIT_EVENT)
            machine->events[op->target].waiters--;
        if (op->type == SIM_OP_WAIT_CHANNEL && machine->channels[op->target].generation == op->generation)
            machine->channels[op->target].waiters--;
    }
    for (uint64_t n = channel->completed; n < channel->submitted; n++) {
        struct sim_op *op = &channel->ops[n % SIM_QUEUE];
        if (op->type == SIM_OP_RECORD) /* nobody will: whoever waits for it must not wait for ever */
            machine->events[op->target].reached = op->sequence;
        if (op->type == SIM_OP_RECORD || op->type == SIM_OP_WAIT_EVENT)
            sim_event_unreference(machine, op->target);
        if (op->type == SIM_OP_HOST)
            machine->processes[channel->process].host_queued--;
    }
}

/* Its slot is free from now on, and every ticket for it is done. */
void sim_channel_retire(struct sim_state *machine, struct sim_channel *channel)
{
    if (channel->submitted > 0)
        madvise(channel->ops, sizeof(channel->ops), MADV_REMOVE);
    channel->generation++;
    channel->in_use = 0;
    machine->rescan = 1;
}

void sim_channel_drop(struct sim_state *machine, const struct sim_model *model, uint32_t index, uint64_t now)
{
    struct sim_channel *channel = &machine->channels[index];
    struct sim_device *device = &machine->devices[channel->device];
    sim_device_progress(machine, model, channel->device, now);
    if (sim_wants_engine(channel)) {
        struct sim_process *process = &machine->processes[channel->process];
        if (--process->device[channel->device].runnable == 0)
            device->competitors--;
    }
    if (device->running == index)
        device->running = SIM_NONE;
    forget_ops(machine, channel);
    if (channel->active)
        sim_channel_deactivate(machine, channel);
    channel->completed = channel->submitted;
    channel->started = 0;
    sim_channel_retire(machine, channel);
    sim_timeline_settle(machine, model, now);
}

void sim_channel_destroy(uint32_t channel, uint64_t now)
{
    if (sim_channel_idle(channel))
        sim_channel_abandon(channel, now);
    else
        at(channel)->orphan = 1;
}

void sim_channel_abandon(uint32_t channel, uint64_t now)
{
    sim_channel_drop(sim_machine, sim_hardware, channel, now);
}

bool sim_channel_idle(uint32_t channel)
{
    return at(channel)->completed == at(channel)->submitted;
}

bool sim_channel_full(uint32_t channel, uint32_t wanted)
{
    return at(channel)->submitted - at(channel)->completed + wanted > SIM_QUEUE;
}

struct sim_ticket sim_channel_last(uint32_t channel)
{
    return (struct sim_ticket){channel, at(channel)->generation, at(channel)->submitted};
}

uint32_t sim_channel_busy(uint32_t process, uint64_t owner, uint32_t start, struct sim_ticket *last)
{
    for (uint32_t i = start; i < sim_machine->channel_limit; i++) {
        const struct sim_channel *channel = at(i);
        if (channel->in_use && channel->process == process && channel->owner == owner && !sim_channel_idle(i)) {
            *last = sim_channel_last(i);
            return i + 1;
        }
    }
    return SIM_NONE;
}

struct sim_ticket sim_channel_push(uint32_t index, const struct sim_op *op, uint64_t now)
{
    struct sim_channel *channel = at(index);
    bool was_idle = sim_channel_idle(index);
    struct sim_op *slot = &channel->ops[channel->submitted % SIM_QUEUE];
    *slot = *op;
    channel->queued_ns += op->duration;
    slot->ends_at = channel->queued_ns;
    if (op->type == SIM_OP_RECORD || op->type == SIM_OP_WAIT_EVENT)
        sim_machine->events[op->target].references++;
    channel->words += sim_is_word_op(op);
    channel->submitted++;
    if (!was_idle && sim_is_word_op(op) && channel->words == 1)
        sim_wake_process(&sim_machine->processes[channel->process]); /* its watcher must now look by itself */
    if (!was_idle)
        return sim_channel_last(index);
    struct sim_device *device = &sim_machine->devices[channel->device];
    sim_device_progress(sim_machine, sim_hardware, channel->device, now);
    if (!channel->active) {
        device->active[device->active_count++] = index;
        channel->active = 1;
    }
    sim_channel_run(sim_machine, channel, now);
    sim_timeline_settle(sim_machine, sim_hardware, now);
    return sim_channel_last(index);
}

bool sim_ticket_done(struct sim_ticket ticket)
{
    const struct sim_channel *channel = at(ticket.channel);
    return channel->generation != ticket.generation || channel->completed >= ticket.position;
}

uint64_t sim_ticket_estimate(struct sim_ticket ticket, uint64_t now)
{
    if (sim_ticket_done(ticket) || ticket.position == 0)
        return now;
    struct sim_channel *channel = at(ticket.channel);
    struct sim_op *head = sim_first_op(channel);
    uint64_t left = channel->ops[(ticket.position - 1) % SIM_QUEUE].ends_at - channel->done_ns;
    if (channel->started && head->type == SIM_OP_KERNEL)
        left -= head->duration - channel->remaining;
    if (channel->started && head->type == SIM_OP_COPY && channel->finish_at > now)
        left -= head->duration - (channel->finish_at - now);
    return now + left;
}
