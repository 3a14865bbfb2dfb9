/*
 * Modules: images of one context, and the functions in them.
 *
 * What it does not do: link, compile, or hold textures. Lazy loading is what the driver does by default; here
 * a function has nothing to load.
 */
#include <string.h>

#include "image.h"
#include "objects.h"

static CUresult module_resolve(const char *call, CUmodule handle, struct sim_image **image)
{
    struct sim_context *context;
    CUresult result = sim_enter_context(call, &context);
    *image = (struct sim_image *)handle;
    if (!result && (!*image || (*image)->magic != SIM_IMAGE_MAGIC))
        result = CUDA_ERROR_INVALID_HANDLE;
    return result;
}

static CUresult load(const char *call, CUmodule *module, const void *source)
{
    struct sim_context *context;
    struct sim_image *image;
    CUresult result = sim_enter_context(call, &context);
    if (result || !module)
        return result ? result : CUDA_ERROR_INVALID_VALUE;
    result = sim_image_load(source, 0, context, &image);
    if (!result)
        *module = (CUmodule)image;
    return result;
}

CUresult CUDAAPI cuModuleLoadData(CUmodule *module, const void *source)
{
    return load(__func__, module, source);
}

CUresult CUDAAPI cuModuleLoadDataEx(CUmodule *module, const void *source, unsigned int count, CUjit_option *options,
                                    void **values)
{
    if (count && (!options || !values))
        return CUDA_ERROR_INVALID_VALUE;
    return load(__func__, module, source);
}

CUresult CUDAAPI cuModuleLoadFatBinary(CUmodule *module, const void *source)
{
    return load(__func__, module, source);
}

CUresult CUDAAPI cuModuleLoad(CUmodule *module, const char *path)
{
    struct sim_context *context;
    struct sim_image *image;
    CUresult result = sim_enter_context(__func__, &context);
    if (result || !module)
        return result ? result : CUDA_ERROR_INVALID_VALUE;
    result = sim_image_read(path, context, &image);
    if (!result)
        *module = (CUmodule)image;
    return result;
}

CUresult CUDAAPI cuModuleUnload(CUmodule module)
{
    struct sim_image *image;
    CUresult result = module_resolve(__func__, module, &image);
    if (!result && !image->context) /* a library's module goes with the library */
        result = CUDA_ERROR_NOT_PERMITTED;
    if (!result)
        result = sim_capture_forbids();
    if (!result)
        sim_image_unload(image);
    return result;
}

CUresult CUDAAPI cuModuleGetLoadingMode(CUmoduleLoadingMode *mode)
{
    CUresult result = sim_enter(__func__);
    if (result || !mode)
        return result ? result : CUDA_ERROR_INVALID_VALUE;
    *mode = CU_MODULE_LAZY_LOADING;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuModuleGetFunction(CUfunction *handle, CUmodule module, const char *name)
{
    struct sim_image *image;
    struct sim_function *function;
    CUresult result = module_resolve(__func__, module, &image);
    if (result || !handle || !name)
        return result ? result : CUDA_ERROR_INVALID_VALUE;
    result = sim_image_function(image, name, &function);
    if (!result)
        *handle = (CUfunction)function;
    return result;
}

CUresult CUDAAPI cuModuleGetFunctionCount(unsigned int *count, CUmodule module)
{
    struct sim_image *image;
    CUresult result = module_resolve(__func__, module, &image);
    if (result || !count)
        return result ? result : CUDA_ERROR_INVALID_VALUE;
    *count = sim_image_function_count(image);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuModuleEnumerateFunctions(CUfunction *functions, unsigned int count, CUmodule module)
{
    struct sim_image *image;
    CUresult result = module_resolve(__func__, module, &image);
    if (result || !functions)
        return result ? result : CUDA_ERROR_INVALID_VALUE;
    unsigned i = 0;
    for (struct sim_function *f = image->functions; f && i < count; f = f->next)
        functions[i++] = (CUfunction)f;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuModuleGetGlobal_v2(CUdeviceptr *address, size_t *size, CUmodule module, const char *name)
{
    struct sim_image *image;
    CUresult result = module_resolve(__func__, module, &image);
    if (result || !name)
        return result ? result : CUDA_ERROR_INVALID_VALUE;
    return sim_image_global(image, name, address, size);
}
