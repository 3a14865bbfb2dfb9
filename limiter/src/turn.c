/*
 * See turn.h. While it waits, a launch also does the meter's work where nobody else does: it closes
 * batches, so that the pause is not taken for work, and takes in results, on which the end of the wait
 * depends.
 */
#include "turn.h"

#define TURN_LOOK (50 * WEIR_MS)  /* longest sleep: a change of gate, limit or lease is obeyed after that */
#define TURN_PROBE (50 * WEIR_MS) /* longest wait for the first measurement of a function */
#define TURN_WORTH (50 * WEIR_US) /* less of a sibling's work is not waited for … */
#define TURN_AFTER (50 * WEIR_US) /* … and this much longer, for his word on it is best just after */
#define TURN_SPARE (30 * WEIR_MS) /* outside of slots, siblings of a slice with so much budget left need no order */
#define TURN_ALONE (200 * WEIR_MS) /* without siblings for so long, a process queues work for the next slot */
#define TURN_GATED (80 * WEIR_MS) /* no gate is closed for longer: what is behind it obeys no change meanwhile */
#define TURN_POLL (200 * WEIR_US) /* how often what shows in no word is looked for */

/* Under a limit a function's second launch waits a while until the first has shown how long it takes. */
static bool probing(const struct launch *launch, uint64_t now)
{
    uint64_t pending = atomic_load_explicit(&launch->estimate->pending, memory_order_relaxed);
    return !atomic_load_explicit(&launch->estimate->ns, memory_order_relaxed) && pending &&
           now < pending + TURN_PROBE;
}

static struct pacer_state state_of(const struct launch *launch, uint64_t rest_until, uint64_t now)
{
    struct weir_stats_device *stats = launch->meter->stats;
    uint64_t drain = atomic_load_explicit(&stats->drain, memory_order_relaxed);
    return (struct pacer_state){
        .balance = atomic_load_explicit(&stats->balance, memory_order_relaxed),
        .drain = drain,
        .rest_until = rest_until,
        .early = atomic_load_explicit(&launch->meter->late, memory_order_relaxed),
        .shared = drain > now && drain > atomic_load_explicit(&launch->meter->drain, memory_order_relaxed),
    };
}

static struct pacer_verdict decide(const struct launch *launch, struct pacer_rule *rule, uint64_t rest_until,
                                   uint64_t now)
{
    struct weir_control_device control;
    weir_control_read(launch->slice, launch->device, &control, NULL);
    *rule = pacer_rule(&control, now);
    struct weir_stats_device *stats = launch->meter->stats;
    pacer_bound(&stats->balance, now);
    pacer_bound(&stats->drain, now);
    pacer_follow_limit(&stats->balance, &stats->balance_limit, rule->limit, now);
    struct pacer_state state = state_of(launch, rest_until, now);
    struct pacer_verdict verdict = pacer_decide(&state, rule, now, estimate_charge(launch->estimate, now));
    if (verdict.pass && pacer_binds(rule) && probing(launch, now))
        return (struct pacer_verdict){.wait_until = now + TURN_POLL};
    return verdict;
}

/* What the queue is told: others need not wait for this process once its work is complete, or its rest over. */
static struct queue_wish wish_of(const struct launch *launch, const struct pacer_verdict *verdict, uint64_t busy_until,
                                 uint64_t now)
{
    uint64_t ticket = later(PACER_TICKET, estimate_charge(launch->estimate, now));
    uint64_t asks = sooner(verdict->wait_until, now + TURN_LOOK);
    return (struct queue_wish){
        .pass = verdict->pass,
        .drain = atomic_load_explicit(&launch->meter->drain, memory_order_relaxed),
        .until = verdict->pass ? busy_until + ticket : asks + QUEUE_PATIENCE,
    };
}

/* Estimates add up what streams do side by side, so work may be complete sooner than said: it is looked at half-way. */
static uint64_t halfway(uint64_t until, uint64_t now)
{
    return until > now + 2 * WEIR_MS ? now + (until - now) / 2 : until;
}

/* Asks the queue. Who leaves it with all of his work complete says so of the slice's: none has work in flight then. */
static bool is_served(struct meter *meter, const struct queue_wish *wish, uint64_t now)
{
    bool left = meter->place.leaves;
    bool served = queue_serves(&meter->stats->queue, &meter->place, wish, now);
    uint64_t drain = atomic_load_explicit(&meter->stats->drain, memory_order_relaxed);
    if (left && !meter->place.leaves && wish->drain <= now && drain > now)
        pacer_charge_drain(&meter->stats->drain, -(int64_t)(drain - now), now);
    return served;
}

/*
 * Until when to wait because another process of the slice is served, or has work in flight still; 0: no longer. Its
 * end is an estimate, and whoever does not queue (an older library's process) may add to it for ever: `patience`
 * bounds that wait. Whoever does not get the meter passes: a thread beside him is asking.
 */
