/*
 * How a stream's next batch is to be timed. See meter.h.
 *
 * Timing events cost some microseconds each. Where the host sets the pace batches tell little, so most that begin
 * with a short kernel are blind: no events, charged as estimated. One in eight is timed, and nobody can foresee which.
 * That is no offer to those whose kernels are short now and then only: a stream in which one took much longer than it
 * was charged, or which has work long after all should have been complete, is watched for a while, all of it timed.
 */
#include "meter.h"

#define BLIND (200 * WEIR_US)         /* estimated work that may pass without timing events */
#define OVERDUE (5 * WEIR_MS)         /* more than copies of a small program's and what neighbours hold up … */
#define WATCH (10 * WEIR_S)           /* … and for so long it is remembered */
#define MORE 4                        /* a batch that took so many times its charge … */
#define AND_MORE ((int64_t)WEIR_MS / 10) /* … and by so much more is no matter of estimates that lie low */

uint64_t lane_lacks(const struct lane *lane, uint64_t charge, uint64_t granted)
{
    int64_t left = ticket_left(atomic_load_explicit(&lane->ticket, memory_order_relaxed));
    int64_t size = least((int64_t)granted, (int64_t)lane->ticket_size);
    if (lane->open)
        size -= lane->granted - left;
    if (size < (int64_t)charge)
        size = (int64_t)charge;
    return left < size ? (uint64_t)(size - left) : 0;
}

/* Among others a stream may have to wait for theirs, and a batch's time holds their turns. */
static bool has_company(const struct meter *meter, const struct terms *terms, uint64_t now)
{
    return terms->beside || now - meter->place.company < WATCH;
}

bool lane_is_watched(const struct meter *meter, struct lane *lane, const struct terms *terms, uint64_t now)
{
    bool overdue = now > atomic_load_explicit(&meter->drain, memory_order_relaxed) + OVERDUE;
    if (has_company(meter, terms, now))
        lane->watched = 0;
    else if (overdue && stream_busy(lane->stream))
        lane->watched = now + WATCH;
    return now < lane->watched;
}

void lane_watch(struct lane *lane, const struct batch *batch, int64_t used, uint64_t now)
{
    bool more = used > MORE * batch->charged && used > batch->charged + AND_MORE;
    if (more && !batch->guessed && !batch->loading)
        lane->watched = now + WATCH;
}

static bool goes_blind(const struct lane *lane, const struct coming *coming)
{
    bool paced = coming->gap || lane->gapped || lane->paced;
    bool timed = !(weir_hash(weir_ticks()) >> 61);
    return paced && !timed && is_short(coming) && !coming->watched;
}

struct plan meter_plan(const struct lane *lane, const struct coming *coming)
{
    struct plan plan = {.apart = coming->due && is_short(coming)};
    plan.blind = lane->open ? lane->open->blind : !plan.apart && goes_blind(lane, coming);
    if (plan.blind)
        plan.grant = coming->granted < BLIND ? coming->granted : BLIND;
    else if (!plan.apart && !coming->gap && coming->kernel)
        plan.grant = coming->granted;
    return plan;
}
