/*
 * What load does to a card: utilisation, power, energy, temperature, clocks.
 *
 * Utilisation is sampled, and late by its samples (utilization.c). Power is a straight line from idle to the
 * limit by utilisation; energy is that line integrated over the exact busy time since the machine was made, so
 * it has no lag. The memory controller, encoders and decoders are not simulated and read 0. Throttling is not
 * simulated either: the only reason a clock is lowered for is an idle card.
 */
#include "library.h"

#include <stddef.h>
#include <time.h>

#include "utilization.h"

#define SAMPLING_PERIOD_US (UTILIZATION_SAMPLE_NS / 1000)
#define IDLE_CELSIUS 30
#define BUSY_CELSIUS 70
#define IDLE_CLOCK_DIVISOR 6 /* an H200 idles at 345 of 1,980 MHz */

/* `from` at idle, `to` under full load. */
static unsigned int between(unsigned int from, unsigned int to, const struct sim_device *card, uint64_t now) {
    return from + (unsigned int)((uint64_t)(to - from) * utilization_of_sample(&card->history, now) / 100);
}

static uint64_t energy_millijoules(const struct sim_device *card, uint64_t now) {
    double idle = sim_hardware->power_idle, busy = sim_hardware->power_limit - sim_hardware->power_idle;
    return (uint64_t)((idle * (double)(now - sim_machine->boot) + busy * (double)card->history.total) * 1e-9);
}

/* Clocks fall when no context keeps the card awake. */
static bool idle(uint32_t device) {
    for (uint32_t i = 0; i < sim_machine->process_limit; i++)
        if (sim_machine->processes[i].in_use && sim_machine->processes[i].device[device].contexts)
            return false;
    return true;
}

static nvmlUtilization_t rates(const struct sim_device *card, uint64_t now) {
    return (nvmlUtilization_t){.gpu = utilization_of_sample(&card->history, now), .memory = 0};
}

NVML_VALUE(nvmlDeviceGetUtilizationRates, nvmlUtilization_t, rates(card, now))
NVML_VALUE(nvmlDeviceGetPowerUsage, unsigned int,
           between(sim_hardware->power_idle, sim_hardware->power_limit, card, now))
NVML_VALUE(nvmlDeviceGetTotalEnergyConsumption, unsigned long long, energy_millijoules(card, now))
NVML_VALUE(nvmlDeviceGetPowerManagementLimit, unsigned int, sim_hardware->power_limit)
NVML_VALUE(nvmlDeviceGetPowerManagementDefaultLimit, unsigned int, sim_hardware->power_limit)
NVML_VALUE(nvmlDeviceGetEnforcedPowerLimit, unsigned int, sim_hardware->power_limit)
NVML_VALUE(nvmlDeviceGetPowerManagementMode, nvmlEnableState_t, NVML_FEATURE_ENABLED)
NVML_VALUE(nvmlDeviceGetPerformanceState, nvmlPstates_t, NVML_PSTATE_0)
NVML_VALUE(nvmlDeviceGetPowerState, nvmlPstates_t, NVML_PSTATE_0)

#define CLOCK_REASONS (idle(at->device) ? nvmlClocksEventReasonGpuIdle : nvmlClocksEventReasonNone)
NVML_VALUE(nvmlDeviceGetCurrentClocksEventReasons, unsigned long long, CLOCK_REASONS)
NVML_VALUE(nvmlDeviceGetCurrentClocksThrottleReasons, unsigned long long, CLOCK_REASONS)
NVML_VALUE(nvmlDeviceGetSupportedClocksEventReasons, unsigned long long, nvmlClocksEventReasonGpuIdle)
NVML_VALUE(nvmlDeviceGetSupportedClocksThrottleReasons, unsigned long long, nvmlClocksEventReasonGpuIdle)

nvmlReturn_t nvmlDeviceGetPowerManagementLimitConstraints(nvmlDevice_t device, unsigned int *low,
                                                          unsigned int *high) {
    const struct nvml_handle *at;
    nvmlReturn_t result = nvml_open(__func__, device, &at);
    if (result == NVML_SUCCESS && (!low || !high))
        result = NVML_ERROR_INVALID_ARGUMENT;
    if (result == NVML_SUCCESS) {
        *low = sim_hardware->power_min_limit;
        *high = sim_hardware->power_limit;
    }
    return result;
}

/* ---- temperature and clocks ---- */

static nvmlReturn_t temperature(const char *function, nvmlDevice_t device, int *degrees) {
    const struct nvml_handle *at;
    nvmlReturn_t result = nvml_open(function, device, &at);
    if (result != NVML_SUCCESS)
        return result;
    uint64_t now = sim_lock();
    *degrees = (int)between(IDLE_CELSIUS, BUSY_CELSIUS, &sim_machine->devices[at->device], now);
    sim_unlock();
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t device, nvmlTemperatureSensors_t sensor,
                                      unsigned int *degrees) {
    if (sensor != NVML_TEMPERATURE_GPU || !degrees)
        return NVML_ERROR_INVALID_ARGUMENT;
    return temperature(__func__, device, (int *)degrees);
}

nvmlReturn_t nvmlDeviceGetTemperatureV(nvmlDevice_t device, nvmlTemperature_t *reading) {
    if (!reading || reading->sensorType != NVML_TEMPERATURE_GPU)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (reading->version != nvmlTemperature_v1)
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    return temperature(__func__, device, &reading->temperature);
}

