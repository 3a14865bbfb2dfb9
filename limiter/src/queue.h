/*
 * Whose turn it is among the processes of a slice that want the card at once.
 *
 * Two processes that have the card in the driver's turns lose a tenth of it to being exchanged, and each one's events
 * hold the other's work. So those of a slice that is near its limit queue up, in one word of the stats page: who is
 * served, how many are in the queue, and until when to wait for who is served. He gives way when his budget makes him
 * rest or after some ms of work, to the back of the queue.
 *
 * A process may die or be stopped at any point: the moment in the word passes, and whoever comes first serves the
 * next. Who finds that he was passed over queues up again. The word orders launches and nothing else, so a bad one
 * costs its own slice order and time, at most QUEUE_PATIENCE for each number in it.
 */
#ifndef WEIR_QUEUE_H
#define WEIR_QUEUE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "clock.h"

#define QUEUE_PATIENCE (100 * WEIR_MS) /* for a process that is served and does not say so */
#define QUEUE_TURN (4 * WEIR_MS) /* of work, then the next in the queue is served */
#define QUEUE_GRACE (2 * WEIR_MS) /* for one that should be through, and has not said so */

/* A process's place; zeroed: none. */
struct queue_place {
    unsigned number; /* and one */
    bool used;       /* it has launched since it was served, … */
    uint64_t began;  /* … from then on */
    uint64_t company; /* when another was last in the queue too */
    uint64_t leaves; /* it launches no more; others follow when its work is complete, or then; 0: not yet */
};

/* What a launch of the process would do if it were served. */
struct queue_wish {
    bool pass;
    uint64_t drain; /* when what it has launched already is complete */
    uint64_t until; /* when others need wait for it no longer */
};

/* Whether the process is served; it is in the queue afterwards in any case. */
bool queue_serves(_Atomic uint64_t *word, struct queue_place *place, const struct queue_wish *wish, uint64_t now);

#endif
