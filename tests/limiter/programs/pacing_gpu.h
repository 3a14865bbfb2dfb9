/*
 * The GPU of pacing_world.c, which alone includes this: queues of kernels and events, run event by event.
 *
 * One process has the GPU at a time; where others have work it loses it after a turn, in the middle of a
 * kernel if need be, and nothing runs while they are exchanged. Kernels of one process's streams overlap. A
 * kernel begins some time after its launch, and `gap_us` after its predecessor. What was really resident is
 * counted here, apart from the limiter.
 */
#ifndef PACING_GPU_H
#define PACING_GPU_H

#include "pacing_world.h"

#define NEVER UINT64_MAX
#define EVENTS 400000
#define QUEUE 1024                /* operations; then a launch blocks, as the driver's does */
#define SUBMIT (1600)             /* from a launch to its kernel's begin */
#define LINGER (10 * WEIR_US)     /* a process that is idle for longer loses the GPU to who has work … */
#define HAND_OVER (20 * WEIR_US)  /* … in that time: there is nothing to save */

struct op {
    uint64_t left;    /* ns; of a kernel */
    uint64_t soonest;
    unsigned event;   /* that is complete with it … */
    bool kernel;
    unsigned record;  /* … if it was not recorded anew since */
};

struct channel {
    struct op ops[QUEUE];
    unsigned head, count;
    uint64_t kernel_after, after; /* the last operation's end, with what the next has to wait */
};

typedef unsigned __int128 stream_mask;

static unsigned lowest(stream_mask mask)
{
    return (uint64_t)mask ? (unsigned)__builtin_ctzll((uint64_t)mask)
                          : 64 + (unsigned)__builtin_ctzll((uint64_t)(mask >> 64));
}

static struct {
    uint64_t now, turn_began;
    unsigned process;
    struct channel channels[TENANTS][STREAMS];
    stream_mask filled[TENANTS];
    uint64_t busy;
} gpu;

static uint64_t events[EVENTS]; /* when complete; NEVER: not yet */
static unsigned records[EVENTS];
static unsigned event_count = 1;

static unsigned new_event(void)
{
    if (event_count == EVENTS)
        abort(); /* they are not used again here; the limiter uses its own again */
    events[event_count] = NEVER;
    return event_count++;
}

static struct op *head(struct channel *channel) { return &channel->ops[channel->head]; }

static uint64_t ready(struct channel *channel)
{
    const struct op *op = head(channel);
    return later(op->soonest, op->kernel ? channel->kernel_after : channel->after);
}

/* When the process has something to run. */
static uint64_t process_ready(unsigned process)
{
    uint64_t first = NEVER;
    for (stream_mask filled = gpu.filled[process]; filled; filled &= filled - 1)
        first = sooner(first, ready(&gpu.channels[process][lowest(filled)]));
    return first;
}

static void finish(unsigned process, unsigned index)
{
    struct channel *channel = &gpu.channels[process][index];
    struct op *op = head(channel);
    const struct settings *card = &tenants[0].set;
    if (op->record == records[op->event])
        events[op->event] = gpu.now;
    channel->after = gpu.now;
    channel->kernel_after = gpu.now + (uint64_t)((op->kernel ? card->gap_us : card->mark_us) * 1e3);
    channel->head = (channel->head + 1) % QUEUE;
    if (--channel->count == 0)
        gpu.filled[process] &= ~((stream_mask)1 << index);
}

static uint64_t outside_slot(const struct settings *set, uint64_t start, uint64_t end)
{
    uint64_t frame = (uint64_t)(set->frame_us * 1e3), length = (uint64_t)(set->length_us * 1e3), sum = 0;
    for (uint64_t t = start; frame && t < end;) {
        uint64_t position = (t + frame - (uint64_t)(set->offset_us * 1e3)) % frame;
        uint64_t edge = position < length ? length - position : frame - position;
        uint64_t part = edge < end - t ? edge : end - t;
        sum += position < length ? 0 : part;
        t += part;
    }
    return sum;
}

/*
 * The card's own utilisation holds the change to a kernel that waited already, with an event between them or not; of
 * a gap that the host left, so much.
 */
static void count_residency(struct tenant *tenant, uint64_t waits_since, uint64_t start, uint64_t end)
{
    uint64_t gap = start - tenant->last_busy, change = (uint64_t)(tenants[0].set.gap_us * 1e3);
    bool fed = waits_since <= tenant->last_busy && gap < LINGER;
    tenant->last_busy = end;
    if (!tenant->from || end <= tenant->from)
        return;
    start = later(start, tenant->from);
    tenant->busy += end - start;
    tenant->smooth += end - start + (fed ? gap : sooner(gap, change));
    tenant->outside += outside_slot(&tenant->set, start, end);
    for (uint64_t t = start; t < end;) {
        uint64_t window = (t - tenant->from) / window_ns(), edge = tenant->from + (window + 1) * window_ns();
        uint64_t part = sooner(edge, end) - t;
        if (window < WINDOWS)
            tenant->window[window] += part;
        t += part;
    }
}

