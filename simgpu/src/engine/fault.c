/*
 * Faults on demand: calls that fail, cards that fall off the bus, XIDs.
 *
 * Faults are part of the machine's state, so one process (simgpu/faults.py) sets them for all. A call without
 * any pays for one load. What it does not do: repair what a fault broke; a card put back has its memory as the
 * processes left it.
 */
#include "engine.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

/* "cuMemAlloc_v2", "cuLaunchKernel_ptsz" are the same function as "cuMemAlloc", "cuLaunchKernel". */
static size_t base_length(const char *function)
{
    static const char *const suffixes[] = {"_ptsz", "_ptds", "_v1", "_v2", "_v3", "_v4"};
    size_t length = strlen(function);
    for (size_t pass = 0; pass < 2; pass++)
        for (size_t i = 0; i < sizeof(suffixes) / sizeof(suffixes[0]); i++) {
            size_t tail = strlen(suffixes[i]);
            if (length > tail && strncmp(function + length - tail, suffixes[i], tail) == 0)
                length -= tail;
        }
    return length;
}

static bool matches(const struct sim_fault *fault, const char *function, int pid)
{
    size_t length = base_length(function);
    if (fault->remaining == 0 || (fault->pid != 0 && fault->pid != pid))
        return false;
    return strcmp(fault->function, "*") == 0 ||
           (strlen(fault->function) == length && strncmp(fault->function, function, length) == 0);
}

int sim_fault(const char *function)
{
    if (!sim_machine || atomic_load_explicit(&sim_machine->fault_count, memory_order_relaxed) == 0)
        return 0;
    int result = 0;
    sim_lock();
    int pid = sim_self() ? sim_self()->pid : 0;
    for (uint32_t i = 0; i < SIM_FAULTS; i++) {
        struct sim_fault *fault = &sim_machine->faults[i];
        if (!matches(fault, function, pid))
            continue;
        result = fault->result;
        if (--fault->remaining == 0)
            atomic_fetch_sub(&sim_machine->fault_count, 1);
        break;
    }
    sim_unlock();
    return result;
}

bool sim_device_lost(uint32_t device)
{
    return atomic_load_explicit(&sim_machine->lost_count, memory_order_relaxed) > 0 &&
           sim_machine->devices[device].lost;
}

/* With the lock held. */
static void raise_xid(uint32_t device, uint32_t xid)
{
    uint32_t index = atomic_load(&sim_machine->xid_count) % SIM_XIDS;
    sim_machine->xids[index] = (struct sim_xid){.time = sim_now(), .device = device, .xid = xid};
    atomic_fetch_add(&sim_machine->xid_count, 1);
    syscall(SYS_futex, &sim_machine->xid_count, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

/* ---- for simgpu/faults.py ---- */

static struct sim_fault *slot_for(const char *function, int pid)
{
    struct sim_fault *unused = NULL;
    for (uint32_t i = 0; i < SIM_FAULTS; i++) {
        struct sim_fault *fault = &sim_machine->faults[i];
        if (fault->remaining > 0 && fault->pid == pid && strcmp(fault->function, function) == 0)
            return fault;
        if (fault->remaining == 0 && !unused)
            unused = fault;
    }
    return unused;
}

EXPORT int simgpu_fault(const char *function, uint32_t calls, int result, int pid)
{
    char base[sizeof(((struct sim_fault *)0)->function)];
    snprintf(base, sizeof(base), "%.*s", (int)base_length(function), function);
    int error = sim_attach(SIM_OBSERVER);
    if (error)
        return error;
    sim_lock();
    struct sim_fault *fault = slot_for(base, pid);
    if (fault) {
        bool before = fault->remaining > 0;
        *fault = (struct sim_fault){.remaining = calls, .result = result, .pid = pid};
        memcpy(fault->function, base, sizeof(base));
        atomic_fetch_add(&sim_machine->fault_count, (uint32_t)((calls > 0) - before));
    }
    sim_unlock();
    return fault ? 0 : -ENOSPC;
}

EXPORT int simgpu_lose(uint32_t device, int lost)
{
    int error = sim_attach(SIM_OBSERVER);
    if (error || device >= sim_machine->device_count)
        return error ? error : -ENODEV;
    sim_lock();
    struct sim_device *card = &sim_machine->devices[device];
    atomic_fetch_add(&sim_machine->lost_count, (uint32_t)((lost != 0) - (int)card->lost));
    card->lost = lost != 0;
    if (lost)
        raise_xid(device, 79); /* "GPU has fallen off the bus" */
    sim_unlock();
    return 0;
}

EXPORT int simgpu_xid(uint32_t device, uint32_t xid)
{
    int error = sim_attach(SIM_OBSERVER);
    if (error || device >= sim_machine->device_count)
        return error ? error : -ENODEV;
    sim_lock();
    raise_xid(device, xid);
    sim_unlock();
    return 0;
}
