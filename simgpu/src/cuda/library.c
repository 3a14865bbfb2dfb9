/*
 * Libraries: images that no context owns, and kernels that run in whichever is current.
 *
 * A CUkernel may be launched wherever a CUfunction may. A library's module and functions are the library and
 * its kernels themselves. Its variables take memory when one of them, its module or a function of a kernel is first
 * asked for, or a kernel is launched. What it does not do: charge the card for code.
 */
#include "image.h"
#include "objects.h"

static CUresult library_resolve(const char *call, CUlibrary handle, struct sim_image **image)
{
    CUresult result = sim_enter(call);
    *image = (struct sim_image *)handle;
    if (!result && (!*image || (*image)->magic != SIM_IMAGE_MAGIC))
        result = CUDA_ERROR_INVALID_HANDLE;
    return result;
}

static CUresult kernel_resolve(const char *call, CUkernel handle, struct sim_function **kernel)
{
    CUresult result = sim_enter(call);
    return result ? result : sim_function_resolve((CUfunction)handle, kernel);
}

CUresult CUDAAPI cuLibraryLoadData(CUlibrary *library, const void *code, CUjit_option *jit, void **jit_values,
                                   unsigned int jit_count, CUlibraryOption *options, void **values,
                                   unsigned int count)
{
    struct sim_image *image;
    CUresult result = sim_enter(__func__);
    if (result || !library || (jit_count && (!jit || !jit_values)) || (count && !options))
        return result ? result : CUDA_ERROR_INVALID_VALUE;
    (void)values;
    result = sim_image_load(code, 0, NULL, &image);
    if (!result)
        *library = (CUlibrary)image;
    return result;
}

CUresult CUDAAPI cuLibraryLoadFromFile(CUlibrary *library, const char *path, CUjit_option *jit,
                                       void **jit_values, unsigned int jit_count, CUlibraryOption *options,
                                       void **values, unsigned int count)
{
    struct sim_image *image;
    CUresult result = sim_enter(__func__);
    if (result || !library || (jit_count && (!jit || !jit_values)) || (count && !options))
        return result ? result : CUDA_ERROR_INVALID_VALUE;
    (void)values;
    result = sim_image_read(path, NULL, &image);
    if (!result)
        *library = (CUlibrary)image;
    return result;
}

CUresult CUDAAPI cuLibraryUnload(CUlibrary library)
{
    struct sim_image *image;
    CUresult result = library_resolve(__func__, library, &image);
    if (!result)
        result = sim_capture_forbids();
    if (!result)
        sim_image_unload(image);
    return result;
}

CUresult CUDAAPI cuLibraryGetKernel(CUkernel *handle, CUlibrary library, const char *name)
{
    struct sim_image *image;
    struct sim_function *kernel;
    CUresult result = library_resolve(__func__, library, &image);
    if (result || !handle || !name)
        return result ? result : CUDA_ERROR_INVALID_VALUE;
    result = sim_image_function(image, name, &kernel);
    if (!result)
        *handle = (CUkernel)kernel;
    return result;
}

CUresult CUDAAPI cuLibraryGetKernelCount(unsigned int *count, CUlibrary library)
{
    struct sim_image *image;
    CUresult result = library_resolve(__func__, library, &image);
    if (result || !count)
        return result ? result : CUDA_ERROR_INVALID_VALUE;
    *count = sim_image_function_count(image);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuLibraryEnumerateKernels(CUkernel *kernels, unsigned int count, CUlibrary library)
{
    struct sim_image *image;
    CUresult result = library_resolve(__func__, library, &image);
    if (result || !kernels)
        return result ? result : CUDA_ERROR_INVALID_VALUE;
    unsigned i = 0;
    for (struct sim_function *f = image->functions; f && i < count; f = f->next)
        kernels[i++] = (CUkernel)f;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuLibraryGetModule(CUmodule *module, CUlibrary library)
{
    struct sim_image *image;
    struct sim_context *context;
    CUresult result = library_resolve(__func__, library, &image);
    if (!result)
        result = sim_context_resolve(NULL, &context);
    if (!result)
        result = sim_image_place(image, context);
    if (result || !module)
        return result ? result : CUDA_ERROR_INVALID_VALUE;
    *module = (CUmodule)image;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuLibraryGetGlobal(CUdeviceptr *address, size_t *size, CUlibrary library, const char *name)
{
    struct sim_image *image;
    CUresult result = library_resolve(__func__, library, &image);
    if (result || !name)
        return result ? result : CUDA_ERROR_INVALID_VALUE;
    return sim_image_global(image, name, address, size);
}

/* ---- kernels ---- */

CUresult CUDAAPI cuKernelGetFunction(CUfunction *function, CUkernel handle)
{
    struct sim_function *kernel;
    struct sim_context *context;
    CUresult result = kernel_resolve(__func__, handle, &kernel);
    if (!result)
        result = sim_context_resolve(NULL, &context);
    if (!result)
        result = sim_image_place(kernel->image, context);
    if (result || !function)
        return result ? result : CUDA_ERROR_INVALID_VALUE;
    *function = (CUfunction)kernel;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuKernelGetLibrary(CUlibrary *library, CUkernel handle)
{
    struct sim_function *kernel;
    CUresult result = kernel_resolve(__func__, handle, &kernel);
    if (result || !library)
        return result ? result : CUDA_ERROR_INVALID_VALUE;
    *library = (CUlibrary)kernel->image;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuKernelGetName(const char **name, CUkernel kernel)
{
    return cuFuncGetName(name, (CUfunction)kernel);
}

CUresult CUDAAPI cuKernelGetParamInfo(CUkernel kernel, size_t index, size_t *offset, size_t *size)
{
    return cuFuncGetParamInfo((CUfunction)kernel, index, offset, size);
}

CUresult CUDAAPI cuKernelGetAttribute(int *value, CUfunction_attribute attribute, CUkernel kernel,
                                      CUdevice device)
{
    uint32_t index;
    CUresult result = sim_device_resolve(device, &index);
    return result ? result : cuFuncGetAttribute(value, attribute, (CUfunction)kernel);
}

CUresult CUDAAPI cuKernelSetAttribute(CUfunction_attribute attribute, int value, CUkernel kernel,
                                      CUdevice device)
{
    uint32_t index;
    CUresult result = sim_device_resolve(device, &index);
    return result ? result : cuFuncSetAttribute((CUfunction)kernel, attribute, value);
}

CUresult CUDAAPI cuKernelSetCacheConfig(CUkernel kernel, CUfunc_cache config, CUdevice device)
{
    uint32_t index;
    CUresult result = sim_device_resolve(device, &index);
    return result ? result : cuFuncSetCacheConfig((CUfunction)kernel, config);
}
