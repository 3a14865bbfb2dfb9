/*
 * See pacing.h. One meter per device of the slice, in memory that costs nothing until it is touched. No lock is held
 * while a launch waits or while the driver launches. Who does not get the meter takes his launch from the ticket all
 * the same and lets the holder settle it, and his batch goes on; only for a function that was never measured is it
 * waited for. A launch into a stream that captures is no work yet; the launch of the graph is paced and measured.
 */
#include "pacing.h"

#include <errno.h>
#include <string.h>

#include "gate.h"
#include "glibc.h"
#include "turn.h"

#define PACING_GAP (50 * WEIR_US)      /* a host that launches more seldom may leave the GPU idle meanwhile */
#define PACING_COLLECT (200 * WEIR_US) /* results are looked for no more often */
#define PACING_AT_ONCE (2 * WEIR_US)   /* a wait for what is complete already takes less */
#define PACING_LOADING (200 * WEIR_US) /* a function's first call that takes longer was loading its code */

static struct meter meters[WEIR_MAX_DEVICES];
static _Atomic double ticks_per_ns;
static _Atomic uint64_t gap_ticks; /* PACING_GAP in ticks; set last; 0: not set up yet */

static void start_afresh(void)
{
    gate_forget_all();
    for (int i = 0; i < WEIR_MAX_DEVICES; i++)
        if (meters[i].stats)
            memset(&meters[i], 0, sizeof meters[i]);
}

static uint64_t in_ticks(uint64_t ns)
{
    return (uint64_t)((double)ns * atomic_load_explicit(&ticks_per_ns, memory_order_relaxed));
}

static void set_up(void)
{
    static atomic_flag registered = ATOMIC_FLAG_INIT;
    if (!atomic_flag_test_and_set(&registered))
        weir_at_fork(NULL, NULL, start_afresh);
    atomic_store(&ticks_per_ns, weir_tick_rate().ticks_per_ns);
    atomic_store(&gap_ticks, in_ticks(PACING_GAP) | 1);
}

/* The current device's number in the slice; -1: it is not the slice's, or there is none. */
static int paced_device(const struct weir_slice **slice)
{
    *slice = weir_slice();
    int device = *slice ? weir_current_device() : -1;
    return device < WEIR_MAX_DEVICES ? device : -1;
}

/* ---- before the launch ---- */

/* The ticket covers it: true, and whether it was the last that it covers. */
static bool take_ticket(struct launch *launch, uintptr_t function, bool *last)
{
    struct lane *lane = lane_find(launch->meter, launch->key);
    launch->estimate = estimate_find(&launch->meter->estimates, function);
    if (!lane)
        return false;
    uint64_t ticks = weir_ticks(), gap = atomic_load_explicit(&gap_ticks, memory_order_relaxed);
    uint64_t before = atomic_load_explicit(&lane->last, memory_order_relaxed);
    atomic_store_explicit(&lane->last, ticks, memory_order_relaxed);
    launch->gap = (int64_t)(ticks - before) > (int64_t)gap;
    if (launch->gap || !launch->estimate ||
        ticks >= atomic_load_explicit(&launch->estimate->due, memory_order_relaxed) ||
        ticks >= atomic_load_explicit(&lane->expires, memory_order_relaxed))
        return false;
    uint64_t ns = atomic_load_explicit(&launch->estimate->ns, memory_order_relaxed);
    if (!ns)
        return false;
    int64_t left = lane_take(lane, ns);
    if (left <= 0) {
        lane_put_back(lane, ns);
        return false;
    }
    lane_note(lane, launch->estimate, ns);
    *last = left <= (int64_t)ns;
    return true;
}

/* Takes in results, and ends a batch that the GPU has come to the end of while the host did other things. */
static void catch_up(struct launch *launch, uint64_t now)
{
    struct meter *meter = launch->meter;
    if (!meter_try(meter))
        return;
    if (now - meter->collected > PACING_COLLECT)
        meter_collect(meter, now);
    struct lane *lane = launch->gap ? lane_find(meter, launch->key) : NULL;
    if (lane && !lane->open) { /* a stream that is busy has work for longer than the gap */
        launch->single = lane->gapped = lane->gapped && !stream_busy(launch->stream);
    } else if (lane && !lane->open->blind && stream_idle(launch->stream)) {
        meter_abandon(meter, lane, now);
        launch->single = lane->gapped = true;
    }
    meter_release(meter);
}

