/*
 * Virtual memory management. What costs card memory is the physical allocation, and it lives as long as a handle
 * or a mapping of it does, in any process; addresses cost nothing.
 *
 * Each allocation has a number of ours and one entry that counts handle references plus mappings (physical.h);
 * handles and mappings point to it by that number, since the driver may give the same handle out again while a
 * mapping still keeps the old memory. Memory located on the host is charged to nobody. What crosses a process is in
 * vmm_share.c; where nobody says how much that is, each mapping of it is charged. Handles that are not known pass
 * through.
 */
#include "vmm.h"

#include "account.h"
#include "memory.h"

int weir_vmm_device(const CUmemAllocationProp *properties)
{
    if (!properties || properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
        return WEIR_NO_DEVICE;
    return weir_device_of(properties->location.id);
}

void weir_vmm_add(CUmemGenericAllocationHandle handle, const struct weir_object *physical)
{
    uint64_t number = weir_physical_number();
    if (weir_physical_put(number, physical))
        weir_vmm_name(handle, number);
}

CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t size, const CUmemAllocationProp *properties,
                     unsigned long long flags)
{
    if (weir_inside)
        return WEIR_REAL(cuMemCreate)(handle, size, properties, flags);
    int device = weir_vmm_device(properties);
    uint64_t bytes = weir_footprint(size);
    bool on_host = properties && properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE;
    if (!on_host && !weir_charge(device, WEIR_KIND_VMM, bytes))
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult result = WEIR_CALL(cuMemCreate, handle, size, properties, flags);
    weir_count_result(device, result);
    struct weir_object physical = {.charged = bytes, .device = (int16_t)device, .kind = WEIR_KIND_VMM};
    if (device >= 0 && result == CUDA_SUCCESS)
        weir_vmm_add(*handle, &physical);
    else if (device >= 0)
        weir_give_back(device, WEIR_KIND_VMM, bytes);
    return result;
}

uint64_t weir_vmm_number(CUmemGenericAllocationHandle handle)
{
    struct weir_object *named = weir_object_find(WEIR_TAG_HANDLE, handle);
    return named ? named->link : 0;
}

void weir_vmm_name(CUmemGenericAllocationHandle handle, uint64_t number)
{
    struct weir_object *named = weir_object_find(WEIR_TAG_HANDLE, handle);
    struct weir_object object = {.link = number, .device = WEIR_NO_DEVICE, .refs = 1};
    if (named)
        atomic_fetch_add(&named->refs, 1);
    else
        weir_keep(WEIR_TAG_HANDLE, handle, &object);
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

CUresult cuMemRelease(CUmemGenericAllocationHandle handle)
{
    if (weir_inside || !weir_slice())
        return WEIR_REAL(cuMemRelease)(handle);
    uint64_t number = unname(handle); /* first: the driver may give the handle out again at once */
    CUresult result = WEIR_CALL(cuMemRelease, handle);
    if (number && result == CUDA_SUCCESS)
        weir_physical_drop(number);
    else if (number)
        weir_vmm_name(handle, number);
    return result;
}

/* What a mapping costs: nothing where the allocation is charged, or a sibling's. */
static uint64_t cost_of(uint64_t number, size_t size, int *device)
{
    struct weir_object *physical = weir_object_find(WEIR_TAG_PHYSICAL, number);
    *device = physical ? physical->device : WEIR_NO_DEVICE;
    return physical && !physical->charged && !physical->lock ? weir_footprint(size) : 0;
}

CUresult cuMemMap(CUdeviceptr address, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
                  unsigned long long flags)
{
    uint64_t number = weir_inside || !weir_slice() ? 0 : weir_vmm_number(handle);
    if (!number || !weir_physical_hold(number))
        return WEIR_CALL(cuMemMap, address, size, offset, handle, flags);
    int device;
    uint64_t cost = cost_of(number, size, &device);
    bool fits = !cost || weir_charge(device, WEIR_KIND_VMM, cost);
    CUresult result =
        fits ? WEIR_CALL(cuMemMap, address, size, offset, handle, flags) : CUDA_ERROR_OUT_OF_MEMORY;
    struct weir_object mapping = {.size = size, .link = number, .charged = cost, .device = (int16_t)device};
    if (result == CUDA_SUCCESS) {
        weir_keep(WEIR_TAG_MAPPING, address, &mapping);
        return result;
    }
    if (fits)
        weir_give_back(device, WEIR_KIND_VMM, cost);
    weir_physical_drop(number);
    return result;
}

CUresult cuMemUnmap(CUdeviceptr address, size_t size)
{
    CUresult result = WEIR_CALL(cuMemUnmap, address, size);
    if (weir_inside || result != CUDA_SUCCESS || !weir_slice())
        return result;
    for (CUdeviceptr at = address; at - address < size;) { /* a range may hold several mappings, and gaps */
        struct weir_object mapping = {.size = WEIR_BLOCK};
        if (weir_object_take(WEIR_TAG_MAPPING, at, &mapping)) {
            weir_give_back(mapping.device, WEIR_KIND_VMM, mapping.charged);
            weir_physical_drop(mapping.link);
        }
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
    if (number && weir_physical_hold(number))
        weir_vmm_name(*handle, number);
    return result;
}
