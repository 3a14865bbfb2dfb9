/*
 * Memory that another API made (Vulkan, NvSciBuf, …): charged to who imports it, by the size that he says, on the
 * current card. The other API's allocation is not seen, so until the import it is the agent's to find.
 */
#include "account.h"
#include "memory.h"

CUresult cuImportExternalMemory(CUexternalMemory *memory, const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *description)
{
    if (weir_inside)
        return WEIR_REAL(cuImportExternalMemory)(memory, description);
    int device = weir_current_device();
    struct weir_object object = {.charged = weir_footprint(description ? description->size : 0),
                                 .device = (int16_t)device,
                                 .kind = WEIR_KIND_OTHER};
    if (!weir_charge(device, WEIR_KIND_OTHER, object.charged))
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult result = WEIR_CALL(cuImportExternalMemory, memory, description);
    weir_count_result(device, result);
    if (result == CUDA_SUCCESS && device >= 0)
        weir_keep(WEIR_TAG_EXTERNAL, (uintptr_t)*memory, &object);
    else
        weir_give_back(device, WEIR_KIND_OTHER, object.charged);
    return result;
}

CUresult cuDestroyExternalMemory(CUexternalMemory memory)
{
    struct weir_object object;
    bool known = !weir_inside && weir_object_take(WEIR_TAG_EXTERNAL, (uintptr_t)memory, &object);
    CUresult result = WEIR_CALL(cuDestroyExternalMemory, memory);
    return weir_after_free(result, known, WEIR_TAG_EXTERNAL, (uintptr_t)memory, &object);
}
