/*
 * nvmlDeviceGetSamples: the card's utilisation, one value for each sample that is still kept, oldest first.
 *
 * As nvml.h has it: without a buffer the call says how many it may need, and a buffer gets what is newer than the
 * caller's last time stamp and has room; none is NOT_FOUND. The time stamp is the end of a sample on the wall
 * clock, which is looked at once, so that a sample keeps its stamp when clocks are set. A sample is as long as on an
 * H200 (utilization.h), but the driver keeps more of them than the engine's history reaches back. Of the other kinds
 * (power, clocks, memory, encoders) there are none.
 */
#include "library.h"

#include <pthread.h>
#include <time.h>

#include "utilization.h"

#define KEPT 11 /* whole samples that lie in the history's 2.56 s, whenever it is asked */

static uint64_t wall_ahead; /* the wall clock less the machine's, ns */

static void look_at_wall(void) {
    struct timespec wall;
    clock_gettime(CLOCK_REALTIME, &wall);
    wall_ahead = (uint64_t)wall.tv_sec * 1000000000 + (uint64_t)wall.tv_nsec - sim_now();
}

/* With the lock held; at most `room`. Returns how many there are. */
static unsigned int fill(const struct sim_device *card, uint64_t now, uint64_t last_seen, nvmlSample_t *samples,
                         unsigned int room) {
    unsigned int count = 0;
    uint64_t end = utilization_newest(now) - (KEPT - 1) * UTILIZATION_SAMPLE_NS;
    for (; end <= now && count < room; end += UTILIZATION_SAMPLE_NS) {
        uint64_t stamp = (end + wall_ahead) / 1000;
        if (end > sim_machine->boot && stamp > last_seen)
            samples[count++] = (nvmlSample_t){
                .timeStamp = stamp, .sampleValue.uiVal = utilization_of_sample(&card->history, end)};
    }
    return count;
}

static nvmlReturn_t check(const struct nvml_handle *at, nvmlSamplingType_t type, const void *value_type,
                          const unsigned int *count, const void *samples) {
    if (!value_type || !count || (samples && !*count) || (unsigned int)type >= NVML_SAMPLINGTYPE_COUNT)
        return NVML_ERROR_INVALID_ARGUMENT;
    bool kept = type == NVML_GPU_UTILIZATION_SAMPLES && !sim_machine->devices[at->device].mig_mode;
    return kept ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED;
}

nvmlReturn_t nvmlDeviceGetSamples(nvmlDevice_t device, nvmlSamplingType_t type, unsigned long long last_seen,
                                  nvmlValueType_t *value_type, unsigned int *count, nvmlSample_t *samples) {
    static pthread_once_t looked = PTHREAD_ONCE_INIT;
    const struct nvml_handle *at;
    nvmlReturn_t result = nvml_open(__func__, device, &at);
    if (result == NVML_SUCCESS)
        result = check(at, type, value_type, count, samples);
    if (result != NVML_SUCCESS)
        return result;
    *value_type = NVML_VALUE_TYPE_UNSIGNED_INT;
    if (!samples) {
        *count = KEPT;
        return NVML_SUCCESS;
    }
    pthread_once(&looked, look_at_wall);
    uint64_t now = sim_lock();
    *count = fill(&sim_machine->devices[at->device], now, last_seen, samples, *count);
    sim_unlock();
    return *count ? NVML_SUCCESS : NVML_ERROR_NOT_FOUND;
}
