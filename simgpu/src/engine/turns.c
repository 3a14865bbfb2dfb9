/*
 * The compute engine of one card, and how processes take turns on it.
 *
 * It belongs to one process at a time, for turns of 2 ms, round robin over the processes that have a kernel
 * ready; while two or more compete, switching costs a tenth of the time. To turn from a process that has nothing
 * more to run to another takes a moment, in which the card counts as busy. The kernels of one process run one
 * after another, the more urgent stream first, then the one that waited longest: a simulated kernel fills its
 * card, so running two beside each other would create work from nothing. A turn may end inside a kernel,
 * which goes on in the next. A process alone keeps its turn, and a newcomer waits for that turn's end only.
 *
 * Invariant: whoever changes what runs or who competes calls sim_device_progress first.
 */
#include "timeline.h"

/* When the engine works for whom it runs: it may be turning to him still. */
static uint64_t works_from(const struct sim_device *device)
{
    return device->exchanged > device->clock ? device->exchanged : device->clock;
}

static uint64_t rate(const struct sim_model *model, const struct sim_device *device)
{
    return device->competitors > 1 ? model->contended_permille : 1000;
}

/* Credit the running kernel with the time since the card's clock. Call before anything on the card changes. */
void sim_device_progress(struct sim_state *machine, const struct sim_model *model, uint32_t d, uint64_t now)
{
    struct sim_device *device = &machine->devices[d];
    if (device->running != SIM_NONE && now > device->clock) {
        struct sim_channel *channel = &machine->channels[device->running];
        uint64_t from = works_from(device) < now ? works_from(device) : now;
        sim_history_add(&device->history, device->clock, from);
        uint64_t scaled = (now - from) * rate(model, device) + device->remainder;
        uint64_t work = scaled / 1000;
        device->remainder = scaled % 1000;
        work = work < channel->remaining ? work : channel->remaining;
        channel->remaining -= work;
        struct sim_process *process = &machine->processes[channel->process];
        sim_history_add(&process->device[d].history, from, from + work);
        sim_history_add(&device->history, from, from + work);
    }
    device->clock = now;
}

/* Which of two ready channels goes first: the next process in turn, then the urgent, then the older. */
static bool precedes(const struct sim_channel *a, const struct sim_channel *b, uint32_t turn)
{
    uint32_t turn_a = (a->process + SIM_PROCESSES - turn) % SIM_PROCESSES;
    uint32_t turn_b = (b->process + SIM_PROCESSES - turn) % SIM_PROCESSES;
    if (turn_a != turn_b)
        return turn_a < turn_b;
    if (a->priority != b->priority)
        return a->priority < b->priority;
    return a->ready_at < b->ready_at;
}

bool sim_wants_engine(struct sim_channel *channel)
{
    return channel->started && sim_first_op(channel)->type == SIM_OP_KERNEL;
}

/* The engine is free: give it to the process whose turn it is, or to the next that has a kernel ready. */
void sim_turn_pick(struct sim_state *machine, const struct sim_model *model, struct sim_device *device)
{
    uint32_t turn = device->turn == SIM_NONE ? 0 : device->turn, best = SIM_NONE;
    for (uint32_t i = 0; i < device->active_count; i++) {
        struct sim_channel *channel = &machine->channels[device->active[i]];
        if (sim_wants_engine(channel) && (best == SIM_NONE || precedes(channel, &machine->channels[best], turn)))
            best = device->active[i];
    }
    device->running = best;
    device->remainder = 0;
    if (best == SIM_NONE)
        return;
    uint32_t process = machine->channels[best].process;
    if (process != device->resident && device->resident != SIM_NONE)
        device->exchanged = device->clock + model->exchange_ns;
    device->resident = process;
    if (process != device->turn || device->turn_ends <= device->clock) {
        device->turn = process;
        device->turn_ends = device->clock + model->turn_ns;
    }
}

/* The turn is over: the process after this one comes first in the next pick. What that costs is in the rate. */
void sim_turn_end(struct sim_device *device)
{
    device->turn = (device->turn + 1) % SIM_PROCESSES;
    device->turn_ends = device->clock; /* so that whoever is picked gets a whole one */
    device->running = device->resident = SIM_NONE;
}

uint64_t sim_turn_event(struct sim_state *machine, const struct sim_model *model, struct sim_device *device)
{
    if (device->running == SIM_NONE)
        return UINT64_MAX;
    uint64_t permille = rate(model, device), remaining = machine->channels[device->running].remaining;
    uint64_t thousandths = remaining * 1000;
    thousandths = thousandths > device->remainder ? thousandths - device->remainder : 0;
    uint64_t ends = works_from(device) + (thousandths + permille - 1) / permille;
    if (device->competitors > 1 && device->turn_ends < ends)
        return device->turn_ends > device->clock ? device->turn_ends : device->clock;
    return ends;
}
