/*
 * Device memory as NVML tells it: the card's bytes, and who holds how much of them.
 *
 * Total is the usable memory and the driver's reserve; the first version of the memory query counts the
 * reserve as used, the second tells it apart. A process is listed on a card while it has a context there; its
 * figure leaves managed memory out, as the driver's does. Which process runs on which MIG device is not
 * simulated: processes are listed on the card.
 */
#include "library.h"

#include <stddef.h>
#include <string.h>

#define MIG_MEMORY_SLICES 8

/* What of the card a handle sees, and how much of that is taken; nothing by those that were killed. */
static void look(const struct nvml_handle *at, uint64_t *usable, uint64_t *reserved, uint64_t *used) {
    const struct sim_device *card = &sim_machine->devices[at->device];
    *reserved = sim_hardware->reserved_bytes;
    *usable = sim_hardware->total_bytes - sim_hardware->reserved_bytes;
    sim_lock();
    sim_reap();
    *used = card->used;
    sim_unlock();
    if (at->mig == NVML_WHOLE_CARD)
        return;
    *usable = *usable / MIG_MEMORY_SLICES * card->mig[at->mig].memory_slices;
    *reserved = 0;
    *used = 0;
}

nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory) {
    uint64_t usable, reserved, used;
    const struct nvml_handle *at;
    nvmlReturn_t result = nvml_open(__func__, device, &at);
    if (result == NVML_SUCCESS && !memory)
        result = NVML_ERROR_INVALID_ARGUMENT;
    if (result != NVML_SUCCESS)
        return result;
    look(at, &usable, &reserved, &used);
    *memory = (nvmlMemory_t){.total = usable + reserved, .free = usable - used, .used = used + reserved};
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *memory) {
    uint64_t usable, reserved, used;
    const struct nvml_handle *at;
    nvmlReturn_t result = nvml_open(__func__, device, &at);
    if (result == NVML_SUCCESS && !memory)
        result = NVML_ERROR_INVALID_ARGUMENT;
    if (result == NVML_SUCCESS && memory->version != nvmlMemory_v2)
        result = NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    if (result != NVML_SUCCESS)
        return result;
    look(at, &usable, &reserved, &used);
    memory->total = usable + reserved;
    memory->reserved = reserved;
    memory->free = usable - used;
    memory->used = used;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetBAR1MemoryInfo(nvmlDevice_t device, nvmlBAR1Memory_t *memory) {
    const uint64_t driver_bytes = SIM_MIB; /* the driver's own window */
    const struct nvml_handle *at;
    nvmlReturn_t result = nvml_open(__func__, device, &at);
    if (result == NVML_SUCCESS && !memory)
        result = NVML_ERROR_INVALID_ARGUMENT;
    if (result == NVML_SUCCESS)
        *memory = (nvmlBAR1Memory_t){.bar1Total = sim_hardware->bar1_bytes,
                                     .bar1Free = sim_hardware->bar1_bytes - driver_bytes,
                                     .bar1Used = driver_bytes};
    return result;
}

/* ---- processes ---- */

/* The processes of a card, at most `room` of them into `found`; returns how many there are. */
static unsigned int list(const struct nvml_handle *at, nvmlProcessInfo_v2_t *found, unsigned int room) {
    unsigned int count = 0;
    sim_lock();
    sim_reap();
    for (uint32_t i = 0; i < sim_machine->process_limit && at->mig == NVML_WHOLE_CARD; i++) {
        const struct sim_process *process = &sim_machine->processes[i];
        if (!process->in_use || !process->device[at->device].contexts)
            continue;
        if (count++ < room)
            found[count - 1] = (nvmlProcessInfo_v2_t){
                .pid = (unsigned int)process->pid,
                .usedGpuMemory = sim_process_visible(process, at->device),
                .gpuInstanceId = SIM_NONE,
                .computeInstanceId = SIM_NONE,
            };
    }
    sim_unlock();
    return count;
}

/* The two-call protocol: too little room is an error that says how much is needed. */
static nvmlReturn_t running(const char *function, nvmlDevice_t device, unsigned int *count,
                            nvmlProcessInfo_v2_t *infos) {
    const struct nvml_handle *at;
    nvmlReturn_t result = nvml_open(function, device, &at);
    if (result == NVML_SUCCESS && (!count || (*count && !infos)))
        result = NVML_ERROR_INVALID_ARGUMENT;
    if (result != NVML_SUCCESS)
        return result;
    unsigned int room = *count;
    *count = list(at, infos, room);
    return *count > room ? NVML_ERROR_INSUFFICIENT_SIZE : NVML_SUCCESS;
}

static nvmlReturn_t running_v1(const char *function, nvmlDevice_t device, unsigned int *count,
                               nvmlProcessInfo_v1_t *infos) {
    nvmlProcessInfo_v2_t wide[SIM_PROCESSES];
    if (!count || (*count && !infos))
        return NVML_ERROR_INVALID_ARGUMENT;
    unsigned int room = *count, asked = room < SIM_PROCESSES ? room : SIM_PROCESSES;
    *count = asked;
    nvmlReturn_t result = running(function, device, count, wide);
    for (unsigned int i = 0; result == NVML_SUCCESS && i < *count; i++)
        infos[i] = (nvmlProcessInfo_v1_t){wide[i].pid, wide[i].usedGpuMemory};
    return result;
}

/* Graphics and MPS clients are not simulated: there are none. */
static nvmlReturn_t nobody(const char *function, nvmlDevice_t device, unsigned int *count) {
    const struct nvml_handle *at;
    nvmlReturn_t result = nvml_open(function, device, &at);
    if (result == NVML_SUCCESS && !count)
        result = NVML_ERROR_INVALID_ARGUMENT;
    if (result == NVML_SUCCESS)
        *count = 0;
    return result;
}

#define PROCESS_LISTS(X)                                                                                       \
    X(Compute, , v1, running_v1)                                                                               \
    X(Compute, _v2, v2, running)                                                                               \
    X(Compute, _v3, v2, running)                                                                               \
    X(Graphics, , v1, NOBODY)                                                                                  \
    X(Graphics, _v2, v2, NOBODY)                                                                               \
    X(Graphics, _v3, v2, NOBODY)                                                                               \
    X(MPSCompute, , v1, NOBODY)                                                                                \
    X(MPSCompute, _v2, v2, NOBODY)                                                                             \
    X(MPSCompute, _v3, v2, NOBODY)

#define NOBODY(function, device, count, infos) ((void)(infos), nobody(function, device, count))
#define PROCESS_LIST(kind, version, layout, how)                                                               \
    nvmlReturn_t nvmlDeviceGet##kind##RunningProcesses##version(nvmlDevice_t device, unsigned int *count,      \
                                                                nvmlProcessInfo_##layout##_t *infos) {         \
        return how(__func__, device, count, infos);                                                            \
    }

