/*
 * Host functions: queued in a channel, run by one helper thread of the process that queued them.
 *
 * Whoever advances the cards to a host function wakes its process's helper, which runs it outside the lock and
 * then lets the channel go on. The thread starts with the first one and takes no signals. While functions are
 * queued it also advances the cards itself, for nobody else may look.
 */
#include "timeline.h"


/* With the lock held: a channel of ours whose host function is due. */
static struct sim_channel *due(void)
{
    for (uint32_t c = 0; c < sim_machine->channel_limit; c++) {
        struct sim_channel *channel = &sim_machine->channels[c];
        if (channel->in_use && channel->process == sim_self_index() && channel->started &&
            sim_first_op(channel)->type == SIM_OP_HOST && !channel->running_host)
            return channel;
    }
    return NULL;
}

static void run(struct sim_channel *channel)
{
    struct sim_op op = *sim_first_op(channel);
    uint32_t generation = channel->generation;
    channel->running_host = 1;
    sim_unlock();
    ((void (*)(void *))(uintptr_t)op.function)((void *)(uintptr_t)op.argument);
    uint64_t now = sim_lock();
    if (channel->generation != generation)
        return; /* its context was destroyed meanwhile */
    channel->running_host = 0;
    sim_self()->host_queued--;
    sim_device_progress(sim_machine, sim_hardware, channel->device, now);
    sim_channel_finish(sim_machine, channel, now);
    sim_timeline_settle(sim_machine, sim_hardware, now);
}

/* With the lock held, and given back: sleep until an operation is due, or something may have happened. */
static void rest(uint64_t now)
{
    struct sim_process *process = sim_self();
    uint32_t seen = process->wake;
    bool forever = process->host_queued == 0 || sim_machine->next_event == UINT64_MAX;
    uint64_t next = sim_machine->next_event > now ? sim_machine->next_event : now + 20000;
    sim_unlock();
    sim_process_sleep(process, seen, now, forever ? UINT64_MAX : next);
}

static void *helper(void *unused)
{
    (void)unused;
    for (;;) {
        uint64_t now = sim_lock();
        struct sim_channel *channel = due();
        if (channel) {
            run(channel);
            sim_unlock();
        } else {
            rest(now);
        }
    }
    return NULL;
}

int sim_host_start(void)
{
    static struct sim_helper once = {.starting = PTHREAD_MUTEX_INITIALIZER, .run = helper};
    return sim_helper_start(&once);
}

struct sim_ticket sim_host_push(uint32_t channel, void (*function)(void *), void *argument, uint64_t now)
{
    struct sim_op op = {.type = SIM_OP_HOST,
                        .function = (uint64_t)(uintptr_t)function,
                        .argument = (uint64_t)(uintptr_t)argument};
    struct sim_process *process = sim_self();
    process->host_queued++;
    struct sim_ticket ticket = sim_channel_push(channel, &op, now);
    sim_wake_process(process); /* the helper must now look by itself */
    return ticket;
}
