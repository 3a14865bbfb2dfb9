/*
 * Host functions: queued in a channel, run by one helper thread of the process that queued them.
 *
 * Whoever advances the cards to a host function wakes its process's helper, which runs it outside the lock and
 * then lets the channel go on. The thread starts with the first one and takes no signals. While functions are
 * queued it also advances the cards itself, for nobody else may look.
 */
#include "timeline.h"

#include <limits.h>
#include <linux/futex.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t starting = PTHREAD_MUTEX_INITIALIZER;
static bool started;

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
    uint64_t wait = forever || sim_machine->next_event <= now ? 20000 : sim_machine->next_event - now;
    struct timespec timeout = {(time_t)(wait / 1000000000), (long)(wait % 1000000000)};
    sim_unlock();
    syscall(SYS_futex, &process->wake, FUTEX_WAIT, seen, forever ? NULL : &timeout, NULL, 0);
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
    pthread_mutex_lock(&starting);
    int error = 0;
    if (!started) {
        sigset_t all, before;
        pthread_t thread;
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before);
        error = pthread_create(&thread, NULL, helper, NULL);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
        started = error == 0;
        if (started)
            pthread_detach(thread);
    }
    pthread_mutex_unlock(&starting);
    return -error;
}

struct sim_ticket sim_host_push(uint32_t channel, void (*function)(void *), void *argument, uint64_t now)
{
    struct sim_op op = {.type = SIM_OP_HOST,
                        .function = (uint64_t)(uintptr_t)function,
                        .argument = (uint64_t)(uintptr_t)argument};
    struct sim_process *process = sim_self();
    process->host_queued++;
    process->wake++; /* the helper must now look by itself */
    struct sim_ticket ticket = sim_channel_push(channel, &op, now);
    syscall(SYS_futex, &process->wake, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
    return ticket;
}
