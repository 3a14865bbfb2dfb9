/*
 * Initialisation, the handle table, and what NVML says about itself and the system.
 *
 * nvmlInit attaches to the machine as an observer and counts; after the last nvmlShutdown every call says
 * NVML_ERROR_UNINITIALIZED again, while the mapping stays (other threads may be inside it). A fork's child
 * keeps the count and attaches anew at its first call.
 */
#include "library.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

static _Atomic unsigned int initialised;

/* Constant but for its addresses: entry [d][1 + m] is MIG device m of card d, [d][0] the card itself. */
static struct nvml_handle handles[SIM_DEVICES][1 + SIM_MIG_SLICES];

static nvmlReturn_t attach(void) {
    return sim_attach(SIM_OBSERVER) == 0 ? NVML_SUCCESS : NVML_ERROR_DRIVER_NOT_LOADED;
}

static nvmlReturn_t init(const char *function) {
    nvmlReturn_t result = attach();
    if (result != NVML_SUCCESS)
        return result;
    result = (nvmlReturn_t)sim_fault(function);
    if (result != NVML_SUCCESS)
        return result;
    for (uint32_t device = 0; device < SIM_DEVICES; device++)
        for (int32_t slot = 0; slot <= SIM_MIG_SLICES; slot++)
            handles[device][slot] = (struct nvml_handle){device, slot - 1};
    atomic_fetch_add(&initialised, 1);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlInit(void) {
    return init(__func__);
}

nvmlReturn_t nvmlInit_v2(void) {
    return init(__func__);
}

nvmlReturn_t nvmlInitWithFlags(unsigned int flags) {
    (void)flags;
    return init(__func__);
}

nvmlReturn_t nvmlShutdown(void) {
    unsigned int count = atomic_load(&initialised);
    do {
        if (count == 0)
            return NVML_ERROR_UNINITIALIZED;
    } while (!atomic_compare_exchange_weak(&initialised, &count, count - 1));
    return NVML_SUCCESS;
}

nvmlReturn_t nvml_ready(const char *function) {
    if (atomic_load(&initialised) == 0)
        return NVML_ERROR_UNINITIALIZED;
    nvmlReturn_t result = sim_attached() ? NVML_SUCCESS : attach();
    return result == NVML_SUCCESS ? (nvmlReturn_t)sim_fault(function) : result;
}

nvmlReturn_t nvml_open(const char *function, nvmlDevice_t device, const struct nvml_handle **handle) {
    nvmlReturn_t result = nvml_ready(function);
    if (result != NVML_SUCCESS)
        return result;
    uintptr_t address = (uintptr_t)device, table = (uintptr_t)handles;
    if (address < table || address >= table + sizeof handles || (address - table) % sizeof **handle != 0)
        return NVML_ERROR_INVALID_ARGUMENT;
    const struct nvml_handle *found = (const struct nvml_handle *)device;
    if (found->device >= sim_machine->device_count)
        return NVML_ERROR_INVALID_ARGUMENT;
    *handle = found;
    return sim_device_lost(found->device) ? NVML_ERROR_GPU_IS_LOST : NVML_SUCCESS;
}

nvmlDevice_t nvml_handle_of(uint32_t device, int32_t mig) {
    return (nvmlDevice_t)&handles[device][1 + mig];
}

nvmlReturn_t nvml_text(char *buffer, unsigned int length, const char *text) {
    if (!buffer)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (strlen(text) >= length)
        return NVML_ERROR_INSUFFICIENT_SIZE;
    strcpy(buffer, text);
    return NVML_SUCCESS;
}

/* ---- the system ---- */

nvmlReturn_t nvmlSystemGetDriverVersion(char *version, unsigned int length) {
    nvmlReturn_t result = nvml_ready(__func__);
    return result == NVML_SUCCESS ? nvml_text(version, length, sim_hardware->driver_version) : result;
}

nvmlReturn_t nvmlSystemGetNVMLVersion(char *version, unsigned int length) {
    char text[80];
    nvmlReturn_t result = nvml_ready(__func__);
    if (result != NVML_SUCCESS)
        return result;
    snprintf(text, sizeof text, "%u.%s", sim_hardware->cuda_version / 1000, sim_hardware->driver_version);
    return nvml_text(version, length, text);
}

static nvmlReturn_t cuda_version(const char *function, int *version) {
    nvmlReturn_t result = nvml_ready(function);
    if (result == NVML_SUCCESS && !version)
        result = NVML_ERROR_INVALID_ARGUMENT;
    if (result == NVML_SUCCESS)
        *version = (int)sim_hardware->cuda_version;
    return result;
}

nvmlReturn_t nvmlSystemGetCudaDriverVersion(int *version) {
    return cuda_version(__func__, version);
}

nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int *version) {
    return cuda_version(__func__, version);
}

