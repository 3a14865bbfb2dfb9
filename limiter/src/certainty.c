/*
 * How much of a batch's elapsed time was its own work. See meter.h.
 *
 * Between two timing events lie, beside the work, what the GPU waited for the host, what a neighbour had of it where
 * slots meet, and what the events themselves take. Where that cannot be told apart, a batch is taken for what it was
 * charged: estimates come from launches and slots in which it can. Nothing is charged or learned here.
 */
#include "meter.h"

#define TURN (2 * (int64_t)WEIR_MS) /* one turn of the driver's own time slicing */
#define CALM (TURN + TURN / 10) /* nobody who has the card in turns is undisturbed for so long */
#define MEAN_OF 32 /* batches that are averaged */
#define HEELS (50 * (int64_t)WEIR_US)  /* a GPU so close behind the host may have waited for it */
#define MARKS ((int64_t)2400)  /* what two timing events around a kernel read too much, … */
#define ALONE ((int64_t)1600)  /* … on an idle GPU, beside the time from the first's call to the launch's, … */
#define AT_ONCE (10 * (int64_t)WEIR_US) /* … which an event reaches in less */

/*
 * What a batch is expected to use. Estimates lie low for kernels that vary, so they are scaled by what batches in
 * certain time took; never down, or work behind a neighbour's back would go uncharged.
 */
static int64_t expected_use(const struct calm *calm, int64_t charged)
{
    double scale = calm->took > calm->charged ? (double)calm->took / (double)calm->charged : 1;
    return calm->charged > 0 ? (int64_t)((double)charged * scale) : charged;
}

/*
 * Where slots meet, a slice may share the card with a neighbour whose last kernel runs over, and an elapsed time
 * then holds the neighbour's turns as well. How long that goes on shows: who has the card in turns finds his work
 * late again and again. So a slot's time is certain from when work has taken what was expected for longer than a
 * turn, and in its second half in any case, or a function that became longer would not be seen. Else a batch is
 * taken for what it was expected to be.
 *
 * Beside others without slots it is never certain: what a batch took beyond its charge is theirs for all that is
 * known, but a turn and half of what it took at the most.
 */
int64_t batch_surely_used(struct calm *calm, const struct batch *batch, int64_t start, int64_t end)
{
    if (batch->terms.beside)
        return most((end - start - TURN) / 2, batch->charged);
    int64_t first = (int64_t)batch->terms.slot_start, to = (int64_t)batch->terms.slot_end;
    if (calm->slot != first)
        *calm = (struct calm){first, start, start, calm->charged, calm->took};
    int64_t from = to - (to - first) / 2, measured = end - start;
    if (calm->to - calm->from >= CALM)
        from = least(from, calm->to);
    int64_t certain = most(least(end, to) - most(start, from), 0);
    int64_t expected = expected_use(calm, batch->charged);
    calm->to = end;
    if (measured - expected > TURN / 4)
        calm->from = end;
    if (measured > 0 && certain >= measured) {
        calm->charged += (batch->charged - calm->charged) / MEAN_OF;
        calm->took += (measured - calm->took) / MEAN_OF;
    }
    return most(certain, expected);
}

/* Whether its one launch was in its stream before the GPU was let come to its start. */
static bool was_held(const struct batch *batch)
{
    return batch->launches == 1 && batch->launched < batch->hold.until;
}

/*
 * Whether the host may have set the pace: its launches took it longer than their work, and the GPU was close behind at
 * either end. It then waited inside the batch, too briefly to be seen one by one. Streams side by side wait for each
 * other too, and are left out. Beside others without slots the GPU is behind by their turns, and nobody can tell; of
 * short kernels it is assumed, for those are timed one by one now and then.
 */
bool batch_host_paced(const struct meter *meter, const struct lane *lane, const struct batch *batch, int64_t start,
                      int64_t end)
{
    if (batch->guessed || batch->loading || batch->charged <= 0 || !batch->launches)
        return false;
    if (batch->launches == 1 && (batch->idle || batch->apart))
        return false;
    if ((meter->open | meter->waiting) & ~lane_bit(meter, lane))
        return false;
    int64_t kernel = batch->charged / (int64_t)batch->launches, shift = lane->timeline->shift;
    bool close = end + shift - (int64_t)batch->closed < kernel + HEELS ||
                 start + shift - (int64_t)batch->opened < HEELS;
    bool assumed = batch->terms.beside && batch_is_short(batch);
    return (int64_t)(batch->closed - batch->opened) > batch->charged && (close || assumed);
}

/*
 * How long the GPU waited for the first launch, if it was idle until that reached it: commands reach it one as long
 * after its call as the other, so it waited from call to call, less what the start event was late by.
 */
static int64_t idled_until_launched(const struct batch *batch, int64_t start)
{
    int64_t apart = (int64_t)batch->launched - (int64_t)batch->marked;
    int64_t waited = apart - most(start - (int64_t)batch->marked - AT_ONCE, 0);
    return waited > 0 ? waited + ALONE : 0;
}

/*
 * How long the GPU waited for the batch's first launch. If it was idle, its work began when the launch reached it; but
 * another may have had it until then, and the start be stamped as late as the clock allows: what that leaves open is
 * decided as was expected. So it is for a function that was never measured while the clock is hardly known. If the GPU
 * had work when the launch was on its way, it may have waited as well: as long as the clock is sure of.
 */
int64_t batch_idled(const struct timeline *timeline, const struct batch *batch, int64_t start, int64_t end)
{
    start += timeline->shift;
    if (was_held(batch))
        return MARKS;
    if (!batch->idle && !batch->loading)
        return most((int64_t)batch->launched - (start + timeline->slack), 0);
    int64_t longest = idled_until_launched(batch, start);
    if (!batch->late && !(batch->guessed && timeline->slack > HEELS))
        return longest;
    int64_t shortest = idled_until_launched(batch, start + timeline->slack);
    return most(shortest, least(longest, end + timeline->shift - start - batch->charged));
}