PROCESS_LISTS(PROCESS_LIST)

nvmlReturn_t nvmlDeviceGetRunningProcessDetailList(nvmlDevice_t device, nvmlProcessDetailList_t *details) {
    nvmlProcessInfo_v2_t found[SIM_PROCESSES];
    const struct nvml_handle *at;
    nvmlReturn_t result = nvml_open(__func__, device, &at);
    if (result == NVML_SUCCESS && !details)
        result = NVML_ERROR_INVALID_ARGUMENT;
    if (result == NVML_SUCCESS && details->version != nvmlProcessDetailList_v1)
        result = NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    if (result != NVML_SUCCESS)
        return result;
    unsigned int room = details->procArray ? details->numProcArrayEntries : 0;
    unsigned int count = details->mode == 0 ? list(at, found, SIM_PROCESSES) : 0; /* 0: compute */
    details->numProcArrayEntries = count;
    if (count > room)
        return NVML_ERROR_INSUFFICIENT_SIZE;
    for (unsigned int i = 0; i < count; i++)
        details->procArray[i] = (nvmlProcessDetail_v1_t){.pid = found[i].pid,
                                                         .usedGpuMemory = found[i].usedGpuMemory,
                                                         .gpuInstanceId = SIM_NONE,
                                                         .computeInstanceId = SIM_NONE};
    return NVML_SUCCESS;
}
