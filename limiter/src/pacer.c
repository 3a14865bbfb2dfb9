/*
 * See pacer.h. Everything is unsigned 64-bit nanoseconds since boot: differences are formed only after the
 * larger side is known, and products go through 128 bits. Words read from the stats page are claims: they
 * are clamped around now before use, so the worst that a bad word does is a bounded wait or a lost debt.
 */
#include "pacer.h"

static uint64_t minus(uint64_t a, uint64_t b) { return a > b ? a - b : 0; }

/* 0 and anything above the whole card mean: no cap. */
static uint32_t cap(uint32_t limit)
{
    return limit == 0 || limit > WEIR_FULL_CORES ? WEIR_FULL_CORES : limit;
}

/* What `used` ns of GPU time cost in budget, at most the debt that is ever remembered. */
static uint64_t cost_of(uint64_t used, uint32_t limit)
{
    unsigned __int128 cost = (unsigned __int128)used * WEIR_FULL_CORES / cap(limit);
    return cost > PACER_DEBT_CAP ? PACER_DEBT_CAP : (uint64_t)cost;
}

/* A page that was never charged starts even, without credit: nothing is known yet of what will run. */
static uint64_t clamp_balance(uint64_t balance, uint64_t now)
{
    if (balance == 0)
        return now;
    return later(minus(now, PACER_CREDIT_CAP), sooner(balance, now + PACER_DEBT_CAP));
}

struct pacer_rule pacer_rule(const struct weir_control_device *control, uint64_t now)
{
    struct pacer_rule rule = {.limit = cap(control->core_limit), .guarantee = control->core_guarantee};
    if (weir_in_force(control->loan_deadline, now) && cap(control->loan_core_limit) > rule.limit)
        rule.limit = cap(control->loan_core_limit);
    if (weir_in_force(control->lease_deadline, now) && cap(control->lease_core_limit) < rule.limit)
        rule.limit = control->lease_core_limit;
    if (control->gate && weir_in_force(control->gate_deadline, now))
        rule.gate_until = control->gate_deadline;
    rule.beside = weir_in_force(control->beside_deadline, now);
    bool is_slot = control->slot_length > 0 && control->slot_length < control->slot_frame;
    if (is_slot && weir_in_force(control->slot_deadline, now)) {
        rule.frame = control->slot_frame;
        rule.offset = control->slot_offset % control->slot_frame;
        rule.length = control->slot_length;
    }
    return rule;
}

bool pacer_binds(const struct pacer_rule *rule)
{
    return rule->limit < WEIR_FULL_CORES || rule->frame || rule->gate_until;
}

static struct pacer_verdict pass(uint64_t grant, uint64_t expires)
{
    return (struct pacer_verdict){.pass = true, .grant = grant, .expires = expires};
}

static struct pacer_verdict wait_until(uint64_t moment)
{
    return (struct pacer_verdict){.wait_until = moment};
}

static struct pacer_verdict decide_quota(const struct pacer_state *state, uint64_t now)
{
    uint64_t balance = clamp_balance(state->balance, now);
    uint64_t rested = balance + PACER_REST_CREDIT;
    if (state->rest_until)
        rested = sooner(rested, state->rest_until);
    else if (balance <= now + PACER_LEAD)
        rested = now;
    return now >= rested ? pass(PACER_TICKET, now + PACER_TICKET_LIFE) : wait_until(rested);
}

/*
 * How much budget the frame that ends at `frame_end` has for another kernel, rounded to the nearest
 * kernel: the budget of a frame is the frame itself, and the balance carries what rounding took or left to
 * the next one. Negative: none; the frame is paid for already.
 */
static int64_t spare(const struct pacer_rule *rule, uint64_t balance, uint64_t frame_end, uint64_t estimate)
{
    if (rule->limit >= WEIR_FULL_CORES)
        return 0;
    return (int64_t)(frame_end - balance - sooner(cost_of(estimate, rule->limit), rule->frame) / 2);
}

/* Whether it may fall short of its promise: who has more than that, only if so few whole kernels fit in his slot. */
static bool may_lack(const struct pacer_rule *rule, uint64_t estimate)
{
    uint64_t fits = rule->length - rule->length % later(estimate, 1);
    return rule->limit <= rule->guarantee || fits * WEIR_FULL_CORES < rule->guarantee * rule->frame;
}

/*
 * The last moment at which this kernel may begin. It must be complete by the slot's end, give or take an
 * edge. One may run over when the slice has fallen half a frame behind, or a quarter of the credit it can have,
 * because whole kernels do not fill its share or the slot's edges took too much of it: into what was promised to a
 * neighbour, so not for what was promised to nobody. A kernel longer than the slot runs over anyway: it goes first,
 * and pays by skipping frames.
 */
static uint64_t last_begin(const struct pacer_rule *rule, uint64_t start, uint64_t estimate,
                           int64_t spare_budget)
{
    uint64_t end = start + rule->length;
    if (estimate > rule->length)
        return start + rule->length / 2;
    if (spare_budget > (int64_t)sooner(rule->frame / 2, PACER_CREDIT_CAP / 4) && may_lack(rule, estimate))
        return end - later(sooner(estimate / 2, PACER_EDGE), estimate / 8); /* less is not worth an exchange */
    return end - estimate + sooner(estimate / 2, PACER_EDGE);
}

/* When half of what is in flight is complete as estimated: how it really goes decides about the rest of the slot. */
static uint64_t half_way(uint64_t now, uint64_t drained)
{
    return now + later((drained - now) / 2, sooner(drained - now, PACER_AHEAD));
}