static uint64_t siblings_until(const struct launch *launch, const struct pacer_verdict *verdict, uint64_t *patience,
                               uint64_t now)
{
    struct meter *meter = launch->meter;
    struct queue_place *place = &meter->place;
    uint64_t drain = atomic_load_explicit(&meter->stats->drain, memory_order_relaxed);
    uint64_t busy_until = later(drain, now), until = 0;
    if (!meter_try(meter))
        return 0;
    struct queue_wish wish = wish_of(launch, verdict, busy_until, now);
    if (!is_served(meter, &wish, now)) {
        *patience = 0;
        until = place->leaves ? later(halfway(wish.drain, now), now + TURN_AFTER)
                              : later(halfway(busy_until, now) + TURN_AFTER, now + TURN_POLL);
    } else if (!place->used && verdict->pass) {
        *patience = *patience ? *patience : now + QUEUE_PATIENCE;
        if (drain > wish.drain && drain > now + TURN_WORTH && now < *patience)
            until = drain + TURN_AFTER;
        place->used = !until;
        place->began = busy_until;
    }
    meter_release(meter);
    return until;
}

/* Whether a slice's processes take turns: where there is a lot of budget to spare, it matters little who has it. */
static bool in_order(const struct meter *meter, const struct pacer_rule *rule, uint64_t now)
{
    uint64_t balance = atomic_load_explicit(&meter->stats->balance, memory_order_relaxed);
    return rule->frame || (pacer_binds(rule) && balance + TURN_SPARE > now);
}

/* Sleeps, and learns by how much sleeping threads wake up late on this host. */
static void sleep_until(struct meter *meter, uint64_t moment)
{
    weir_sleep_until(moment);
    uint64_t woken = weir_now(), late = atomic_load_explicit(&meter->late, memory_order_relaxed);
    if (woken < moment)
        return; /* a signal */
    uint64_t seen = woken - moment < PACER_EDGE ? woken - moment : PACER_EDGE;
    atomic_store_explicit(&meter->late, late - late / 8 + seen / 8, memory_order_relaxed);
}

/* Gives back what open tickets hold, ends batches so that a pause is no work, takes in what is known. */
static void settle(struct meter *meter, uint64_t now)
{
    if (!meter_try(meter))
        return;
    meter_close_all(meter, false, now);
    meter_collect(meter, now);
    meter_release(meter);
}

/*
 * Where this slot has no more room, the launch may pass into its stream behind a gate that opens with the next one, so
 * that the host need not stand still until then; its first one there once what this slot holds is `settled`, for that
 * may make room. Not among siblings, whose turns hang on what is in flight.
 */
static bool goes_ahead(const struct launch *launch, const struct pacer_rule *rule, struct pacer_verdict *verdict,
                       bool settled, uint64_t now)
{
    struct meter *meter = launch->meter;
    uint64_t estimate = atomic_load_explicit(&launch->estimate->ns, memory_order_relaxed);
    if (!rule->frame || !estimate)
        return false;
    uint64_t opening = pacer_opening(rule, now);
    if (verdict->wait_until + PACER_EDGE < opening)
        return false;
    struct pacer_state state = state_of(launch, 0, now);
    struct pacer_verdict ahead = pacer_ahead(&state, rule, opening, estimate);
    if (!ahead.pass || state.shared)
        return false;
    if (opening > now + TURN_GATED) {
        verdict->wait_until = opening - TURN_GATED;
        return false;
    }
    if (!meter_try(meter))
        return false;
    struct lane *lane = meter_lane(meter, launch->key, launch->stream, false, now);
    bool gated = lane && (settled || lane->gate == opening) && now - meter->place.company > TURN_ALONE &&
                 meter_gate(meter, lane, opening, now);
    meter_release(meter);
    if (!gated)
        return false;
    atomic_store_explicit(&meter->stats->waiting, now, memory_order_relaxed);
    *verdict = ahead;
    return true;
}

struct pacer_verdict turn_await(struct launch *launch, struct pacer_rule *rule, uint64_t now)
{
    struct meter *meter = launch->meter;
    uint64_t began = now, rest_until = 0, patience = 0;
    bool throttled = false;
    struct pacer_verdict verdict = decide(launch, rule, 0, now);
    if (!verdict.pass && !goes_ahead(launch, rule, &verdict, false, now)) {
        settle(meter, now);
        verdict = decide(launch, rule, 0, now);
    }
    for (;;) {
        uint64_t until = in_order(meter, rule, now) ? siblings_until(launch, &verdict, &patience, now) : 0;
        if (!until && (verdict.pass || goes_ahead(launch, rule, &verdict, true, now)))
            break;
        if (!throttled) {
            throttled = true;
            launch_count(&meter->stats->throttled_periods, 1);
        }
        if (!until && !rest_until)
            rest_until = verdict.wait_until;
        if (verdict.pass || until > verdict.wait_until)
            verdict.wait_until = until;
        settle(meter, now);
        atomic_store_explicit(&meter->stats->waiting, now, memory_order_relaxed);
        atomic_store_explicit(&launch->slice->stats->heartbeat, now, memory_order_relaxed);
        sleep_until(meter, sooner(verdict.wait_until, now + TURN_LOOK));
        now = weir_now();
        if (rule->frame)
            settle(meter, now); /* what has become of the work in flight decides about the rest of the slot */
        verdict = decide(launch, rule, rest_until, now);
    }
    launch->waited = throttled;
    if (throttled)
        launch_count(&meter->stats->throttled_time, now - began);
    if (pacer_binds(rule))
        launch_count(&meter->stats->periods, 1);
    return verdict;
}
