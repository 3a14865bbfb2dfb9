/*
 * Reads the control page under its sequence lock, and works out what is in force now. Nothing here waits: an agent
 * that died half-way through a write leaves an odd sequence, and what it left is then used as it stands.
 */
#include "slice.h"

#include <string.h>
#include <time.h>

#include "internal.h"

#define READ_TRIES 1000 /* a write of the page takes about a microsecond */

uint64_t weir_coarse_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void weir_control_copy(const struct weir_slice *slice, uint32_t device, struct weir_control_device *out)
{
    const char *source = (const char *)slice->control + slice->control_header;
    size_t known = offsetof(struct weir_control_device, reserved);
    size_t length = slice->control_stride < known ? slice->control_stride : known;
    memcpy(out, source + (size_t)device * slice->control_stride, length);
    memset((char *)out + length, 0, known - length);
}

static uint32_t read_whole(const struct weir_slice *slice, uint32_t device, struct weir_control_device *out,
                           uint32_t *policy)
{
    uint32_t before = 0;
    for (int tries = 0; tries < READ_TRIES; tries++) {
        before = weir_control_sequence(slice);
        if (out)
            weir_control_copy(slice, device, out);
        if (policy)
            *policy = slice->control->policy;
        atomic_thread_fence(memory_order_acquire);
        if (out && atomic_load_explicit(&slice->own->control.replaced, memory_order_relaxed))
            *out = slice->own->kept[device]; /* the page was cut short, and 0 is no limit */
        bool whole = !(before & 1) || before == atomic_load_explicit(&slice->own->torn, memory_order_relaxed);
        if (whole && atomic_load_explicit(&slice->control->sequence, memory_order_relaxed) == before)
            return before;
    }
    atomic_store_explicit(&slice->own->torn, before, memory_order_relaxed); /* this one is not waited for again */
    return before;
}

uint32_t weir_control_read(const struct weir_slice *slice, uint32_t device, struct weir_control_device *out,
                           uint32_t *policy)
{
    (void)slice; /* it may have been replaced since */
    return read_whole(weir_slice_latest(weir_coarse_now()), device, out, policy);
}

uint64_t weir_memory_size(const struct weir_control_device *control, uint64_t now)
{
    bool leased = weir_in_force(control->lease_deadline, now) && control->lease_memory_limit < control->memory_limit;
    return leased ? control->lease_memory_limit : control->memory_limit;
}

uint64_t weir_memory_chargeable(const struct weir_control_device *control, uint64_t now)
{
    uint64_t size = weir_memory_size(control, now);
    if (size == WEIR_NO_LIMIT || !weir_in_force(control->unaccounted_deadline, now))
        return size;
    return size > control->unaccounted ? size - control->unaccounted : 0;
}

uint64_t weir_memory_limit(const struct weir_slice *slice, uint32_t device)
{
    struct weir_control_device control;
    uint64_t now = weir_coarse_now();
    (void)slice;
    read_whole(weir_slice_latest(now), device, &control, NULL);
    return weir_memory_chargeable(&control, now);
}

bool weir_refuse_unknown(const struct weir_slice *slice)
{
    (void)slice;
    return weir_slice_latest(weir_coarse_now())->control->refuse_unknown != 0;
}
