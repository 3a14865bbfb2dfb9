/*
 * The meter of one device: GPU time measured in batches of about a millisecond of estimated work per stream.
 *
 * A lane stands for a stream. It carries a ticket: estimated work that may pass without bookkeeping, taken
 * with one atomic add by any thread. A batch is what passed between two timing events: it starts where the
 * lane's previous batch ended if that was still running when the batch's first launch came, else at an
 * event of its own. Everything but the ticket belongs to whoever holds the meter (meter_try); a thread
 * that does not get it passes on and is counted. What was charged at launch is corrected when a batch has
 * been measured.
 *
 * A launch's work is charged exactly once, to the batch that was open in its lane or to none. The meter
 * does not decide whether a launch may pass (pacer.h) and never waits.
 */
#ifndef WEIR_METER_H
#define WEIR_METER_H

#include "coverage.h"
#include "estimates.h"
#include "gate.h"
#include "hash.h"
#include "page.h"
#include "queue.h"
#include "timeline.h"

#define METER_LANES 64 /* bits of a mask */
#define METER_BATCHES 256
#define METER_NOTES 16
#define METER_SHORT (50 * WEIR_US)  /* a kernel for which timing events are dear */
#define METER_PENDING 128 /* above that, batches go on rather than wait in great numbers */
#define METER_CONTEXTS 8
#define METER_PATIENCE (10 * WEIR_MS) /* for who holds it, where there is no doing without */

/* What launches were charged by: the limit in force and, in slot mode, the slot (else zeros). */
struct terms {
    uint32_t limit; /* basis points */
    uint64_t slot_start, slot_end;
    bool beside; /* others had the card in turns with it, at any time */
};

struct batch {
    struct batch *next;
    CUevent start;    /* NULL: at the end of the lane's previous batch */
    CUevent end;
    uint64_t opened;  /* when its first launch came */
    uint64_t marked;  /* when its start had been recorded */
    uint64_t gate;    /* as its lane's then */
    struct hold hold; /* of the stream, from its start until its first launch was made */
    uint64_t closed;  /* when its end was recorded */
    _Atomic uint64_t launched; /* when the call of its first launch returned, … */
    _Atomic bool loading;      /* … of which part was loading code */
    int64_t charged;
    struct terms terms;
    bool guessed;     /* charged without any measurement of its function */
    bool blind;       /* without events: charged as estimated */
    bool apart;       /* of one launch that is timed for its function's sake */
    bool idle;        /* its stream was complete when it began, at an event of its own, … */
    bool late;        /* … after a wait for its turn: another may have had the card until then */
    uint32_t launches;
    unsigned note_count;
    struct estimate_note notes[METER_NOTES];
};

struct lane_note { /* as struct estimate_note, while any thread may write it */
    struct estimate *_Atomic estimate; /* NULL: counted, but not written yet */
    _Atomic uint64_t charged;
};

struct lane {
    /* any thread */
    _Atomic uintptr_t key;     /* the stream; 0: free */
    _Atomic uint64_t ticket;   /* launches << TICKET_BITS | TICKET_ZERO + ns left */
    _Atomic uint64_t expires;  /* ticks */
    _Atomic uint64_t last;     /* ticks of the last launch */
    _Atomic uint64_t batch;    /* number of the open batch */
    _Atomic unsigned note_count;
    struct lane_note notes[METER_NOTES];
    /* the holder of the meter */
    CUstream stream;
    struct timeline *timeline;
    struct batch *open, *oldest, *newest;
    uint64_t gate;        /* when the last gate in its stream opens; 0: there was none */
    int64_t behind;       /* charged since it was closed */
    uint32_t limit;       /* of its last batch, basis points */
    int64_t granted;      /* put into the ticket since the batch was opened */
    int64_t queued;       /* what its closed batches were charged that are not measured yet */
    int64_t end_ns;       /* where the last measured batch ended */
    uint64_t ticket_size; /* smaller where batches end in idleness before they are full */
    bool gapped;          /* the host leaves the GPU idle between launches, as last seen */
    bool blind;           /* its last batch was not measured: no other begins where one ended */
    bool paced;           /* the host set the pace of its last measured batch of several launches */
    uint64_t watched;     /* until then no batch goes blind */
    double sample;        /* used for each ns charged, averaged: it stands for what goes unmeasured */
};

struct calm {
    int64_t slot;          /* when the slot began that the next two speak of */
    int64_t from, to;      /* in it: work has lately taken what was expected, from then till then */
    int64_t charged, took; /* batches in certain time, averaged */
};

