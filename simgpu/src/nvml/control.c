/*
 * simgpu_clear: all faults of the running machine forgotten at once, for simgpu/faults.py. The functions that
 * make faults are the engine's (fault.c). Returns 0 or a negative errno; XIDs that were raised stay raised.
 */
#include "library.h"

#include <string.h>

__attribute__((visibility("default"))) int simgpu_clear(void);

int simgpu_clear(void) {
    int error = sim_attach(SIM_OBSERVER);
    if (error)
        return error;
    sim_lock();
    memset(sim_machine->faults, 0, sizeof sim_machine->faults);
    atomic_store(&sim_machine->fault_count, 0);
    for (uint32_t device = 0; device < sim_machine->device_count; device++)
        sim_machine->devices[device].lost = 0;
    atomic_store(&sim_machine->lost_count, 0);
    sim_unlock();
    return 0;
}