static nvmlReturn_t clock_rate(const char *function, nvmlDevice_t device, nvmlClockType_t type, bool highest,
                               unsigned int *megahertz) {
    const unsigned int highest_of[] = {
        [NVML_CLOCK_GRAPHICS] = sim_hardware ? sim_hardware->sm_clock_max : 0,
        [NVML_CLOCK_SM] = sim_hardware ? sim_hardware->sm_clock_max : 0,
        [NVML_CLOCK_MEM] = sim_hardware ? sim_hardware->memory_clock_max : 0,
        [NVML_CLOCK_VIDEO] = sim_hardware ? sim_hardware->video_clock_max : 0,
    };
    const struct nvml_handle *at;
    nvmlReturn_t result = nvml_open(function, device, &at);
    if (result == NVML_SUCCESS && (!megahertz || (unsigned int)type >= NVML_CLOCK_COUNT))
        result = NVML_ERROR_INVALID_ARGUMENT;
    if (result != NVML_SUCCESS)
        return result;
    sim_lock();
    bool low = !highest && type != NVML_CLOCK_MEM && idle(at->device);
    sim_unlock();
    *megahertz = highest_of[type] / (low ? IDLE_CLOCK_DIVISOR : 1);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetClockInfo(nvmlDevice_t device, nvmlClockType_t type, unsigned int *megahertz) {
    return clock_rate(__func__, device, type, false, megahertz);
}

nvmlReturn_t nvmlDeviceGetMaxClockInfo(nvmlDevice_t device, nvmlClockType_t type, unsigned int *megahertz) {
    return clock_rate(__func__, device, type, true, megahertz);
}

/* ---- utilisation of processes and engines ---- */

static uint64_t microseconds_since_1970(void) {
    struct timespec time;
    clock_gettime(CLOCK_REALTIME, &time);
    return (uint64_t)time.tv_sec * 1000000 + (uint64_t)time.tv_nsec / 1000;
}

/*
 * One figure for each process with a context and a sample less than `age_us` old; at most `room` are written,
 * all are counted. Their time stamp is the end of the newest sample.
 */
static unsigned int sample(const struct nvml_handle *at, nvmlProcessUtilizationSample_t *samples,
                           unsigned int room, uint64_t age_us) {
    unsigned int count = 0;
    uint64_t wall = microseconds_since_1970(), now = sim_lock();
    uint64_t since = age_us < now / 1000 ? now - age_us * 1000 : 0;
    uint64_t stamp = wall - (now - utilization_newest(now)) / 1000;
    for (uint32_t i = 0; i < sim_machine->process_limit && at->mig == NVML_WHOLE_CARD; i++) {
        const struct sim_process *process = &sim_machine->processes[i];
        const struct sim_process_device *here = &process->device[at->device];
        uint32_t percent;
        if (!process->in_use || !here->contexts ||
            !utilization_since(&here->history, process->started, since, now, &percent))
            continue;
        if (count++ < room)
            samples[count - 1] = (nvmlProcessUtilizationSample_t){
                .pid = (unsigned int)process->pid, .timeStamp = stamp, .smUtil = percent};
    }
    sim_unlock();
    return count;
}

nvmlReturn_t nvmlDeviceGetProcessUtilization(nvmlDevice_t device, nvmlProcessUtilizationSample_t *samples,
                                             unsigned int *count, unsigned long long last_seen) {
    const struct nvml_handle *at;
    nvmlReturn_t result = nvml_open(__func__, device, &at);
    if (result == NVML_SUCCESS && !count)
        result = NVML_ERROR_INVALID_ARGUMENT;
    if (result != NVML_SUCCESS)
        return result;
    unsigned int room = samples ? *count : 0;
    uint64_t wall = microseconds_since_1970();
    *count = last_seen < wall ? sample(at, samples, room, wall - last_seen) : 0;
    if (*count == 0)
        return NVML_ERROR_NOT_FOUND;
    return *count > room ? NVML_ERROR_INSUFFICIENT_SIZE : NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetProcessesUtilizationInfo(nvmlDevice_t device, nvmlProcessesUtilizationInfo_t *info) {
    nvmlProcessUtilizationSample_t samples[SIM_PROCESSES];
    unsigned int count = SIM_PROCESSES;
    if (!info)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (info->version != nvmlProcessesUtilizationInfo_v1)
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    nvmlReturn_t result = nvmlDeviceGetProcessUtilization(device, samples, &count, info->lastSeenTimeStamp);
    if (result != NVML_SUCCESS)
        return result;
    unsigned int room = info->procUtilArray ? info->processSamplesCount : 0;
    info->processSamplesCount = count;
    if (count > room)
        return NVML_ERROR_INSUFFICIENT_SIZE;
    for (unsigned int i = 0; i < count; i++)
        info->procUtilArray[i] = (nvmlProcessUtilizationInfo_v1_t){
            .timeStamp = samples[i].timeStamp, .pid = samples[i].pid, .smUtil = samples[i].smUtil};
    return NVML_SUCCESS;
}

#define IDLE_ENGINE(function)                                                                                  \
    nvmlReturn_t function(nvmlDevice_t device, unsigned int *utilization, unsigned int *period) {              \
        const struct nvml_handle *at;                                                                          \
        nvmlReturn_t result = nvml_open(#function, device, &at);                                               \
        if (result == NVML_SUCCESS && (!utilization || !period))                                               \
            result = NVML_ERROR_INVALID_ARGUMENT;                                                              \
        if (result == NVML_SUCCESS) {                                                                          \
            *utilization = 0;                                                                                  \
            *period = (unsigned int)SAMPLING_PERIOD_US;                                                        \
        }                                                                                                      \
        return result;                                                                                         \
    }

IDLE_ENGINE(nvmlDeviceGetEncoderUtilization)
IDLE_ENGINE(nvmlDeviceGetDecoderUtilization)
IDLE_ENGINE(nvmlDeviceGetJpgUtilization)
IDLE_ENGINE(nvmlDeviceGetOfaUtilization)