struct meter {
    atomic_flag held;
    _Atomic bool lost; /* somebody waited for who holds it in vain */
    _Atomic uint64_t late; /* ns by which sleeping threads wake up late, averaged */
    _Atomic uint64_t drain; /* as the page's, of this process alone: what that is later by is siblings' work */
    struct queue_place place; /* in the slice's queue */
    uint64_t batch_count;
    uint64_t collected;       /* when results were last looked for */
    uint64_t open, waiting;   /* masks of lanes with an open batch, with closed ones */
    uint64_t drains;          /* … of those that had run dry when a wait for an event ended, as last seen */
    unsigned pending;         /* closed batches that are not measured yet */
    struct calm calm;
    bool foresees;            /* the last batch was measured: it tells when what is left will be complete */
    struct weir_stats_device *_Atomic stats; /* set anew at each slow launch, for the page may be replaced */
    struct lane lanes[METER_LANES];
    struct batch batches[METER_BATCHES];
    struct batch *free_batches;
    bool ready;
    struct timeline timelines[METER_CONTEXTS];
    struct coverage coverage; /* of this process; its slice's is in the page */
    struct estimates estimates;
};

#define TICKET_BITS 40
#define TICKET_MASK ((UINT64_C(1) << TICKET_BITS) - 1)
#define TICKET_ZERO (UINT64_C(1) << (TICKET_BITS - 1)) /* so that the ns never borrow from the launches */

static inline int64_t ticket_left(uint64_t ticket)
{
    return (int64_t)(ticket & TICKET_MASK) - (int64_t)TICKET_ZERO;
}

/* A launch of `ns` taken from the ticket; what was left before it. */
static inline int64_t lane_take(struct lane *lane, uint64_t ns)
{
    uint64_t one = (UINT64_C(1) << TICKET_BITS) - ns;
    return ticket_left(atomic_fetch_add_explicit(&lane->ticket, one, memory_order_relaxed));
}

static inline void lane_put_back(struct lane *lane, uint64_t ns)
{
    atomic_fetch_sub_explicit(&lane->ticket, (UINT64_C(1) << TICKET_BITS) - ns, memory_order_relaxed);
}

static inline unsigned lane_slot(uintptr_t key) { return (unsigned)(weir_hash(key) >> 58); }

static inline struct lane *lane_find(struct meter *meter, uintptr_t key)
{
    for (unsigned probe = 0; probe < METER_LANES; probe++) {
        struct lane *lane = &meter->lanes[(lane_slot(key) + probe) % METER_LANES];
        if (atomic_load_explicit(&lane->key, memory_order_relaxed) == key)
            return lane;
    }
    return NULL;
}

/* Names a stream; by a default stream's handle the current context's, and the calling thread's where each has one. */
uintptr_t meter_key(CUstream stream);

/* Writes into the open batch's notes what this function is charged at, once for each batch. */
void lane_note(struct lane *lane, struct estimate *estimate, uint64_t charged);

static inline bool meter_try(struct meter *meter)
{
    return !atomic_flag_test_and_set_explicit(&meter->held, memory_order_acquire);
}

/* The same, and waits so long for whoever holds it; false: he may be dead, and his events then end the measuring. */
static inline bool meter_await(struct meter *meter, uint64_t patience)
{
    bool taken = meter_try(meter);
    uint64_t now = !taken && patience ? weir_now() : 0, until = now + patience;
    for (; !taken && now < until; now = weir_now(), taken = meter_try(meter))
        weir_sleep_until(now + 50 * WEIR_US);
    if (!taken && patience)
        atomic_store_explicit(&meter->lost, true, memory_order_relaxed);
    return taken;
}

/* A launch's: who ended in the middle, or left by siglongjmp, holds the meter for ever, and is waited for once. */
static inline uint64_t meter_patience(const struct meter *meter) { return meter->lost ? 0 : METER_PATIENCE; }
static inline void meter_release(struct meter *meter)
{
    atomic_store_explicit(&meter->lost, false, memory_order_relaxed);
    atomic_flag_clear_explicit(&meter->held, memory_order_release);
}

/* ---- the rest is for the holder of the meter: meter.c and waits.c open and close, results.c settles ---- */

static inline int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

/* certainty.c, of a batch between `start` and `end` on the host's clock or its timeline's: what was surely used in its
 * slot, whether the host set its pace, and how long the GPU waited for its first launch. */
int64_t batch_surely_used(struct calm *calm, const struct batch *batch, int64_t start, int64_t end);
bool batch_host_paced(const struct meter *meter, const struct lane *lane, const struct batch *batch, int64_t start,
                      int64_t end);
int64_t batch_idled(const struct timeline *timeline, const struct batch *batch, int64_t start, int64_t end);

/* Whether the calling thread may record into the lane's stream and ask about it: a default stream's handle means
 * another one in other contexts, and in other threads. */
bool lane_within_reach(const struct lane *lane);

static inline uint64_t lane_bit(const struct meter *meter, const struct lane *lane)
{
    return UINT64_C(1) << (lane - meter->lanes);
}

/* Whether its kernels are short, on average. */
static inline bool batch_is_short(const struct batch *batch)
{
    return batch->charged < (int64_t)METER_SHORT * batch->launches;
}

static inline void batch_free(struct meter *meter, struct batch *batch)
{
    batch->next = meter->free_batches;
    meter->free_batches = batch;
}

