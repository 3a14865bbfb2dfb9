/*
 * The results of a meter (meter.h): batches whose end has come are measured, in each lane in order; the
 * union over lanes is what was used; charge, GPU time and estimates are set right by it.
 */
#include "meter.h"
#include "pacer.h"

#define SAMPLES 64    /* batches that are averaged, … */
#define APART 16      /* … and launches that are timed by themselves */
#define SAMPLE_MOST 2 /* a slice is not charged for more than this by what others used */
#define STILL ((int64_t)(100 * WEIR_US)) /* what is left, at least, of work that is not complete yet */
#define CHANGE ((int64_t)WEIR_US) /* from one kernel to the next that waits already */
#define EVENTS ((int64_t)(6 * WEIR_US)) /* what the events of a batch take the host */
#define DOUBT 8 /* the weight, in an estimate, of what is sure against what may be a neighbour's */

void meter_charge_balance(struct meter *meter, int64_t ns, uint32_t limit, uint64_t now)
{
    if (limit < WEIR_FULL_CORES)
        pacer_charge_balance(&meter->stats->balance, ns, limit, now);
}

/* What is given back of work that should be complete already makes no other's complete sooner. */
void meter_charge_drain(struct meter *meter, int64_t ns, uint64_t now)
{
    uint64_t own = atomic_load_explicit(&meter->drain, memory_order_relaxed);
    ns = most(ns, own > now ? -(int64_t)(own - now) : 0);
    pacer_charge_drain(&meter->stats->drain, ns, now);
    pacer_charge_drain(&meter->drain, ns, now);
}

void meter_charge(struct meter *meter, int64_t ns, uint32_t limit, uint64_t now)
{
    meter_charge_balance(meter, ns, limit, now);
    meter_charge_drain(meter, ns, now);
}

static void count_gpu_time(struct meter *meter, int64_t ns)
{
    if (ns > 0)
        atomic_fetch_add_explicit(&meter->stats->gpu_time, (uint64_t)ns, memory_order_relaxed);
}

/* Notes that their writers have counted and not finished yet are left out; the next batch may get them. */
static void take_notes(struct lane *lane, struct batch *batch)
{
    unsigned count = atomic_load_explicit(&lane->note_count, memory_order_relaxed);
    batch->note_count = 0;
    for (unsigned i = 0; i < count && i < METER_NOTES; i++) {
        struct lane_note *note = &lane->notes[i];
        struct estimate *estimate = atomic_exchange_explicit(&note->estimate, NULL, memory_order_acquire);
        uint64_t charged = atomic_load_explicit(&note->charged, memory_order_relaxed);
        if (estimate)
            batch->notes[batch->note_count++] = (struct estimate_note){estimate, charged};
    }
}

void meter_tally(struct meter *meter, struct lane *lane, uint64_t now)
{
    struct batch *batch = lane->open;
    uint64_t ticket = atomic_exchange_explicit(&lane->ticket, TICKET_ZERO, memory_order_relaxed);
    int64_t launches = (int64_t)ticket >> TICKET_BITS;
    batch->charged = lane->granted - ticket_left(ticket);
    lane->behind -= ticket_left(ticket);
    batch->launches = launches > 0 ? (uint32_t)launches : 0;
    atomic_fetch_add_explicit(&meter->stats->launches, batch->launches, memory_order_relaxed);
    meter_charge(meter, -ticket_left(ticket), batch->terms.limit, now);
    take_notes(lane, batch);
    lane->open = NULL;
    meter->open &= ~lane_bit(meter, lane);
}

/*
 * Estimates fall fast and rise slowly, so what varies is charged too little by them. Which batches are measured is
 * chosen at random, so what these used stands for the others.
 */
static int64_t as_sampled(const struct lane *lane, const struct batch *batch)
{
    if (batch->launches < 2 || batch->guessed || lane->sample <= 1)
        return batch->charged;
    return (int64_t)((double)batch->charged * lane->sample);
}

