/*
 * See meter.h. Batches come from a fixed pool and wait in their lane in the order they were closed. A batch
 * that cannot be closed, because the stream captures or somebody else holds the meter, goes on: the worst is
 * a long batch, not a lost one. Where the pool is empty, launches are charged as estimated until one is free.
 */
#include "meter.h"

#include "pacer.h"

#define TICKET_LEAST (50 * WEIR_US)
#define METER_IDLE ((int64_t)(50 * WEIR_US)) /* a host so much slower than its work may have left the GPU idle */

void lane_note(struct lane *lane, struct estimate *estimate, uint64_t charged)
{
    uint64_t batch = atomic_load_explicit(&lane->batch, memory_order_relaxed);
    if (atomic_load_explicit(&estimate->batch, memory_order_relaxed) == batch)
        return;
    atomic_store_explicit(&estimate->batch, batch, memory_order_relaxed);
    unsigned index = atomic_fetch_add_explicit(&lane->note_count, 1, memory_order_relaxed);
    if (index >= METER_NOTES)
        return;
    atomic_store_explicit(&lane->notes[index].charged, charged, memory_order_relaxed);
    atomic_store_explicit(&lane->notes[index].estimate, estimate, memory_order_release);
}

/* ---- lanes ---- */

uintptr_t meter_key(CUstream stream)
{
    static __thread char identity;
    if (!stream_is_default(stream))
        return (uintptr_t)stream;
    uintptr_t context = (uintptr_t)current_context() | 1; /* no stream's handle, and never 0 */
    return stream == CU_STREAM_PER_THREAD ? context ^ (uintptr_t)&identity << 16 : context;
}

bool lane_within_reach(const struct lane *lane)
{
    return !stream_is_default(lane->stream) ||
           atomic_load_explicit(&lane->key, memory_order_relaxed) == meter_key(lane->stream);
}

static void prepare(struct meter *meter)
{
    for (int i = 0; i < METER_BATCHES; i++) {
        meter->batches[i].next = meter->free_batches;
        meter->free_batches = &meter->batches[i];
    }
    meter->ready = true;
}

static struct batch *batch_take(struct meter *meter)
{
    struct batch *batch = meter->free_batches;
    if (batch) {
        meter->free_batches = batch->next;
        batch->next = NULL;
        batch->start = batch->end = NULL;
        batch->charged = 0;
        batch->terms = (struct terms){.limit = 0};
        batch->guessed = batch->blind = batch->apart = batch->idle = batch->late = false;
        batch->launches = batch->note_count = 0;
        batch->hold.until = 0;
        atomic_store_explicit(&batch->launched, 0, memory_order_relaxed); /* the launch that opened the last one */
        atomic_store_explicit(&batch->loading, false, memory_order_relaxed); /* may be late in saying so */
    }
    return batch;
}

/* Launches that passed between two batches, while somebody else held the meter: charged as estimated. One that is
 * put back after it was counted here stays in the ticket as one less: the next takes its place. */
static void settle_strays(struct meter *meter, struct lane *lane, uint64_t now)
{
    uint64_t ticket = atomic_load_explicit(&lane->ticket, memory_order_relaxed);
    int64_t launches, used;
    do {
        launches = (int64_t)ticket >> TICKET_BITS;
        used = -ticket_left(ticket);
        if (launches <= 0 || used <= 0)
            return;
    } while (!atomic_compare_exchange_weak(&lane->ticket, &ticket, TICKET_ZERO));
    meter_charge(meter, used, lane->limit, now);
    atomic_fetch_add_explicit(&meter->stats->gpu_time, (uint64_t)used, memory_order_relaxed);
    atomic_fetch_add_explicit(&meter->stats->launches, (uint64_t)launches, memory_order_relaxed);
}

static void lane_start(struct lane *lane, uintptr_t key, CUstream stream, struct timeline *timeline)
{
    lane->stream = stream;
    lane->timeline = timeline;
    lane->ticket_size = PACER_FREE_TICKET;
    lane->gapped = lane->blind = lane->paced = false; /* of the stream that had it before */
    lane->watched = 0;
    lane->sample = 1;
    lane->gate = 0;
    atomic_store(&lane->ticket, TICKET_ZERO);
    atomic_store(&lane->expires, 0);
    atomic_store(&lane->key, key);
}

static bool is_busy(const struct meter *meter, const struct lane *lane)
{
    return (meter->open | meter->waiting) & lane_bit(meter, lane);
}

/* Whether all its work is of functions that were measured. Who opened its batch may write to that until his call has
 * returned. */
static bool is_known(const struct lane *lane)
{
    const struct batch *batch = lane->oldest, *open = lane->open;
    while (batch && !batch->guessed)
        batch = batch->next;
    return !batch && !(open && (open->guessed || !atomic_load_explicit(&open->launched, memory_order_relaxed)));
}

struct lane *meter_lane(struct meter *meter, uintptr_t key, CUstream stream, bool first, uint64_t now)
{
    struct timeline *timeline = meter_timeline(meter, stream_context(stream), now);
    struct lane *lane = lane_find(meter, key), *known = NULL;
    if (!meter->ready)
        prepare(meter);
    if (!timeline)
        return NULL;
    if (lane && lane->timeline == timeline)
        return lane;
    for (unsigned probe = 0; !lane && probe < METER_LANES; probe++) {
        struct lane *other = &meter->lanes[(lane_slot(key) + probe) % METER_LANES];
        if (!atomic_load(&other->key) || !is_busy(meter, other))
            lane = other;
        else if (first && !known && is_known(other))
            known = other;
    }
    if (!lane && known)
        lane_forget(meter, lane = known, true, now);
    if (!lane || is_busy(meter, lane))
        return NULL; /* all busy, or a stream that is gone had the handle and its work is not settled yet */
    if (atomic_load(&lane->key))
        settle_strays(meter, lane, now);
    lane_start(lane, key, stream, timeline);
    return lane;
}

