/*
 * Virtual memory management. What costs card memory is the physical allocation, and it lives as long as a handle
 * or a mapping of it does; addresses cost nothing.
 *
 * Each allocation gets a number of ours and one entry that counts handle references plus mappings; handles and
 * mappings point to it by that number, since the driver may give the same handle out again while a mapping still
 * keeps the old memory. Memory located on the host is charged to nobody. Handles that are not known (imported
 * ones) pass through.
 */
#include "account.h"
#include "internal.h"
#include "memory.h"
#include "objects.h"

static _Atomic uint64_t last_number;

static void add_reference(uint64_t number)
{
    struct weir_object *physical = weir_object_find(WEIR_TAG_PHYSICAL, number);
    if (physical)
        atomic_fetch_add(&physical->refs, 1);
}

static void drop_reference(uint64_t number)
{
    struct weir_object *physical = weir_object_find(WEIR_TAG_PHYSICAL, number);
    struct weir_object object;
    if (!physical || atomic_fetch_sub(&physical->refs, 1) != 1)
        return;
    if (!weir_object_take(WEIR_TAG_PHYSICAL, number, &object))
        return;
    weir_count_free(object.device);
    weir_give_back(object.device, WEIR_KIND_VMM, object.charged);
}

/* The slice's device that a new allocation lies on. */
static int device_of(const CUmemAllocationProp *properties)
{
    if (!properties || properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
        return WEIR_NO_DEVICE;
    return weir_device_of(properties->location.id);
}

static void remember(CUmemGenericAllocationHandle handle, int device, uint64_t size)
{
    uint64_t number = atomic_fetch_add(&last_number, 1) + 1;
    struct weir_object physical = {
        .size = size, .charged = size, .device = (int16_t)device, .kind = WEIR_KIND_VMM, .refs = 1};
    struct weir_object named = {.size = size, .link = number, .device = (int16_t)device, .refs = 1};
    if (!weir_object_put(WEIR_TAG_PHYSICAL, number, &physical) ||
        !weir_object_put(WEIR_TAG_HANDLE, handle, &named))
        weir_count_error(device);
}

CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t size, const CUmemAllocationProp *properties,
                     unsigned long long flags)
{
    if (weir_inside)
        return WEIR_REAL(cuMemCreate)(handle, size, properties, flags);
    int device = device_of(properties);
    uint64_t bytes = weir_footprint(size);
    bool on_host = properties && properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE;
    if (!on_host && !weir_charge(device, WEIR_KIND_VMM, bytes))
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult result = WEIR_CALL(cuMemCreate, handle, size, properties, flags);
    weir_count_result(device, result);
    if (device >= 0 && result == CUDA_SUCCESS)
        remember(*handle, device, bytes);
    else if (device >= 0)
        weir_give_back(device, WEIR_KIND_VMM, bytes);
    return result;
}

/* Takes one reference off a handle's entry, and the entry away with the last. Gives the allocation's number. */
static uint64_t unname(CUmemGenericAllocationHandle handle)
{
    struct weir_object *named = weir_object_find(WEIR_TAG_HANDLE, handle);
    struct weir_object object;
    if (!named)
        return 0;
    uint64_t number = named->link;
    if (atomic_fetch_sub(&named->refs, 1) == 1)
        weir_object_take(WEIR_TAG_HANDLE, handle, &object);
    return number;
}

static void name(CUmemGenericAllocationHandle handle, uint64_t number)
{
    struct weir_object *named = weir_object_find(WEIR_TAG_HANDLE, handle);
    if (named) {
        atomic_fetch_add(&named->refs, 1);
        return;
    }
    struct weir_object *physical = weir_object_find(WEIR_TAG_PHYSICAL, number);
    struct weir_object object = {.link = number, .device = WEIR_NO_DEVICE, .refs = 1};
    if (physical) {
        object.size = physical->size;
        object.device = physical->device;
    }
    if (!weir_object_put(WEIR_TAG_HANDLE, handle, &object))
        weir_count_error(object.device);
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle)
{
    if (weir_inside || !weir_slice())
        return WEIR_REAL(cuMemRelease)(handle);
    uint64_t number = unname(handle); /* first: the driver may give the handle out again at once */
    CUresult result = WEIR_CALL(cuMemRelease, handle);
    if (number && result == CUDA_SUCCESS)
        drop_reference(number);
    else if (number)
        name(handle, number);
    return result;
}

CUresult cuMemMap(CUdeviceptr address, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
                  unsigned long long flags)
{
    struct weir_object *named = weir_inside || !weir_slice() ? NULL : weir_object_find(WEIR_TAG_HANDLE, handle);
    uint64_t number = named ? named->link : 0;
    if (number)
        add_reference(number);
    CUresult result = WEIR_CALL(cuMemMap, address, size, offset, handle, flags);
    if (!number)
        return result;
    struct weir_object mapping = {.size = size, .link = number};
    if (result != CUDA_SUCCESS)
        drop_reference(number);
    else if (!weir_object_put(WEIR_TAG_MAPPING, address, &mapping))
        weir_count_error(WEIR_NO_DEVICE);
    return result;
}

CUresult cuMemUnmap(CUdeviceptr address, size_t size)
{
    CUresult result = WEIR_CALL(cuMemUnmap, address, size);
    if (weir_inside || result != CUDA_SUCCESS || !weir_slice())
        return result;
    for (CUdeviceptr at = address; at - address < size;) { /* a range may hold several mappings, and gaps */
        struct weir_object mapping = {.size = WEIR_BLOCK};
        if (weir_object_take(WEIR_TAG_MAPPING, at, &mapping))
            drop_reference(mapping.link);
        at += mapping.size ? mapping.size : WEIR_BLOCK;
    }
    return result;
}

/* The allocation mapped at an address: mappings are known by their start, so look back for it page by page. */
static uint64_t mapped_at(CUdeviceptr address)
{
    for (CUdeviceptr at = address / WEIR_BLOCK * WEIR_BLOCK; at; at -= WEIR_BLOCK) {
        struct weir_object *mapping = weir_object_find(WEIR_TAG_MAPPING, at);
        if (mapping)
            return address - at < mapping->size ? mapping->link : 0;
        if (address - at > UINT64_C(1) << 40)
            break; /* no card has a terabyte */
    }
    return 0;
}

CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *address)
{
    CUresult result = WEIR_CALL(cuMemRetainAllocationHandle, handle, address);
    uint64_t number = 0;
    if (!weir_inside && result == CUDA_SUCCESS && weir_slice())
        number = mapped_at((CUdeviceptr)(uintptr_t)address);
    if (number) {
        add_reference(number);
        name(*handle, number);
    }
    return result;
}
