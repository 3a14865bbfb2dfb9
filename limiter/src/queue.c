/*
 * See queue.h. The word: the number served and the next to be given out, 12 bits each, and a moment of
 * CLOCK_MONOTONIC in units of 4 us, 40 bits, that turns over. Who is served stays in the queue until he or his moment
 * gives way; a queue whose two numbers are equal is empty.
 */
#include "queue.h"

#define NUMBER_BITS 12
#define NUMBERS (1U << NUMBER_BITS)
#define UNIT_BITS 12
#define MOMENTS (UINT64_C(1) << (64 - 2 * NUMBER_BITS))
#define REACH (WEIR_S >> UNIT_BITS) /* no moment is further off */
#define MOST 512 /* processes in a slice: a longer queue is noise */
#define TRIES 8

struct queue {
    unsigned served, length;
    uint64_t until; /* units, from now */
};

static uint64_t units(uint64_t ns) { return ns >> UNIT_BITS; }

static struct queue unpack(uint64_t word, uint64_t now)
{
    unsigned served = word & (NUMBERS - 1), next = word >> NUMBER_BITS & (NUMBERS - 1);
    uint64_t until = ((word >> 2 * NUMBER_BITS) - units(now)) & (MOMENTS - 1);
    unsigned length = (next - served) & (NUMBERS - 1);
    return (struct queue){served, length <= MOST ? length : 0, until <= REACH ? until : 0};
}

static uint64_t pack(const struct queue *queue, uint64_t now)
{
    uint64_t next = (queue->served + queue->length) & (NUMBERS - 1);
    return ((queue->until + units(now)) & (MOMENTS - 1)) << 2 * NUMBER_BITS | next << NUMBER_BITS | queue->served;
}

static void wait_for_served(struct queue *queue, uint64_t until, uint64_t now)
{
    uint64_t in = until > now ? units(until - now) + 1 : 0;
    queue->until = in < REACH ? in : REACH;
}

static void serve_next(struct queue *queue, uint64_t now)
{
    queue->served = (queue->served + 1) & (NUMBERS - 1);
    queue->length--;
    wait_for_served(queue, now + QUEUE_PATIENCE, now);
}

/* How many are before the number; beyond the length: it is not in the queue, or no longer. */
static unsigned before(const struct queue *queue, unsigned number)
{
    return number ? (number - 1 - queue->served) & (NUMBERS - 1) : NUMBERS;
}

static void join(struct queue *queue, struct queue_place *place)
{
    unsigned number = (queue->served + queue->length) & (NUMBERS - 1);
    *place = (struct queue_place){.number = number + 1, .company = place->company};
    queue->length++;
}

/* Who is served leaves when he must rest or has had his turn, if anybody waits; but his work is complete first. */
static void consider_leaving(const struct queue *queue, struct queue_place *place, const struct queue_wish *wish,
                             uint64_t now)
{
    bool over = !wish->pass || wish->drain > place->began + QUEUE_TURN;
    if (!place->leaves && place->used && over && queue->length > 1)
        place->leaves = (wish->drain > now ? wish->drain : now) + QUEUE_PATIENCE;
}

/* What becomes of queue and place at this moment; whether the process may launch then. */
static bool advance(struct queue *queue, struct queue_place *place, const struct queue_wish *wish, uint64_t now)
{
    if (before(queue, place->number) >= queue->length)
        join(queue, place);
    if (queue->length > 1)
        place->company = now;
    if (before(queue, place->number) == 0)
        consider_leaving(queue, place, wish, now);
    bool gone = place->leaves && (wish->drain <= now || now >= place->leaves);
    if (before(queue, place->number) == 0 ? gone : !queue->until) {
        serve_next(queue, now);
        if (gone)
            join(queue, place);
    }
    if (before(queue, place->number) > 0)
        return false;
    wait_for_served(queue, place->leaves ? wish->drain + QUEUE_GRACE : wish->until, now);
    return !place->leaves;
}

bool queue_serves(_Atomic uint64_t *word, struct queue_place *place, const struct queue_wish *wish, uint64_t now)
{
    uint64_t old = atomic_load_explicit(word, memory_order_relaxed);
    for (int try = 0; try < TRIES; try++) {
        struct queue queue = unpack(old, now);
        struct queue_place then = *place;
        bool served = advance(&queue, &then, wish, now);
        uint64_t new = pack(&queue, now);
        if (new != old && !atomic_compare_exchange_weak_explicit(word, &old, new, memory_order_relaxed,
                                                                 memory_order_relaxed))
            continue;
        *place = then;
        return served;
    }
    return false;
}
