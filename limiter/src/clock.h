/*
 * Two clocks: CLOCK_MONOTONIC, which the pages speak, and a tick counter that costs half as much.
 *
 * Ticks serve the launch path, which only asks "has this ticket run out" and "was there a gap". A pair of
 * readings taken once per process turns a time into ticks; the error of a conversion is far below a
 * microsecond for the milliseconds it is used over. Ticks are never written to a page. A test program that
 * brings a clock_gettime and a clock_nanosleep of its own defines WEIR_VIRTUAL_CLOCK, so that ticks follow.
 */
#ifndef WEIR_CLOCK_H
#define WEIR_CLOCK_H

#include <stdint.h>
#include <time.h>

#include "calls.h"

#define WEIR_US UINT64_C(1000)
#define WEIR_MS UINT64_C(1000000)
#define WEIR_S UINT64_C(1000000000)

static inline uint64_t weir_now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * WEIR_S + (uint64_t)time.tv_nsec;
}

static inline uint64_t weir_ticks(void)
{
#if defined(WEIR_VIRTUAL_CLOCK)
    return weir_now();
#elif defined(__x86_64__)
    return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
    uint64_t ticks;
    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
    return ticks;
#else
    return weir_now();
#endif
}

/* Of two moments. */
static inline uint64_t later(uint64_t a, uint64_t b) { return a > b ? a : b; }
static inline uint64_t sooner(uint64_t a, uint64_t b) { return a < b ? a : b; }

struct weir_tick_rate {
    double ticks_per_ns;
};

/* Takes some 50 us, once per process; longer only where the thread is preempted meanwhile. */
static inline struct weir_tick_rate weir_tick_rate(void)
{
    uint64_t time = weir_now(), ticks = weir_ticks(), passed;
    while ((passed = weir_now() - time) < 50 * WEIR_US)
        ;
    return (struct weir_tick_rate){(double)(weir_ticks() - ticks) / (double)passed};
}

/* Sleeps until a moment of CLOCK_MONOTONIC or until a signal came, whichever is first. */
static inline void weir_sleep_until(uint64_t moment)
{
    struct timespec time = {(time_t)(moment / WEIR_S), (long)(moment % WEIR_S)};
#if defined(WEIR_VIRTUAL_CLOCK)
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL);
#else
    weir_clock_sleep(&time);
#endif
}

#endif
