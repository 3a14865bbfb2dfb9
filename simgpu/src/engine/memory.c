/*
 * Who holds how much of a card: one sum for each process, card and kind.
 *
 * A card's `used` is the sum over its processes and never exceeds what is usable, checked under the lock, so
 * two processes that ask at once cannot both get the last bytes. What it does not do: addresses or rounding.
 */
#include "engine.h"

#include <errno.h>

static uint64_t usable(void)
{
    return sim_hardware->total_bytes - sim_hardware->reserved_bytes;
}

static bool fits(uint32_t device, uint64_t bytes)
{
    uint64_t used = sim_machine->devices[device].used;
    return used <= usable() && bytes <= usable() - used;
}

int sim_memory_take(uint32_t device, enum sim_memory_kind kind, uint64_t bytes)
{
    sim_lock();
    if (!fits(device, bytes))
        sim_reap(); /* a process that died a moment ago may hold what is asked for */
    bool taken = fits(device, bytes);
    if (taken) {
        sim_self()->device[device].memory[kind] += bytes;
        sim_machine->devices[device].used += bytes;
    }
    sim_unlock();
    return taken ? 0 : -ENOMEM;
}

void sim_memory_give(uint32_t device, enum sim_memory_kind kind, uint64_t bytes)
{
    sim_lock();
    uint64_t *held = &sim_self()->device[device].memory[kind];
    bytes = bytes < *held ? bytes : *held;
    *held -= bytes;
    sim_machine->devices[device].used -= bytes;
    sim_unlock();
}

void sim_memory_info(uint32_t device, uint64_t *free_bytes, uint64_t *total_bytes)
{
    sim_lock();
    sim_reap(); /* what a killed process held is free */
    *free_bytes = usable() - sim_machine->devices[device].used;
    *total_bytes = usable();
    sim_unlock();
}

uint64_t sim_process_visible(const struct sim_process *process, uint32_t device)
{
    uint64_t sum = 0;
    for (int kind = 0; kind < SIM_MEMORY_KINDS; kind++)
        if (kind != SIM_MEMORY_MANAGED)
            sum += process->device[device].memory[kind];
    return sum;
}