bool meter_is_full(const struct meter *meter)
{
    return !~(meter->open | meter->waiting) || !meter->free_batches;
}

/* ---- batches ---- */

void meter_give_up(struct meter *meter, struct lane *lane, uint64_t now)
{
    struct batch *batch = lane->open;
    if (!batch)
        return;
    meter_tally(meter, lane, now);
    meter_settle_unmeasured(meter, lane, batch, now);
}

static bool batch_begin(struct meter *meter, struct lane *lane, const struct terms *terms, const struct plan *plan,
                        uint64_t now)
{
    struct batch *batch = batch_take(meter);
    if (!batch)
        return false;
    bool chained = lane->newest && !lane->blind && !plan->apart && lane->newest->gate == lane->gate &&
                   timeline_poll(lane->timeline, lane->newest->end) == TIMELINE_PENDING;
    batch->blind = lane->blind = plan->blind;
    batch->apart = plan->apart;
    if (plan->apart && lane->gate <= now)
        batch->hold = gate_hold(lane->timeline->context, lane->stream, atomic_load(&meter->late));
    batch->idle = !plan->blind && !chained && !batch->hold.until && stream_idle(lane->stream);
    if (!plan->blind && !chained && !(batch->start = timeline_record(lane->timeline, lane->stream))) {
        gate_let_go(&batch->hold);
        batch_free(meter, batch);
        return false;
    }
    batch->opened = now;
    batch->marked = weir_now();
    batch->gate = lane->gate;
    batch->terms = *terms;
    lane->open = batch;
    lane->limit = terms->limit;
    lane->granted = 0;
    meter->open |= lane_bit(meter, lane);
    atomic_store_explicit(&lane->note_count, 0, memory_order_relaxed);
    atomic_store_explicit(&lane->batch, ++meter->batch_count, memory_order_relaxed);
    return true;
}

bool meter_open(struct meter *meter, struct lane *lane, uint64_t grant, const struct terms *terms,
                const struct plan *plan, uint64_t now)
{
    if (lane->timeline->broken) {
        meter_give_up(meter, lane, now);
        return false;
    }
    meter_charge_balance(meter, (int64_t)grant, terms->limit, now);
    meter_charge_drain(meter, (int64_t)grant, later(now, terms->slot_start)); /* siblings wait for what they see */
    if (!lane->open && !batch_begin(meter, lane, terms, plan, now)) {
        meter_charge(meter, -(int64_t)grant, terms->limit, now);
        return false;
    }
    lane->granted += (int64_t)grant;
    lane->behind += (int64_t)grant;
    atomic_fetch_add_explicit(&lane->ticket, grant, memory_order_relaxed);
    return true;
}

/* The host was away for longer than its launches take: an end recorded now would count that as work. */
static bool ran_dry(const struct lane *lane, uint64_t now)
{
    int64_t charged = lane->granted - ticket_left(atomic_load_explicit(&lane->ticket, memory_order_relaxed));
    return (int64_t)(now - lane->open->opened) > charged + METER_IDLE && stream_idle(lane->stream);
}

void meter_close(struct meter *meter, struct lane *lane, uint64_t now)
{
    struct batch *batch = lane->open;
    if (!batch) {
        settle_strays(meter, lane, now);
        return;
    }
    if (batch->blind) {
        meter_give_up(meter, lane, now);
        return;
    }
    if (ran_dry(lane, now)) {
        meter_abandon(meter, lane, now);
        lane->gapped = true;
        return;
    }
    if (!(batch->end = timeline_record(lane->timeline, lane->stream)))
        return;
    meter_tally(meter, lane, now);
    batch->closed = now;
    lane->queued += batch->charged;
    if (lane->newest)
        lane->newest->next = batch;
    else
        lane->oldest = batch;
    lane->newest = batch;
    meter->waiting |= lane_bit(meter, lane);
    meter->pending++;
    if (batch->launches > 1)
        lane->gapped = false;
    if (lane->ticket_size < PACER_FREE_TICKET)
        lane->ticket_size *= 2;
}

bool meter_gate(struct meter *meter, struct lane *lane, uint64_t opening, uint64_t now)
{
    if (lane->gate == opening)
        return true;
    meter_close(meter, lane, now);
    uint64_t early = atomic_load_explicit(&meter->late, memory_order_relaxed);
    if (lane->open || !gate_close(lane->timeline->context, lane->stream, opening, early))
        return false;
    lane->gate = opening;
    lane->behind = 0;
    return true;
}

void meter_abandon(struct meter *meter, struct lane *lane, uint64_t now)
{
    struct batch *batch = lane->open;
    if (!batch)
        return;
    meter_tally(meter, lane, now);
    if (batch->start)
        timeline_drop(lane->timeline, batch->start);
    int64_t half = least(batch->charged / 2, (int64_t)PACER_FREE_TICKET);
    lane->ticket_size = (uint64_t)most(half, (int64_t)TICKET_LEAST);
    meter_settle_unmeasured(meter, lane, batch, now);
}

void meter_close_all(struct meter *meter, bool draining, uint64_t now)
{
    for (uint64_t open = meter->open; open; open &= open - 1) {
        struct lane *lane = &meter->lanes[__builtin_ctzll(open)];
        if (lane_within_reach(lane))
            meter_close(meter, lane, now);
        else if (draining)
            meter_abandon(meter, lane, now);
    }
    for (unsigned i = 0; draining && i < METER_LANES; i++)
        if (!meter->lanes[i].open && atomic_load_explicit(&meter->lanes[i].key, memory_order_relaxed))
            settle_strays(meter, &meter->lanes[i], now);
}
