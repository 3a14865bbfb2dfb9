/*
 * cuCtxSetLimit: what kernels need for their stacks, their heap and what they print.
 *
 * The card keeps a stack for every thread that it can hold at once, so one KiB more of it takes 264 MiB of an H200.
 * A context's first values are part of what a context costs; what a program raises them by is charged before the
 * call, in whole pages, whether the driver takes it at once or when a kernel needs it, and given back when they
 * are lowered or the context ends. Two threads that set the same limit of one context at once are not told apart.
 *
 * Not here: a kernel's own need for more, met by the driver at its launch (the agent's reconciliation sees that),
 * and the limits of launches from the card, whose cost is not known (counted, as in uncovered.h).
 */
#include "account.h"
#include "memory.h"
#include "objects.h"
#include "unaccounted.h"

static uint64_t threads_of_card(void)
{
    CUdevice card = 0;
    int processors = 0, threads = 0;
    if (WEIR_REAL(cuCtxGetDevice)(&card) != CUDA_SUCCESS)
        return 0;
    WEIR_REAL(cuDeviceGetAttribute)(&processors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, card);
    WEIR_REAL(cuDeviceGetAttribute)(&threads, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, card);
    return (uint64_t)processors * (uint64_t)threads;
}

/* Bytes that one unit of a limit stands for; 0: of none that is charged. */
static uint64_t unit_of(CUlimit limit)
{
    if (limit == CU_LIMIT_STACK_SIZE)
        return threads_of_card();
    return limit == CU_LIMIT_MALLOC_HEAP_SIZE || limit == CU_LIMIT_PRINTF_FIFO_SIZE;
}

static uint64_t bytes_for(uint64_t unit, size_t value)
{
    uint64_t bytes;
    return weir_footprint(__builtin_mul_overflow(unit, (uint64_t)value, &bytes) ? UINT64_MAX : bytes);
}

static size_t value_of(CUlimit limit)
{
    size_t value = 0;
    return WEIR_ASK(cuCtxGetLimit, &value, limit) == CUDA_SUCCESS ? value : 0;
}

/* What a limit takes beyond its first value. */
static uint64_t extra(const struct weir_object *object, uint64_t bytes)
{
    return bytes > object->size ? bytes - object->size : 0;
}

static CUresult set(CUlimit limit, size_t value, uint64_t unit)
{
    int device = weir_current_device();
    void *context = weir_current_context();
    uint64_t name = (uint64_t)(uintptr_t)context << 2 | (uint64_t)limit;
    struct weir_object object;
    if (!weir_object_take(WEIR_TAG_LIMIT, name, &object))
        object = (struct weir_object){.size = bytes_for(unit, value_of(limit)),
                                      .context = context,
                                      .device = (int16_t)device,
                                      .kind = WEIR_KIND_OTHER};
    uint64_t wanted = extra(&object, bytes_for(unit, value)), before = object.charged;
    uint64_t reserved = wanted > before ? wanted : before;
    CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
    if (reserved == before || weir_charge(device, WEIR_KIND_OTHER, reserved - before)) {
        result = WEIR_CALL(cuCtxSetLimit, limit, value);
        object.charged = result == CUDA_SUCCESS ? wanted : before;
        weir_give_back(device, WEIR_KIND_OTHER, reserved - object.charged);
    }
    if (device >= 0 && context)
        weir_keep(WEIR_TAG_LIMIT, name, &object);
    return result;
}

/* Limits of kernels that launch kernels: they take memory too. */
static bool may_raise(CUlimit limit, size_t value)
{
    bool of_launches = limit == CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH ||
                       limit == CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT;
    return !of_launches || value <= value_of(limit) || WEIR_UNACCOUNTED(WEIR_API_MEMORY, "cuCtxSetLimit");
}

CUresult cuCtxSetLimit(CUlimit limit, size_t value)
{
    if (weir_inside || !weir_slice())
        return WEIR_REAL(cuCtxSetLimit)(limit, value);
    uint64_t unit = unit_of(limit);
    if (unit)
        return set(limit, value, unit);
    return may_raise(limit, value) ? WEIR_CALL(cuCtxSetLimit, limit, value) : CUDA_ERROR_UNSUPPORTED_LIMIT;
}