/* Whom the GPU turns to: the next in turn that has work now, or else who will have some first. */
static unsigned next_process(void)
{
    unsigned best = gpu.process;
    uint64_t first = NEVER;
    for (unsigned i = 1; i <= tenant_count; i++) {
        unsigned other = (gpu.process + i) % tenant_count;
        uint64_t at = later(process_ready(other), gpu.now);
        if (process_ready(other) != NEVER && at < first) {
            first = at;
            best = other;
        }
    }
    return best;
}

static void change_process(uint64_t takes)
{
    gpu.process = next_process();
    gpu.now += takes;
    gpu.turn_began = gpu.now;
}

static uint64_t others_ready(void)
{
    uint64_t first = NEVER;
    for (unsigned i = 0; i < tenant_count; i++)
        if (i != gpu.process)
            first = sooner(first, process_ready(i));
    return first;
}

/* Runs the current process until something changes, at most until `limit`. */
static void run_kernels(uint64_t limit)
{
    uint64_t step = limit, waits_since = NEVER;
    stream_mask running = 0;
    for (stream_mask filled = gpu.filled[gpu.process]; filled; filled &= filled - 1) {
        unsigned index = lowest(filled);
        struct channel *channel = &gpu.channels[gpu.process][index];
        bool begins = ready(channel) <= gpu.now;
        running |= begins ? (stream_mask)1 << index : 0;
        if (begins)
            waits_since = sooner(waits_since, head(channel)->soonest);
        step = sooner(step, begins ? gpu.now + head(channel)->left : ready(channel));
    }
    if (running && step > gpu.now)
        count_residency(&tenants[gpu.process], waits_since, gpu.now, step);
    uint64_t ran = step - gpu.now;
    gpu.now = step;
    for (; running; running &= running - 1) {
        unsigned index = lowest(running);
        struct op *op = head(&gpu.channels[gpu.process][index]);
        op->left -= op->kernel ? ran : 0;
        if (!op->left)
            finish(gpu.process, index);
    }
}

static bool somebody_may_go_on(void)
{
    for (unsigned i = 0; i < tenant_count; i++)
        if (tenants[i].waiting && events[tenants[i].waiting] != NEVER)
            return true;
    return false;
}

/* Lets the GPU run until then, or until an event comes for which a tenant waits. */
static void gpu_run(uint64_t until)
{
    while (gpu.now < until && !somebody_may_go_on()) {
        uint64_t mine = process_ready(gpu.process), others = others_ready();
        uint64_t turn_ends = gpu.turn_began + (uint64_t)(tenants[0].set.turn_us * 1e3);
        if (mine > gpu.now + LINGER && others < mine && others <= gpu.now)
            change_process(HAND_OVER);
        else if (others <= gpu.now && turn_ends <= gpu.now)
            change_process((uint64_t)(tenants[0].set.switch_us * 1e3));
        else if (mine > gpu.now)
            gpu.now = sooner(until, sooner(mine, later(others, mine > gpu.now + LINGER ? 0 : mine)));
        else
            run_kernels(sooner(until, others == NEVER ? NEVER : later(others, later(turn_ends, gpu.now + 1))));
    }
}

static void gpu_catch_up(void)
{
    if (gpu.now < me->now)
        gpu_run(me->now);
}

/* ---- waiting, and who runs ---- */

static void await(unsigned event)
{
    gpu_catch_up();
    if (events[event] != NEVER)
        return;
    me->waiting = event;
    yield();
}

static void enqueue(CUstream stream, struct op op)
{
    unsigned index = (uintptr_t)stream >> 8 & (STREAMS - 1), number = (unsigned)(process() - tenants);
    struct channel *channel = &gpu.channels[number][index];
    gpu_catch_up();
    while (channel->count == QUEUE)
        await(head(channel)->event);
    channel->ops[(channel->head + channel->count++) % QUEUE] = op;
    gpu.filled[number] |= (stream_mask)1 << index;
}

static struct op *last_op(CUstream stream)
{
    struct channel *channel = &gpu.channels[process() - tenants][(uintptr_t)stream >> 8 & (STREAMS - 1)];
    return &channel->ops[(channel->head + channel->count - 1) % QUEUE];
}

/* Runs tenants in the order of their clocks until all have ended. */
static void run_all(void)
{
    for (;;) {
        struct tenant *first = NULL;
        uint64_t second = NEVER;
        for (unsigned i = 0; i < tenant_count; i++) {
            struct tenant *one = &tenants[i];
            if (one->waiting && events[one->waiting] != NEVER) {
                one->now = later(one->now, events[one->waiting]);
                one->waiting = 0;
            }
            if (one->ended || one->waiting) {
                second = one->ended ? second : 0;
            } else if (!first || one->now < first->now) {
                second = first ? sooner(second, first->now) : second;
                first = one;
            } else {
                second = sooner(second, one->now);
            }
        }
        if (!first && second == NEVER)
            return;
        gpu_run(first ? first->now : NEVER - 1);
        if (somebody_may_go_on())
            continue;
        if (!first)
            abort(); /* nothing will ever happen */
        me = first;
        horizon = second;
        swapcontext(&scheduler, &me->context);
    }
}

#endif