/* Whether the function is due to be timed by itself, with the card at hand; if so, it is said when it will be again. */
static bool comes_due(const struct launch *launch, const struct lane *lane)
{
    struct estimate *estimate = launch->estimate;
    uint64_t ticks = weir_ticks(), due = atomic_load_explicit(&estimate->due, memory_order_relaxed);
    if (launch->waited || ticks < due)
        return false;
    uint64_t in = estimate_due_in(&launch->meter->estimates, !due || lane->paced || lane->gapped, ticks);
    atomic_store_explicit(&estimate->due, ticks + in_ticks(in), memory_order_relaxed);
    return true;
}

/* Puts a ticket on the launch's lane; its batch, where that is newly opened. If not, it cannot be measured. */
static void put_ticket(const struct launch *launch, const struct pacer_verdict *verdict,
                       const struct pacer_rule *rule, uint64_t now, struct pacing *pacing)
{
    struct terms terms = {.limit = rule->limit, .beside = rule->beside && !rule->frame};
    if (rule->frame) {
        terms.slot_end = verdict->expires;
        terms.slot_start = verdict->expires - rule->length;
    }
    struct meter *meter = launch->meter;
    uint64_t known = atomic_load_explicit(&launch->estimate->ns, memory_order_relaxed);
    struct lane *lane = meter_lane(meter, launch->key, launch->stream, !known, now);
    if (!lane)
        return;
    struct coming coming = {known, verdict->grant, comes_due(launch, lane), launch->single,
                            lane_is_watched(meter, lane, &terms, now)};
    bool ends = !known || (coming.due && is_short(&coming)) || (coming.watched && lane->open && lane->open->blind);
    if (lane->open && (ends || lane->open->terms.limit != rule->limit))
        meter_close(meter, lane, now);
    bool opening = !lane->open;
    struct plan plan = meter_plan(lane, &coming);
    uint64_t size = lane_lacks(lane, estimate_charge(launch->estimate, now), plan.grant);
    if (!meter_open(meter, lane, size, &terms, &plan, now))
        return;
    uint64_t ticks = weir_ticks(), life = verdict->expires > now ? verdict->expires - now : 0;
    atomic_store_explicit(&lane->expires, ticks + in_ticks(life), memory_order_relaxed);
    atomic_store_explicit(&lane->last, ticks, memory_order_relaxed);
    lane->open->guessed |= !known;
    lane->open->late |= opening && launch->waited;
    pacing->lane = lane;
    pacing->opened = opening ? lane->open : NULL;
    pacing->hold = opening ? lane->open->hold : (struct hold){.until = 0};
}

/* Charges the launch: to its lane's batch, or where that is not possible by itself, as last measured. What never was is
 * free where events fail in this context: a guess slows no program down, hook_errors tells. For want of room it is not,
 * or all that passes until there is some would be. */
static struct pacing book(const struct launch *launch, const struct pacer_verdict *verdict,
                          const struct pacer_rule *rule)
{
    struct meter *meter = launch->meter;
    struct pacing pacing = {.meter = meter};
    uint64_t known = atomic_load_explicit(&launch->estimate->ns, memory_order_relaxed);
    bool held = meter_await(meter, known ? 0 : meter_patience(meter));
    uint64_t now = weir_now(), charge = estimate_charge(launch->estimate, now), alone = known;
    if (held) {
        put_ticket(launch, verdict, rule, now, &pacing);
        alone = meter_is_full(meter) ? charge : known;
        meter_release(meter);
    } else {
        pacing.lane = lane_find(meter, launch->key);
    }
    if (!pacing.lane) {
        meter_charge(meter, (int64_t)alone, rule->limit, now);
        launch_count(&meter->stats->gpu_time, known);
        launch_count(&meter->stats->launches, 1);
        return (struct pacing){.meter = NULL};
    }
    int64_t left = lane_take(pacing.lane, charge);
    lane_note(pacing.lane, launch->estimate, charge);
    if (left > (int64_t)charge)
        pacing.lane = NULL;
    return pacing;
}