static void take_sample(struct lane *lane, const struct batch *batch, int64_t used)
{
    if (batch->charged <= 0)
        return;
    double sample = (double)used / (double)batch->charged;
    lane->sample += ((sample < SAMPLE_MOST ? sample : SAMPLE_MOST) - lane->sample) / (batch->apart ? APART : SAMPLES);
}

void meter_settle_unmeasured(struct meter *meter, const struct lane *lane, struct batch *batch, uint64_t now)
{
    int64_t used = as_sampled(lane, batch);
    meter_charge(meter, used - batch->charged, batch->terms.limit, now);
    count_gpu_time(meter, used);
    meter->foresees = false;
    for (unsigned i = 0; i < batch->note_count; i++)
        atomic_store(&batch->notes[i].estimate->pending, 0);
    batch_free(meter, batch);
}

/*
 * The longest launch of a batch, asked before the estimates learn from it: a neighbour lengthens what was measured,
 * hardly what is usual.
 */
static uint64_t longest_of(const struct batch *batch, uint64_t measured)
{
    uint64_t longest = 0, most = batch->note_count == 1 ? measured / batch->launches : measured;
    for (unsigned i = 0; i < batch->note_count; i++) {
        uint64_t usual = atomic_load_explicit(&batch->notes[i].estimate->ns, memory_order_relaxed);
        usual = usual && usual < most ? usual : most;
        longest = usual > longest ? usual : longest;
    }
    return longest;
}

static void learn(struct meter *meter, const struct batch *batch, uint64_t measured, uint64_t now)
{
    if (batch->note_count == 0)
        return;
    struct estimate *first = batch->notes[0].estimate;
    if (batch->loading && !atomic_exchange(&first->loaded, true)) {
        atomic_store(&first->pending, 0); /* its next launch is measured instead */
        return;
    }
    uint64_t longest = batch->launches ? longest_of(batch, measured) : 0;
    if (batch->apart)
        estimate_correct(first, measured);
    else if (batch->note_count == 1)
        estimate_learn(first, measured, batch->launches);
    else
        estimate_scale(batch->notes, batch->note_count, (uint64_t)batch->charged, measured);
    longest_note(&meter->stats->longest_kernel, &meter->stats->longest_seen, longest, now);
}

/*
 * What no other stream of the process and, as far as its clock is sure, no other process of the slice has been
 * charged for. Where it is not sure, too much is charged rather than too little.
 */
static int64_t newly_covered(struct meter *meter, const struct timeline *timeline, int64_t start, int64_t end)
{
    int64_t used = coverage_add(&meter->coverage, start, end);
    if (timeline->slack > TIMELINE_TIGHT)
        return used;
    int64_t shared = coverage_share(meter->stats->covered, WEIR_COVERED, start, end);
    return shared < used - COVERAGE_UNIT ? shared : used; /* less is rounding */
}

/* Whether the host took longer than a GPU that was kept fed would have for the batch, changes of kernels and all. */
static bool surely_waited(const struct batch *batch)
{
    return (int64_t)(batch->closed - batch->opened) > batch->charged + CHANGE * batch->launches + EVENTS;
}

/* Short kernels whose first was stamped late: their time is not known to a kernel. */
static bool vague(const struct batch *batch)
{
    return batch->late && batch_is_short(batch);
}

