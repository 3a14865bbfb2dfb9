/*
 * NVML's utilisation, computed from the engine's exact history: late and smeared, as the driver's is.
 *
 * Pure: the time is an argument. It knows nothing of processes or cards.
 */
#ifndef SIMGPU_UTILIZATION_H
#define SIMGPU_UTILIZATION_H

#include "../engine/engine.h"

/* Parts of 10,000 that NVML shows at `now` for this history. */
uint32_t utilization_basis_points(const struct sim_history *history, uint64_t now);

#endif
