/*
 * Between state.c, process.c and mutex.c: the machine's file and who is alive in it.
 *
 * A process is alive while it holds the lock on its slot's byte of the file, an open-file-description lock
 * that the kernel drops however the process ends. What it does not do: anything for the rest of the engine,
 * which goes through engine.h.
 */
#ifndef SIMGPU_STATE_H
#define SIMGPU_STATE_H

#include "engine.h"

extern char sim_path[4096];

int sim_state_map(void); /* sets sim_machine and sim_hardware; returns the open file, or a negative errno */
void sim_state_initialise(struct sim_state *machine, uint32_t cards, uint64_t now); /* all but mutex and magic */
bool sim_process_on(int descriptor); /* some process of any version is a client of this file's machine */
void sim_reap_at(uint64_t now);

#endif
