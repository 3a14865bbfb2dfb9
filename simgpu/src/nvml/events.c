/*
 * Event sets: XID errors of the cards a set was registered for.
 *
 * The machine keeps the newest XIDs in a ring with a count that only grows; a set remembers the count up to
 * which it has looked, beginning at its registration, so one set's reading takes nothing from another's. A
 * wait sleeps on the count itself (a futex in the shared state), without the engine's lock. A reader that is
 * more than a ring late misses the oldest. Other kinds of event never happen here.
 */
#include "library.h"

#include <errno.h>
#include <linux/futex.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define MILLISECOND UINT64_C(1000000)

struct event_set {
    uint32_t looked;  /* XIDs up to this count were seen */
    uint32_t devices; /* a bit for each registered card */
};

NVML_VALUE(nvmlDeviceGetSupportedEventTypes, unsigned long long, nvmlEventTypeXidCriticalError)

nvmlReturn_t nvmlEventSetCreate(nvmlEventSet_t *set) {
    nvmlReturn_t result = nvml_ready(__func__);
    if (result != NVML_SUCCESS)
        return result;
    if (!set)
        return NVML_ERROR_INVALID_ARGUMENT;
    struct event_set *made = calloc(1, sizeof *made);
    *set = (nvmlEventSet_t)made;
    return made ? NVML_SUCCESS : NVML_ERROR_MEMORY;
}

nvmlReturn_t nvmlEventSetFree(nvmlEventSet_t set) {
    nvmlReturn_t result = nvml_ready(__func__);
    if (result == NVML_SUCCESS && !set)
        result = NVML_ERROR_INVALID_ARGUMENT;
    if (result == NVML_SUCCESS)
        free(set);
    return result;
}

nvmlReturn_t nvmlDeviceRegisterEvents(nvmlDevice_t device, unsigned long long types, nvmlEventSet_t set) {
    struct event_set *events = (struct event_set *)set;
    const struct nvml_handle *at;
    nvmlReturn_t result = nvml_open(__func__, device, &at);
    if (result != NVML_SUCCESS)
        return result;
    if (!events)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (types & ~(unsigned long long)nvmlEventTypeXidCriticalError)
        return NVML_ERROR_NOT_SUPPORTED;
    if (!events->devices)
        events->looked = atomic_load(&sim_machine->xid_count);
    events->devices |= 1u << at->device;
    return NVML_SUCCESS;
}

/* The next XID of this set's cards, if one is there. */
static bool next_xid(struct event_set *set, struct sim_xid *found) {
    bool any = false;
    sim_lock();
    uint32_t count = atomic_load(&sim_machine->xid_count);
    if (count - set->looked > SIM_XIDS)
        set->looked = count - SIM_XIDS;
    while (!any && set->looked != count) {
        *found = sim_machine->xids[set->looked++ % SIM_XIDS];
        any = set->devices >> found->device & 1;
    }
    sim_unlock();
    return any;
}

static bool any_lost(const struct event_set *set) {
    for (uint32_t device = 0; device < sim_machine->device_count; device++)
        if (set->devices >> device & 1 && sim_device_lost(device))
            return true;
    return false;
}

/* Sleeps until there are other than `seen` XIDs, or until `deadline`; false when it has passed. */
static bool sleep_for_xid(uint32_t seen, uint64_t deadline) {
    uint64_t now = sim_now();
    if (now >= deadline)
        return false;
    uint64_t left = deadline - now;
    struct timespec time = {.tv_sec = (time_t)(left / (1000 * MILLISECOND)),
                            .tv_nsec = (long)(left % (1000 * MILLISECOND))};
    syscall(SYS_futex, &sim_machine->xid_count, FUTEX_WAIT, seen, &time, NULL, 0);
    return true;
}

/* The first version of the struct ends before the MIG instances: `size` is how much the caller has room for. */
static nvmlReturn_t wait_for(const char *function, nvmlEventSet_t set, nvmlEventData_t *data, size_t size,
                             unsigned int milliseconds) {
    struct event_set *events = (struct event_set *)set;
    struct sim_xid xid;
    nvmlReturn_t result = nvml_ready(function);
    if (result == NVML_SUCCESS && (!events || !data))
        result = NVML_ERROR_INVALID_ARGUMENT;
    if (result != NVML_SUCCESS)
        return result;
    uint64_t deadline = sim_now() + milliseconds * MILLISECOND;
    for (;;) {
        uint32_t seen = atomic_load(&sim_machine->xid_count);
        if (next_xid(events, &xid))
            break;
        if (any_lost(events))
            return NVML_ERROR_GPU_IS_LOST;
        if (!sleep_for_xid(seen, deadline))
            return NVML_ERROR_TIMEOUT;
    }
    nvmlEventData_t found = {.device = nvml_handle_of(xid.device, NVML_WHOLE_CARD),
                             .eventType = nvmlEventTypeXidCriticalError,
                             .eventData = xid.xid,
                             .gpuInstanceId = SIM_NONE,
                             .computeInstanceId = SIM_NONE};
    memcpy(data, &found, size);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlEventSetWait(nvmlEventSet_t set, nvmlEventData_t *data, unsigned int milliseconds) {
    return wait_for(__func__, set, data, offsetof(nvmlEventData_t, gpuInstanceId), milliseconds);
}

nvmlReturn_t nvmlEventSetWait_v2(nvmlEventSet_t set, nvmlEventData_t *data, unsigned int milliseconds) {
    return wait_for(__func__, set, data, sizeof *data, milliseconds);
}