/* What is in flight is charged as estimated. While there is much of it, it may still make room in this slot. */
static struct pacer_verdict wait_in_slot(uint64_t now, uint64_t drained, uint64_t end, uint64_t otherwise)
{
    bool again = drained > now + PACER_EDGE && now + PACER_AHEAD < end;
    return wait_until(again ? half_way(now, drained) : otherwise);
}

/* How far into its frame a moment is, counted from the slot's start. */
static uint64_t position_of(const struct pacer_rule *rule, uint64_t now)
{
    return (now % rule->frame + rule->frame - rule->offset) % rule->frame;
}

static struct pacer_verdict decide_slot(const struct pacer_state *state, const struct pacer_rule *rule,
                                        uint64_t now, uint64_t estimate)
{
    uint64_t early = sooner(state->early, PACER_EDGE);
    uint64_t position = position_of(rule, now);
    bool before = rule->frame - position <= early;
    uint64_t start = before ? now + (rule->frame - position) : now - position;
    uint64_t next = start + rule->frame - early, end = start + rule->length;
    if (now >= end)
        return wait_until(next);
    uint64_t balance = clamp_balance(state->balance, now);
    uint64_t begin = later(now, sooner(state->drain, now + PACER_DEBT_CAP));
    int64_t budget = spare(rule, balance, start + rule->frame, estimate);
    if (budget < 0)
        return wait_in_slot(now, begin, end, next + (uint64_t)-budget / rule->frame * rule->frame);
    if (begin > last_begin(rule, start, estimate, budget))
        return wait_in_slot(now, begin, end, next);
    if (begin > now + PACER_AHEAD && begin + (state->shared ? 0 : estimate) + PACER_AHEAD > end)
        return wait_until(half_way(now, begin));
    if (estimate > rule->length && begin > now)
        return wait_until(begin);
    return pass(later(estimate, sooner(PACER_TICKET, end - begin)), end);
}

struct pacer_verdict pacer_decide(const struct pacer_state *state, const struct pacer_rule *rule,
                                  uint64_t now, uint64_t estimate)
{
    if (rule->gate_until > now)
        return wait_until(rule->gate_until);
    if (rule->frame)
        return decide_slot(state, rule, now, estimate);
    if (rule->limit < WEIR_FULL_CORES)
        return decide_quota(state, now);
    return pass(PACER_FREE_TICKET, now + PACER_TICKET_LIFE);
}

uint64_t pacer_opening(const struct pacer_rule *rule, uint64_t now)
{
    return now + rule->frame - position_of(rule, now);
}

struct pacer_verdict pacer_ahead(const struct pacer_state *state, const struct pacer_rule *rule, uint64_t opening,
                                 uint64_t estimate)
{
    uint64_t queued = minus(sooner(state->drain, opening + PACER_DEBT_CAP), opening);
    if (rule->gate_until > opening || queued + estimate > sooner(rule->length / 2, PACER_QUEUED))
        return wait_until(opening);
    return decide_slot(state, rule, opening, estimate);
}

uint64_t pacer_balance_after(uint64_t balance, int64_t used, uint32_t limit, uint64_t now)
{
    balance = clamp_balance(balance, now);
    if (used < 0)
        return minus(balance, cost_of((uint64_t)-used, limit));
    return sooner(balance + cost_of((uint64_t)used, limit), now + PACER_DEBT_CAP);
}

uint64_t pacer_balance_at(uint64_t balance, uint32_t before, uint32_t limit, uint64_t now)
{
    balance = clamp_balance(balance, now);
    if (balance <= now)
        return balance;
    return now + cost_of((uint64_t)((unsigned __int128)(balance - now) * cap(before) / WEIR_FULL_CORES), limit);
}

uint64_t pacer_drain_after(uint64_t drain, int64_t work, uint64_t now)
{
    drain = later(now, sooner(drain, now + PACER_DEBT_CAP));
    if (work < 0)
        return minus(drain, (uint64_t)-work);
    return drain + sooner((uint64_t)work, PACER_DEBT_CAP);
}

void pacer_charge_balance(_Atomic uint64_t *balance, int64_t used, uint32_t limit, uint64_t now)
{
    uint64_t old = atomic_load_explicit(balance, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(balance, &old, pacer_balance_after(old, used, limit, now),
                                                  memory_order_relaxed, memory_order_relaxed))
        ;
}

void pacer_charge_drain(_Atomic uint64_t *drain, int64_t work, uint64_t now)
{
    uint64_t old = atomic_load_explicit(drain, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(drain, &old, pacer_drain_after(old, work, now),
                                                  memory_order_relaxed, memory_order_relaxed))
        ;
}

void pacer_bound(_Atomic uint64_t *word, uint64_t now)
{
    uint64_t seen = atomic_load_explicit(word, memory_order_relaxed);
    if (seen > now + PACER_DEBT_CAP)
        atomic_compare_exchange_strong(word, &seen, now + PACER_DEBT_CAP);
}

void pacer_follow_limit(_Atomic uint64_t *balance, _Atomic uint64_t *counts_by, uint32_t limit, uint64_t now)
{
    uint64_t before = atomic_load_explicit(counts_by, memory_order_relaxed);
    if (before == limit || !atomic_compare_exchange_strong(counts_by, &before, limit) || !before)
        return;
    uint32_t was = before < WEIR_FULL_CORES ? (uint32_t)before : WEIR_FULL_CORES;
    uint64_t old = atomic_load_explicit(balance, memory_order_relaxed);
    while (!atomic_compare_exchange_weak(balance, &old, pacer_balance_at(old, was, limit, now)))
        ;
}