static bool measure(struct meter *meter, struct lane *lane, struct batch *batch, uint64_t now)
{
    int64_t start = lane->end_ns, end;
    if (batch->start && !timeline_consume(lane->timeline, batch->start, later(batch->opened, batch->gate), &start))
        return false;
    batch->start = NULL;
    if (!timeline_consume(lane->timeline, batch->end, 0, &end))
        return false;
    lane->end_ns = end;
    int64_t shift = lane->timeline->shift;
    start += batch_idled(lane->timeline, batch, start, end);
    int64_t measured = end > start ? end - start : 0;
    int64_t used = newly_covered(meter, lane->timeline, start + shift, end + shift);
    int64_t sure = batch_surely_used(&meter->calm, batch, start + shift, end + shift);
    if ((batch->terms.slot_end || batch->terms.beside) && !batch->guessed && measured > sure) {
        used = least(used, sure);
        if (!batch->terms.beside || !batch->apart) /* of one timed by itself little is believed anyway: estimates.h */
            measured = sure + (measured - sure) / DOUBT;
    }
    bool more = (batch->terms.beside ? measured : used) > batch->charged;
    bool waited = more && batch_host_paced(meter, lane, batch, start, end);
    bool surely = waited && surely_waited(batch);
    if (surely && !batch->terms.beside) /* what came after the last launch is sure */
        used = least(used, most(batch->charged, end + shift - (int64_t)batch->closed));
    if (batch->launches > 1)
        lane->paced = waited;
    if (batch->apart)
        take_sample(lane, batch, measured);
    else if (batch->launches > 1 && !surely)
        take_sample(lane, batch, used);
    lane_watch(lane, batch, used, now);
    count_gpu_time(meter, used);
    meter->foresees = true;
    meter_charge_balance(meter, used - batch->charged, batch->terms.limit, now);
    if (!waited && !vague(batch))
        learn(meter, batch, (uint64_t)measured, now);
    batch_free(meter, batch);
    return true;
}

void meter_unlink_oldest(struct meter *meter, struct lane *lane)
{
    lane->queued -= lane->oldest->charged;
    lane->oldest = lane->oldest->next;
    meter->pending--;
    if (!lane->oldest) {
        lane->newest = NULL;
        meter->waiting &= ~lane_bit(meter, lane);
    }
}

static void lane_collect(struct meter *meter, struct lane *lane, uint64_t now)
{
    while (lane->oldest) {
        struct batch *batch = lane->oldest;
        enum timeline_state state = timeline_poll(lane->timeline, batch->end);
        if (state == TIMELINE_PENDING)
            return;
        meter_unlink_oldest(meter, lane);
        if (state == TIMELINE_DONE && measure(meter, lane, batch, now))
            continue;
        meter_settle_unmeasured(meter, lane, batch, now);
    }
}

/*
 * In how long the lane's stream has done what it has to do: nothing of it can be over before the GPU has come to it, or
 * before its slot begins.
 */
static int64_t lane_left(const struct lane *lane, uint64_t now)
{
    int64_t left = lane->queued + (lane->open ? lane->granted : 0);
    if (lane->oldest) {
        int64_t began = most((int64_t)lane->oldest->opened, lane->end_ns + lane->timeline->shift);
        began = most(began, (int64_t)lane->oldest->gate);
        left -= least(most((int64_t)now - began, 0), most(lane->oldest->charged - STILL, 0));
    }
    if (lane->gate <= now)
        return left;
    return most(left - lane->behind, (int64_t)(lane->gate - now)) + lane->behind;
}

/*
 * Sets right when the work in flight will be complete: streams run side by side, each as fast as was measured. Both a
 * slot's end and siblings' turns hang on it. Siblings seldom have work in flight at once (queue.h); if they do, each
 * sets the slice's word right by what he knows of his own.
 */
static void foresee(struct meter *meter, uint64_t now)
{
    int64_t left = 0;
    for (uint64_t busy = meter->open | meter->waiting; busy; busy &= busy - 1)
        left = most(left, lane_left(&meter->lanes[__builtin_ctzll(busy)], now));
    uint64_t drain = atomic_load_explicit(&meter->drain, memory_order_relaxed);
    int64_t known = drain > now ? (int64_t)(drain - now) : 0;
    meter_charge_drain(meter, left - known, now);
}

void meter_collect(struct meter *meter, uint64_t now)
{
    meter->collected = now;
    for (uint64_t waiting = meter->waiting; waiting; waiting &= waiting - 1)
        lane_collect(meter, &meter->lanes[__builtin_ctzll(waiting)], now);
    if (meter->foresees)
        foresee(meter, now);
}

void meter_forget_stream(struct meter *meter, CUstream stream, uint64_t now)
{
    struct lane *lane = lane_find(meter, (uintptr_t)stream);
    if (!lane)
        return;
    meter_close(meter, lane, now);
    meter_abandon(meter, lane, now); /* if it could not be closed */
}