/* The stream's lane, made if need be; for a `first` launch in the place of one whose work is all of functions that were
 * measured, and is settled as they were. NULL: there is no room. */
struct lane *meter_lane(struct meter *meter, uintptr_t key, CUstream stream, bool first, uint64_t now);
/* Whether no lane is free, or no batch. */
bool meter_is_full(const struct meter *meter);

/* How much to put on the lane's ticket, so that it covers this launch and what may follow it unasked: never
 * more than its batch still lacks, or a host that leaves gaps would lengthen it again and again. */
uint64_t lane_lacks(const struct lane *lane, uint64_t charge, uint64_t granted);

/*
 * How the batch of a coming launch is to be timed (plan.c). Where the host sets the pace, times of many launches tell
 * nothing and their events are dear: most batches that a short kernel begins go blind. But estimates that have come to
 * be that pace look right to every batch of several launches, so now and then, when it is `due`, each function is timed
 * by itself, wherever in a batch it stands.
 */
struct coming {
    uint64_t kernel;  /* ns; 0: unknown */
    uint64_t granted; /* at most */
    bool due;
    bool gap;         /* the host left one before it */
    bool watched;
};
static inline bool is_short(const struct coming *coming) { return coming->kernel && coming->kernel < METER_SHORT; }
struct plan {
    uint64_t grant; /* 0: the launch alone */
    bool apart;     /* starting at an event of its own, whatever is before it */
    bool blind;     /* no events */
};
struct plan meter_plan(const struct lane *lane, const struct coming *coming);
/* Whether none of the lane's batches goes blind for now; a stream that is long overdue is found out by this. */
bool lane_is_watched(const struct meter *meter, struct lane *lane, const struct terms *terms, uint64_t now);
/* A batch is measured: if it was charged much less than it used, none of its lane goes blind for a while. */
void lane_watch(struct lane *lane, const struct batch *batch, int64_t used, uint64_t now);

/* Opens a batch, or lets the open one go on, with `grant` ns on the ticket. False: it cannot be measured. */
bool meter_open(struct meter *meter, struct lane *lane, uint64_t grant, const struct terms *terms,
                const struct plan *plan, uint64_t now);
/* Lets no launch into the stream begin before a moment; false: that cannot be had, and all is as it was. */
bool meter_gate(struct meter *meter, struct lane *lane, uint64_t opening, uint64_t now);
/* Records the end of the lane's open batch. */
void meter_close(struct meter *meter, struct lane *lane, uint64_t now);
/* The stream ran dry at an unknown moment: the batch goes unmeasured. */
void meter_abandon(struct meter *meter, struct lane *lane, uint64_t now);
/* Closes all open batches, but other threads' default streams only if the GPU is about to drain them. */
void meter_close_all(struct meter *meter, bool draining, uint64_t now);
/* Around a wait for an event of the program's, which may or may not leave lanes without work. */
void meter_before_event(struct meter *meter, CUevent event, uint64_t now);
void meter_after_event(struct meter *meter, uint64_t now);
/* Settles what has become known. */
void meter_collect(struct meter *meter, uint64_t now);
/* The stream is about to go: nothing is asked of it afterwards. What it has yet to do is measured all the same. */
void meter_forget_stream(struct meter *meter, CUstream stream, uint64_t now);
/* Takes the oldest closed batch out of its lane. */
void meter_unlink_oldest(struct meter *meter, struct lane *lane);

/* contexts of the meter (meter_contexts.c) */

/* The context's timeline, made if need be; NULL: there is no room, or nobody knows which context it is. */
struct timeline *meter_timeline(struct meter *meter, CUcontext context, uint64_t now);
/* The context ends: what its streams have yet to do is charged as estimated, and nothing is asked of it afterwards.
 * `alive`: it has not ended yet, so its events are given back to the driver. */
void meter_forget(struct meter *meter, CUcontext context, bool alive, uint64_t now);
/* The same of one stream, whose lane is free then. */
void lane_forget(struct meter *meter, struct lane *lane, bool alive, uint64_t now);

/* Ends the open batch's ticket: what it still held is given back, what was overdrawn is charged. */
void meter_tally(struct meter *meter, struct lane *lane, uint64_t now);
/* Ends the open batch without a measurement, for there will be none. */
void meter_give_up(struct meter *meter, struct lane *lane, uint64_t now);
/* Of a batch of which nothing better will be known: it is taken for what others like it used that were measured. */
void meter_settle_unmeasured(struct meter *meter, const struct lane *lane, struct batch *batch, uint64_t now);

/* Charges (or gives back) GPU time that is known to the slice's words. */
void meter_charge(struct meter *meter, int64_t ns, uint32_t limit, uint64_t now);
/* … to one of them alone. */
void meter_charge_balance(struct meter *meter, int64_t ns, uint32_t limit, uint64_t now);
void meter_charge_drain(struct meter *meter, int64_t ns, uint64_t now);

#endif