nvmlReturn_t nvmlSystemGetProcessName(unsigned int pid, char *name, unsigned int length) {
    char found[sizeof sim_machine->processes[0].name] = "";
    nvmlReturn_t result = nvml_ready(__func__);
    if (result != NVML_SUCCESS)
        return result;
    sim_lock();
    for (uint32_t i = 0; i < sim_machine->process_limit; i++) {
        const struct sim_process *process = &sim_machine->processes[i];
        if (process->in_use && process->pid == (pid_t)pid)
            snprintf(found, sizeof found, "%s", process->name);
    }
    sim_unlock();
    return *found ? nvml_text(name, length, found) : NVML_ERROR_NOT_FOUND;
}

/* ---- errors ---- */

static const char *const messages[] = {
    [NVML_SUCCESS] = "Success",
    [NVML_ERROR_UNINITIALIZED] = "Uninitialized",
    [NVML_ERROR_INVALID_ARGUMENT] = "Invalid Argument",
    [NVML_ERROR_NOT_SUPPORTED] = "Not Supported",
    [NVML_ERROR_NO_PERMISSION] = "Insufficient Permissions",
    [NVML_ERROR_ALREADY_INITIALIZED] = "Already Initialized",
    [NVML_ERROR_NOT_FOUND] = "Not Found",
    [NVML_ERROR_INSUFFICIENT_SIZE] = "Insufficient Size",
    [NVML_ERROR_INSUFFICIENT_POWER] = "Insufficient External Power",
    [NVML_ERROR_DRIVER_NOT_LOADED] = "Driver Not Loaded",
    [NVML_ERROR_TIMEOUT] = "Timeout",
    [NVML_ERROR_IRQ_ISSUE] = "Interrupt Request Issue",
    [NVML_ERROR_LIBRARY_NOT_FOUND] = "NVML Shared Library Not Found",
    [NVML_ERROR_FUNCTION_NOT_FOUND] = "Function Not Found",
    [NVML_ERROR_CORRUPTED_INFOROM] = "Corrupted infoROM",
    [NVML_ERROR_GPU_IS_LOST] = "GPU is lost",
    [NVML_ERROR_RESET_REQUIRED] = "GPU requires reset",
    [NVML_ERROR_OPERATING_SYSTEM] = "GPU access blocked by the operating system",
    [NVML_ERROR_LIB_RM_VERSION_MISMATCH] = "Driver/library version mismatch",
    [NVML_ERROR_IN_USE] = "In use by another client",
    [NVML_ERROR_MEMORY] = "Insufficient Memory",
    [NVML_ERROR_NO_DATA] = "No data",
    [NVML_ERROR_INSUFFICIENT_RESOURCES] = "Insufficient Resources",
    [NVML_ERROR_ARGUMENT_VERSION_MISMATCH] = "Version mismatch",
    [NVML_ERROR_GPU_NOT_FOUND] = "No GPUs were found",
};

const char *nvmlErrorString(nvmlReturn_t result) {
    size_t count = sizeof messages / sizeof messages[0];
    return (size_t)result < count && messages[result] ? messages[result] : "Unknown Error";
}
