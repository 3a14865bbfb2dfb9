/*
 * When may a launch pass: the arithmetic of holding a slice's GPU time to its share.
 *
 * Pure: time, limits and words are arguments; nothing here asks a clock, a driver or a global. Two words
 * in the stats page are shared by all processes of the slice, and both are moments of CLOCK_MONOTONIC, so
 * that a process may die at any instant and time alone repairs what it left:
 *
 *   balance   when the budget is even. Using c ns of the GPU moves it by c / share. Ahead of now: debt.
 *             Behind now: credit, kept for PACER_CREDIT_CAP.
 *   drain     when the work launched so far is expected to be complete.
 *
 * Estimates are charged at launch and corrected by what events measured (a signed charge). By quota, a
 * slice runs until it is PACER_LEAD ahead and then rests until PACER_REST_CREDIT is back. Whoever has
 * rested until the moment he was given may pass once, whatever his siblings have used meanwhile: nobody
 * starves. In a slot, launches begin inside [offset, offset + length) of each frame if what is in flight
 * will then be complete by its end, and in so far as the balance lets the slice have another kernel in
 * this frame. Two slices that overlap at an edge take turns of the driver's, and both are charged for
 * both.
 */
#ifndef WEIR_PACER_H
#define WEIR_PACER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "clock.h"
#include "page.h"

/* Budget that time saves up while a slice is idle. One period of the kernel's CPU bandwidth control: a
 * container out of CPU time sleeps for most of one, which is made up for; a point of a 10 s average. */
#define PACER_CREDIT_CAP (100 * WEIR_MS)
/* A balance further ahead counts as this far: no launch waits longer for what was used, or for a bad word. */
#define PACER_DEBT_CAP (60 * WEIR_S)
/* How far a quota may be overdrawn before it rests: twice what events lag behind, so the GPU stays fed. */
#define PACER_LEAD (2 * WEIR_MS)
#define PACER_REST_CREDIT (2 * WEIR_MS)
/* Work that passes on one decision, and how long it may take: limits and gates are read again after that. */
#define PACER_TICKET (1 * WEIR_MS)
#define PACER_FREE_TICKET (5 * WEIR_MS) /* … where nothing binds, for each costs a timing event */
#define PACER_TICKET_LIFE (20 * WEIR_MS)
/* What a slot's edges may be blurred by: opened early by what wake-ups are late, drained late by as much. */
#define PACER_EDGE (200 * WEIR_US)
/* A launch that would reach into a slot's last so many ns goes no further ahead of the GPU than this, nor one into a
 * slot that is full as estimated: what has been launched cannot be called back when what is before it takes longer. */
#define PACER_AHEAD (2 * WEIR_MS)
/* Work that may be queued for a slot before it opens, or half of the slot where that is less. */
#define PACER_QUEUED (20 * WEIR_MS)

/* What the control page asks of launches at one moment. */
struct pacer_rule {
    uint32_t limit;      /* basis points in force; WEIR_FULL_CORES: no cap */
    uint32_t guarantee;  /* … of which so many were promised, the rest is what others leave */
    uint64_t gate_until; /* no launch before that; 0: open */
    uint64_t frame;      /* ns; 0: no slot */
    uint64_t offset;
    uint64_t length;
    bool beside;         /* others run beside it, and nobody has slots */
};

struct pacer_state {
    uint64_t balance;
    uint64_t drain;
    uint64_t rest_until; /* given to this caller by an earlier verdict; 0: not resting */
    uint64_t early;      /* ns by which wake-ups are late */
    bool shared;         /* siblings have work in flight too */
};

struct pacer_verdict {
    bool pass;
    uint64_t wait_until; /* if not: when to ask again */
    uint64_t grant;      /* if so: ns of estimated work that may pass on it, this launch included */
    uint64_t expires;    /* … and until when */
};

struct pacer_rule pacer_rule(const struct weir_control_device *control, uint64_t now);

/* Does the rule hold anything back at all? */
bool pacer_binds(const struct pacer_rule *rule);

struct pacer_verdict pacer_decide(const struct pacer_state *state, const struct pacer_rule *rule,
                                  uint64_t now, uint64_t estimate);

/* When the next slot begins; only where the rule has one. */
uint64_t pacer_opening(const struct pacer_rule *rule, uint64_t now);
/* May the launch be queued now behind a gate that opens then? */
struct pacer_verdict pacer_ahead(const struct pacer_state *state, const struct pacer_rule *rule, uint64_t opening,
                                 uint64_t estimate);

/* The balance after `used` ns of GPU time (negative: given back) at `limit` basis points. */
uint64_t pacer_balance_after(uint64_t balance, int64_t used, uint32_t limit, uint64_t now);
/* The same debt in GPU time, or credit in wall time, counted by another limit. */
uint64_t pacer_balance_at(uint64_t balance, uint32_t before, uint32_t limit, uint64_t now);
uint64_t pacer_drain_after(uint64_t drain, int64_t work, uint64_t now);

/* The same on the shared words: one compare-and-swap loop each, so a crash leaves the old or the new. */
void pacer_charge_balance(_Atomic uint64_t *balance, int64_t used, uint32_t limit, uint64_t now);
void pacer_charge_drain(_Atomic uint64_t *drain, int64_t work, uint64_t now);

/* Puts a word that somebody else wrote back into range: as far ahead of every new now it would never be waited out. */
void pacer_bound(_Atomic uint64_t *word, uint64_t now);

/* Counts the balance by this limit from now on; who of the slice comes first turns it over. */
void pacer_follow_limit(_Atomic uint64_t *balance, _Atomic uint64_t *counts_by, uint32_t limit, uint64_t now);

#endif
