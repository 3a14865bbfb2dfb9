/*
 * The hooks by which physical memory goes to another process and comes from one, or comes back to its own.
 *
 * What is exported by a handle that is no descriptor stays charged until the process ends, for nobody says who has it.
 * An exported descriptor is labelled, so that an import of it is known for what it is: memory of this process gets
 * one more handle; that of a sibling, which pays for it, makes a guest; any other is charged to this process, by the
 * size that the label says, or where there is none (no limiter exported it, /proc cannot be read, or the handle is no
 * descriptor) by what is mapped of it.
 */
#include "account.h"
#include "vmm.h"

CUresult cuMemExportToShareableHandle(void *shared, CUmemGenericAllocationHandle handle,
                                      CUmemAllocationHandleType type, unsigned long long flags)
{
    CUresult result = WEIR_CALL(cuMemExportToShareableHandle, shared, handle, type, flags);
    if (weir_inside || result != CUDA_SUCCESS || !weir_slice())
        return result;
    int fd = type == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR ? *(int *)shared : -1;
    uint64_t number = weir_vmm_number(handle);
    struct weir_object *physical = number ? weir_object_find(WEIR_TAG_PHYSICAL, number) : NULL;
    bool labelled = true;
    if (physical && physical->lock)
        labelled = weir_label_put(fd, (struct weir_label){physical->label_start, physical->label_length});
    else if (physical && physical->charged)
        labelled = weir_physical_share(number, physical, fd);
    if (!labelled && fd >= 0)
        weir_count_error(physical->device);
    return result;
}

static int device_of(CUmemGenericAllocationHandle handle)
{
    CUmemAllocationProp properties;
    CUresult result = WEIR_ASK(cuMemGetAllocationPropertiesFromHandle, &properties, handle);
    return result == CUDA_SUCCESS ? weir_vmm_device(&properties) : weir_current_device();
}

/* The lock of a guest; NULL: no sibling pays. */
static void *lock_label(const struct weir_slice *slice, struct weir_label label)
{
    struct weir_share share;
    void *lock = weir_label_share(slice, label, &share) ? weir_lock_share(slice, share) : NULL;
    if (lock && !weir_label_share(slice, label, &share)) { /* it has died meanwhile */
        weir_unlock_share(lock);
        lock = NULL;
    }
    return lock;
}

/* What is known of imported memory; false: it is this process's own, which has one user more. */
static bool describe(int fd, struct weir_object *physical, uint64_t *number)
{
    const struct weir_slice *slice = weir_slice();
    struct weir_label label;
    struct weir_share share;
    *physical = (struct weir_object){.kind = WEIR_KIND_VMM};
    if (fd < 0 || !weir_label_read(fd, &label))
        return true;
    physical->charged = weir_label_bytes(label);
    *number = label.start & UINT32_MAX;
    if (weir_label_share(slice, label, &share) && (int)share.slot == weir_slot(slice))
        return !weir_physical_hold(*number);
    if ((physical->lock = lock_label(slice, label))) {
        physical->label_start = label.start;
        physical->label_length = label.length;
        physical->charged = 0;
    }
    return true;
}

/* Charges what was imported; false: it does not fit. */
static bool take(CUmemGenericAllocationHandle handle, struct weir_object *physical)
{
    physical->device = (int16_t)device_of(handle);
    if (physical->device == WEIR_NO_DEVICE)
        return true;
    bool asks = physical->charged || physical->device < 0;
    if (asks && !weir_charge(physical->device, WEIR_KIND_VMM, physical->charged))
        return false;
    weir_vmm_add(handle, physical);
    return true;
}

CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle, void *shared,
                                        CUmemAllocationHandleType type)
{
    struct weir_object physical;
    uint64_t number = 0;
    if (weir_inside)
        return WEIR_REAL(cuMemImportFromShareableHandle)(handle, shared, type);
    if (!weir_slice())
        return weir_refusing() ? CUDA_ERROR_OUT_OF_MEMORY
                               : WEIR_CALL(cuMemImportFromShareableHandle, handle, shared, type);
    int fd = type == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR ? (int)(intptr_t)shared : -1;
    bool foreign = describe(fd, &physical, &number);
    CUresult result = WEIR_CALL(cuMemImportFromShareableHandle, handle, shared, type);
    if (!foreign && result == CUDA_SUCCESS) {
        weir_vmm_name(*handle, number);
    } else if (!foreign) {
        weir_physical_drop(number);
    } else if (result != CUDA_SUCCESS) {
        weir_unlock_share(physical.lock);
    } else if (!take(*handle, &physical)) {
        WEIR_ASK(cuMemRelease, *handle);
        weir_unlock_share(physical.lock);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    return result;
}
