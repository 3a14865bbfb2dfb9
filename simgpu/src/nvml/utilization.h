/*
 * NVML's utilisation, computed from the engine's exact history as the driver's samples show it.
 *
 * Pure: the time is an argument. It knows nothing of processes or cards.
 */
#ifndef SIMGPU_UTILIZATION_H
#define SIMGPU_UTILIZATION_H

#include "../engine/engine.h"

#define UTILIZATION_SAMPLE_NS UINT64_C(200000000) /* measured on an H200: samples come every 0.2 s */

/* The end of the newest complete sample. */
uint64_t utilization_newest(uint64_t now);

/* Percent of the newest complete sample: the card's own figure. */
uint32_t utilization_of_sample(const struct sim_history *history, uint64_t now);

/*
 * Percent averaged over all samples that ended after `since`, of a process that exists since `started`: the
 * figure of a process. False when there is no such sample.
 */
bool utilization_since(const struct sim_history *history, uint64_t started, uint64_t since, uint64_t now,
                       uint32_t *percent);

#endif
