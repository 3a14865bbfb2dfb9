/*
 * Words in memory that a channel waits for or writes: cuStreamWaitValue, cuStreamWriteValue.
 *
 * A word lies in its owner's address space, so only the owner can look at it, whoever advances the cards. It
 * does so when it advances them itself, and by a watcher thread, which starts with the first such operation:
 * woken when one is due, it does the writes and looks at the awaited words until each has its value. While it
 * has nothing to look at it sleeps. What it does not do: notice a value that was there between two looks only,
 * or touch memory that has been unmapped: a wait for such a word never ends.
 */
#define _GNU_SOURCE /* process_vm_readv */
#include "timeline.h"

#include <errno.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <unistd.h>

#define SHARE_NS UINT64_C(10000) /* between two looks, for each process that waits: all share the host's cores */
#define AGE_NS UINT64_C(50000000) /* a wait that has lasted longer may be seen to end by a thousandth of it late */
#define LOOK_NS UINT64_C(1000000) /* how long the cards may go unadvanced while an operation is to come */

/* ---- one word ---- */

static uint64_t width(const struct sim_op *op)
{
    return op->flags & SIM_WORD_64 ? 8 : 4;
}

/* False: there is no memory any more. The kernel reads it, which fails there instead of faulting; where it is not
 * allowed to (a sandbox), the word is read as it is. */
static bool read_word(const struct sim_op *op, uint64_t *value)
{
    void *word = (void *)(uintptr_t)op->function;
    struct iovec here = {value, width(op)}, there = {word, width(op)};
    *value = 0;
    if (process_vm_readv(getpid(), &here, 1, &there, 1, 0) == (ssize_t)width(op))
        return true;
    if (errno == EFAULT)
        return false;
    *value = width(op) == 8 ? __atomic_load_n((uint64_t *)word, __ATOMIC_SEQ_CST)
                            : __atomic_load_n((uint32_t *)word, __ATOMIC_SEQ_CST);
    return true;
}

static void write_word(const struct sim_op *op)
{
    void *word = (void *)(uintptr_t)op->function;
    uint64_t before;
    if (!read_word(op, &before))
        return;
    if (width(op) == 8)
        __atomic_store_n((uint64_t *)word, op->argument, __ATOMIC_SEQ_CST);
    else
        __atomic_store_n((uint32_t *)word, (uint32_t)op->argument, __ATOMIC_SEQ_CST);
}

static bool meets(uint32_t flags, uint64_t word, uint64_t value)
{
    bool wide = flags & SIM_WORD_64;
    switch (flags & SIM_WORD_CONDITION) {
    case SIM_WORD_EQUAL:
        return word == value;
    case SIM_WORD_AND:
        return (word & value) != 0;
    case SIM_WORD_NOR:
        return wide ? ~(word | value) != 0 : (uint32_t)~(word | value) != 0;
    default: /* cyclic: a counter may wrap */
        return wide ? (int64_t)(word - value) >= 0 : (int32_t)(uint32_t)(word - value) >= 0;
    }
}

static bool reached(const struct sim_op *op)
{
    uint64_t word;
    return read_word(op, &word) && meets(op->flags, word, op->argument);
}

bool sim_word_try(const struct sim_op *op)
{
    int saved = errno;
    bool done = op->type == SIM_OP_WRITE_VALUE || reached(op);
    if (op->type == SIM_OP_WRITE_VALUE)
        write_word(op);
    errno = saved;
    return done;
}

/* ---- the watcher ---- */

static struct sim_op awaited[SIM_CHANNELS]; /* of the watcher alone: what it looks at without the lock … */
static uint32_t awaited_count;
static uint32_t waiting_processes; /* … and how many processes do so */
static uint64_t youngest;          /* when the last of these waits began */
static uint64_t next_look;         /* when it must take the lock again, whatever the words are */

static bool due(struct sim_channel *channel)
{
    return channel->started && sim_is_word_op(sim_first_op(channel));
}

/* A channel's next such operation comes after what is queued before it, so the cards need no look earlier. */
static void foresee(uint32_t index, uint64_t now)
{
    struct sim_channel *channel = &sim_machine->channels[index];
    uint64_t n = channel->completed;
    while (n < channel->submitted && !sim_is_word_op(&channel->ops[n % SIM_QUEUE]))
        n++;
    uint64_t estimate = sim_ticket_estimate((struct sim_ticket){index, channel->generation, n}, now);
    uint64_t when = estimate > now ? estimate : now + LOOK_NS;
    next_look = when < next_look ? when : next_look;
}

/* End what can end of a channel of this process; whether anything did. */
static bool end_due(struct sim_channel *channel, uint64_t now)
{
    bool ended = false;
    while (due(channel) && sim_word_try(sim_first_op(channel))) {
        sim_device_progress(sim_machine, sim_hardware, channel->device, now);
        sim_channel_finish(sim_machine, channel, now);
        sim_timeline_settle(sim_machine, sim_hardware, now);
        ended = true;
    }
    return ended;
}

/* With the lock held: end what can end; note what is awaited, and when to look again. */
static void survey(uint64_t now)
{
    uint64_t waiting[SIM_PROCESSES / 64] = {0};
    bool ended = false;
    awaited_count = waiting_processes = 0;
    youngest = 0;
    next_look = UINT64_MAX;
    for (uint32_t c = 0; c < sim_machine->channel_limit; c++) {
        struct sim_channel *channel = &sim_machine->channels[c];
        if (!channel->in_use || channel->words == 0)
            continue;
        bool own = channel->process == sim_self_index();
        ended |= own && end_due(channel, now);
        if (due(channel))
            waiting[channel->process / 64] |= UINT64_C(1) << channel->process % 64;
        if (own && due(channel)) {
            awaited[awaited_count++] = *sim_first_op(channel);
            youngest = channel->ready_at > youngest ? channel->ready_at : youngest;
        } else if (own && channel->words > 0) {
            foresee(c, now);
        }
    }
    if (ended) /* who waits for a channel without knowing until when */
        sim_wake_process(sim_self());
    for (uint32_t i = 0; i < SIM_PROCESSES / 64; i++)
        waiting_processes += (uint32_t)__builtin_popcountll(waiting[i]);
}

static bool any_reached(void)
{
    for (uint32_t i = 0; i < awaited_count; i++)
        if (reached(&awaited[i]))
            return true;
    return false;
}

/* When to look at the awaited words again. Alone and early, at once: a card notices within a microsecond. */
static uint64_t next_glance(uint64_t now)
{
    uint64_t age = now > youngest ? now - youngest : 0;
    uint64_t nap = waiting_processes > 1 ? SHARE_NS * waiting_processes : 0;
    return now + nap + (age > AGE_NS ? age / 1000 : 0);
}

static void *watcher(void *unused)
{
    (void)unused;
    prctl(PR_SET_TIMERSLACK, 1);
    for (;;) {
        uint64_t now = sim_lock();
        struct sim_process *process = sim_self();
        uint32_t seen = process->wake;
        survey(now);
        sim_unlock();
        while (!sim_process_woken(process, seen) && now < next_look && !any_reached()) {
            uint64_t until = awaited_count ? next_glance(now) : next_look;
            if (until > now)
                sim_process_sleep(process, seen, now, until < next_look ? until : next_look);
            else
                sched_yield();
            now = sim_now();
        }
    }
    return NULL;
}

int sim_word_start(void)
{
    static struct sim_helper helper = {.starting = PTHREAD_MUTEX_INITIALIZER, .run = watcher};
    return sim_helper_start(&helper);
}
