/*
 * Modules and libraries: the variables that come with code.
 *
 * A module's variables of 1 MiB and more take whole pages when it is loaded; the driver does not say how many, so
 * the image is read (image.h). A library takes its variables' memory when it is first used in a context; it is
 * charged when it is loaded, on the current card, so that the load is refused and no launch later on.
 * Not here: smaller variables and code, which lie in what a context holds already, and what cannot be read; the
 * agent's reconciliation sees what they take beyond.
 */
#include "account.h"
#include "image.h"
#include "memory.h"
#include "objects.h"

static uint64_t pages(uint64_t bytes)
{
    return bytes < WEIR_PACKED_MAX ? 0 : weir_footprint(bytes);
}

static CUresult loaded(CUresult result, enum weir_tag tag, const void *handle, int device, uint64_t charged)
{
    if (!charged)
        return result;
    weir_count_result(device, result);
    struct weir_object object = {.charged = charged,
                                 .context = tag == WEIR_TAG_MODULE ? weir_current_context() : NULL,
                                 .device = (int16_t)device,
                                 .kind = WEIR_KIND_MODULE};
    if (result != CUDA_SUCCESS)
        weir_give_back(device, WEIR_KIND_MODULE, charged);
    else
        weir_keep(tag, (uintptr_t)handle, &object);
    return result;
}

#define LOAD(symbol, tag, handle, bytes, ...)                                                                \
    {                                                                                                        \
        if (weir_inside || !weir_slice())                                                                    \
            return WEIR_REAL(symbol)(__VA_ARGS__);                                                           \
        int device = weir_current_device();                                                                  \
        uint64_t charged = pages(bytes);                                                                     \
        if (charged && !weir_charge(device, WEIR_KIND_MODULE, charged))                                      \
            return CUDA_ERROR_OUT_OF_MEMORY;                                                                 \
        CUresult result = WEIR_CALL(symbol, __VA_ARGS__);                                                    \
        return loaded(result, tag, result == CUDA_SUCCESS ? *handle : NULL, device, charged);                \
    }

CUresult cuModuleLoad(CUmodule *module, const char *file)
LOAD(cuModuleLoad, WEIR_TAG_MODULE, module, weir_image_file_bytes(file), module, file)

CUresult cuModuleLoadData(CUmodule *module, const void *image)
LOAD(cuModuleLoadData, WEIR_TAG_MODULE, module, weir_image_bytes(image), module, image)

CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned int count, CUjit_option *options,
                            void **values)
LOAD(cuModuleLoadDataEx, WEIR_TAG_MODULE, module, weir_image_bytes(image), module, image, count, options, values)

CUresult cuModuleLoadFatBinary(CUmodule *module, const void *image)
LOAD(cuModuleLoadFatBinary, WEIR_TAG_MODULE, module, weir_image_bytes(image), module, image)

CUresult cuLibraryLoadData(CUlibrary *library, const void *code, CUjit_option *jit, void **jit_values,
                           unsigned int jit_count, CUlibraryOption *options, void **values, unsigned int count)
LOAD(cuLibraryLoadData, WEIR_TAG_LIBRARY, library, weir_image_bytes(code), library, code, jit, jit_values,
     jit_count, options, values, count)

CUresult cuLibraryLoadFromFile(CUlibrary *library, const char *file, CUjit_option *jit, void **jit_values,
                               unsigned int jit_count, CUlibraryOption *options, void **values,
                               unsigned int count)
LOAD(cuLibraryLoadFromFile, WEIR_TAG_LIBRARY, library, weir_image_file_bytes(file), library, file, jit, jit_values,
     jit_count, options, values, count)

#define UNLOAD(symbol, tag, type)                                                                            \
    CUresult symbol(type handle)                                                                             \
    {                                                                                                        \
        struct weir_object object;                                                                           \
        bool known = !weir_inside && weir_object_take(tag, (uintptr_t)handle, &object);                      \
        return weir_after_free(WEIR_CALL(symbol, handle), known, tag, (uintptr_t)handle, &object);           \
    }

UNLOAD(cuModuleUnload, WEIR_TAG_MODULE, CUmodule)
UNLOAD(cuLibraryUnload, WEIR_TAG_LIBRARY, CUlibrary)