static struct pacing begin_slowly(struct launch *launch, uintptr_t function)
{
    uint64_t now = weir_now();
    launch->meter->stats = weir_stats_device(launch->slice, launch->device);
    atomic_store_explicit(&launch->meter->stats->last_launch, now, memory_order_relaxed);
    atomic_store_explicit(&launch->slice->stats->heartbeat, now, memory_order_relaxed);
    if (stream_captures(launch->stream))
        return (struct pacing){.meter = NULL};
    if (!launch->estimate)
        launch->estimate = estimate_claim(&launch->meter->estimates, function);
    struct pacer_rule rule;
    catch_up(launch, now);
    struct pacer_verdict verdict = turn_await(launch, &rule, now);
    struct pacing pacing = book(launch, &verdict, &rule);
    pacing.began = weir_now();
    if (pacing.meter && !atomic_load_explicit(&launch->estimate->ns, memory_order_relaxed)) {
        pacing.first = launch->estimate;
        uint64_t none = 0; /* one that is pending already tells more */
        atomic_compare_exchange_strong(&launch->estimate->pending, &none, pacing.began);
    }
    return pacing;
}

struct pacing pacing_begin(const void *function, CUstream stream)
{
    struct launch launch = {.stream = stream, .key = meter_key(stream)};
    int device = paced_device(&launch.slice);
    if (device < 0)
        return (struct pacing){.meter = NULL};
    if (!atomic_load_explicit(&gap_ticks, memory_order_acquire))
        set_up();
    launch.device = (uint32_t)device;
    launch.meter = &meters[device];
    bool last = false;
    if (take_ticket(&launch, (uintptr_t)function, &last))
        return (struct pacing){.meter = last ? launch.meter : NULL, .lane = lane_find(launch.meter, launch.key)};
    int error = errno;
    struct pacing pacing = begin_slowly(&launch, (uintptr_t)function);
    errno = error;
    return pacing;
}

/* ---- after it, and around waits ---- */

void pacing_end(const struct pacing *pacing, CUresult result)
{
    if (!pacing->meter)
        return;
    uint64_t now = weir_now();
    if (pacing->opened) {
        bool loading = pacing->first && now - pacing->began > PACING_LOADING;
        atomic_store_explicit(&pacing->opened->launched, now, memory_order_relaxed);
        atomic_store_explicit(&pacing->opened->loading, loading, memory_order_relaxed);
    }
    if (pacing->first && result != CUDA_SUCCESS)
        atomic_store_explicit(&pacing->first->pending, 0, memory_order_relaxed);
    int error = errno;
    struct meter *meter = pacing->meter;
    if (pacing->lane && result == CUDA_SUCCESS && meter_await(meter, pacing->first ? meter_patience(meter) : 0)) {
        if (pacing->first || meter->pending < METER_PENDING)
            meter_close(meter, pacing->lane, now);
        meter_release(meter);
    }
    gate_let_go(&pacing->hold);
    errno = error;
}

uint64_t pacing_before_wait(enum pacing_scope scope, const void *what)
{
    const struct weir_slice *slice;
    int device = paced_device(&slice);
    if (device < 0 || !meters[device].stats)
        return 0;
    struct meter *meter = &meters[device];
    uint64_t now = weir_now();
    if (!meter_try(meter))
        return now;
    struct lane *lane = scope == PACING_STREAM ? lane_find(meter, meter_key((CUstream)what)) : NULL;
    if (lane)
        meter_close(meter, lane, now);
    else if (scope == PACING_ALL)
        meter_close_all(meter, true, now);
    else if (scope == PACING_EVENT)
        meter_before_event(meter, (CUevent)what, now);
    meter_release(meter);
    return now;
}

void pacing_after_wait(enum pacing_scope scope, uint64_t began)
{
    const struct weir_slice *slice;
    int device = began ? paced_device(&slice) : -1;
    if (device < 0 || !meters[device].stats || !meter_try(&meters[device]))
        return;
    struct meter *meter = &meters[device];
    uint64_t now = weir_now();
    if (scope != PACING_EVENT || now - meter->collected > PACING_COLLECT)
        meter_collect(meter, now);
    if (scope == PACING_EVENT && now - began > PACING_AT_ONCE)
        meter_after_event(meter, now);
    meter_release(meter);
}

void pacing_forget_stream(CUstream stream)
{
    for (int i = 0; !stream_is_default(stream) && i < WEIR_MAX_DEVICES; i++)
        if (meters[i].stats && lane_find(&meters[i], (uintptr_t)stream) && meter_await(&meters[i], METER_PATIENCE)) {
            meter_forget_stream(&meters[i], stream, weir_now());
            meter_release(&meters[i]);
        }
}

void weir_pacing_forget_context(CUcontext context, bool alive)
{
    gate_forget_context(context);
    for (int i = 0; i < WEIR_MAX_DEVICES; i++)
        if (meters[i].stats && meter_await(&meters[i], WEIR_S)) {
            meter_forget(&meters[i], context, alive, weir_now());
            meter_release(&meters[i]);
        }
}
