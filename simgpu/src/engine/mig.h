/*
 * Cutting the cards of a machine into MIG devices, when the machine is made.
 *
 * A machine's name may end in `,mig=PROFILE*N`: `h200:2,mig=1g.18gb*7` has two cards of seven MIG devices each.
 * A profile is spelt as NVIDIA does, compute slices (of 7) and gigabytes: what it takes of the card's 8 memory
 * slices follows from the gigabytes. Nothing is cut later.
 */
#ifndef SIMGPU_MIG_H
#define SIMGPU_MIG_H

#include "engine.h"

/* 0, also for a name without MIG; -EINVAL for a profile that there isn't or that does not fit so often. */
int sim_mig_check(const struct sim_model *model, const char *machine);
/* Cuts all cards of a machine that is being made; its name was checked. */
void sim_mig_make(struct sim_state *state, const struct sim_model *model);

#endif
