/*
 * After a process died holding the lock: everything that is derived, made anew from what is not.
 *
 * What counts are the queues (an operation is in one once `submitted` says so, out of it once `completed`
 * does) and each process's memory. Lists, counters and sums follow from them. An operation that had begun
 * begins again, but a kernel keeps the work already done. What it does not do: judge who is alive.
 */
#include "timeline.h"

static void clear(struct sim_state *machine, uint64_t now)
{
    for (uint32_t d = 0; d < machine->device_count; d++) {
        struct sim_device *device = &machine->devices[d];
        device->used = 0;
        device->competitors = device->active_count = 0;
        device->running = SIM_NONE;
        device->clock = now;
        for (uint32_t p = 0; p < machine->process_limit; p++) {
            struct sim_process_device *held = &machine->processes[p].device[d];
            held->runnable = 0;
            for (int kind = 0; kind < SIM_MEMORY_KINDS && machine->processes[p].in_use; kind++)
                device->used += held->memory[kind];
        }
    }
    for (uint32_t e = 0; e < machine->event_limit; e++)
        machine->events[e].waiters = machine->events[e].references = 0;
    for (uint32_t p = 0; p < machine->process_limit; p++)
        machine->processes[p].host_queued = 0;
}

/* Sums and references of one queue. */
static void recount(struct sim_state *machine, struct sim_channel *channel)
{
    uint64_t left = 0;
    channel->active = channel->waiters = channel->running_host = channel->words = 0;
    for (uint64_t n = channel->completed; n < channel->submitted; n++) {
        struct sim_op *op = &channel->ops[n % SIM_QUEUE];
        left += op->duration;
        channel->words += sim_is_word_op(op);
        if (op->type == SIM_OP_RECORD || op->type == SIM_OP_WAIT_EVENT)
            machine->events[op->target].references++;
        if (op->type == SIM_OP_HOST)
            machine->processes[channel->process].host_queued++;
    }
    channel->done_ns = channel->queued_ns - left;
}

static void restart(struct sim_state *machine, struct sim_channel *channel, uint64_t now)
{
    struct sim_device *device = &machine->devices[channel->device];
    uint64_t kept = channel->started ? channel->remaining : UINT64_MAX;
    channel->started = 0;
    if (channel->completed == channel->submitted)
        return;
    uint64_t first = channel->completed;
    device->active[device->active_count++] = (uint32_t)(channel - machine->channels);
    channel->active = 1;
    sim_channel_run(machine, channel, now);
    if (channel->completed == first && sim_wants_engine(channel) && kept < channel->remaining)
        channel->remaining = kept;
}

void sim_timeline_rebuild(struct sim_state *machine, const struct sim_model *model, uint64_t now)
{
    clear(machine, now);
    for (uint32_t c = 0; c < machine->channel_limit; c++)
        if (machine->channels[c].in_use)
            recount(machine, &machine->channels[c]);
    for (uint32_t c = 0; c < machine->channel_limit; c++)
        if (machine->channels[c].in_use)
            restart(machine, &machine->channels[c], now);
    machine->rescan = 1;
    sim_timeline_settle(machine, model, now);
}
