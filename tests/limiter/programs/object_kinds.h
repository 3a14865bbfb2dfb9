/* How each kind of device memory is taken and given back. The table at the end names them; nothing is judged. */
#ifndef OBJECT_KINDS_H
#define OBJECT_KINDS_H

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "gpu.h"

struct object {
    const struct kind *kind; /* NULL: given back */
    void *handle;
};

struct kind {
    const char *name;
    CUresult (*take)(struct object *, size_t);
    CUresult (*give)(struct object *);
};

static CUresult take_buffer(struct object *object, size_t size)
{
    return GPU(cuMemAlloc_v2)((CUdeviceptr *)&object->handle, size);
}

static CUresult give_buffer(struct object *object)
{
    return GPU(cuMemFree_v2)((CUdeviceptr)(uintptr_t)object->handle);
}

static CUresult take_first(struct object *object, size_t size)
{
    CUdeviceptr_v1 pointer = 0;
    CUresult result = GPU(cuMemAlloc)(&pointer, (unsigned)size);
    object->handle = (void *)(uintptr_t)pointer;
    return result;
}

static CUresult give_first(struct object *object)
{
    return GPU(cuMemFree)((CUdeviceptr_v1)(uintptr_t)object->handle);
}

static CUresult take_first_pitch(struct object *object, size_t size)
{
    CUdeviceptr_v1 pointer = 0;
    unsigned pitch;
    CUresult result = GPU(cuMemAllocPitch)(&pointer, &pitch, (unsigned)((size + 15) / 16), 16, 4);
    object->handle = (void *)(uintptr_t)pointer;
    return result;
}

static CUresult take_array(struct object *object, size_t size)
{
    CUDA_ARRAY_DESCRIPTOR shape = {
        .Width = 256, .Height = (size + 1023) / 1024, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 1};
    return GPU(cuArrayCreate_v2)((CUarray *)&object->handle, &shape);
}

static CUresult take_array3d(struct object *object, size_t size)
{
    CUDA_ARRAY3D_DESCRIPTOR shape = {.Width = 64,
                                     .Height = (size + 1023) / 1024,
                                     .Depth = 4,
                                     .Format = CU_AD_FORMAT_HALF,
                                     .NumChannels = 2};
    return GPU(cuArray3DCreate_v2)((CUarray *)&object->handle, &shape);
}

static CUresult give_array(struct object *object)
{
    return GPU(cuArrayDestroy)(object->handle);
}

/* A base level of `size` bytes and three above it; a level is a view, and nobody's to destroy. */
static CUresult take_mipmap(struct object *object, size_t size)
{
    CUarray level;
    CUDA_ARRAY3D_DESCRIPTOR shape = {
        .Width = 1024, .Height = (size + 4095) / 4096, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 1};
    CUresult result = GPU(cuMipmappedArrayCreate)((CUmipmappedArray *)&object->handle, &shape, 4);
    if (result == CUDA_SUCCESS) {
        REQUIRE(GPU(cuMipmappedArrayGetLevel)(&level, object->handle, 1) == CUDA_SUCCESS);
        REQUIRE(GPU(cuArrayDestroy)(level) != CUDA_SUCCESS);
    }
    return result;
}

static CUresult give_mipmap(struct object *object)
{
    return GPU(cuMipmappedArrayDestroy)(object->handle);
}

static char *image_of(size_t size)
{
    static char ptx[512];
    snprintf(ptx, sizeof ptx,
             ".version 6.0\n.target sm_52\n.address_size 64\n// .global .b8 none[99999999];\n"
             ".visible .global .align 8 .b8 half[%zu];\n.global .align 4 .u32 rest[%zu];\n"
             ".visible .entry kernel() { ld.global.u32 %%r1, [rest]; ret; }\n",
             size / 2 / 4 * 4, (size - size / 2 / 4 * 4 + 3) / 4);
    return ptx;
}

static CUresult take_module(struct object *object, size_t size)
{
    return GPU(cuModuleLoadData)((CUmodule *)&object->handle, image_of(size));
}

static CUresult take_file(struct object *object, size_t size)
{
    char path[] = "/tmp/object_kinds-XXXXXX", *image = image_of(size);
    int fd = mkstemp(path);
    REQUIRE(fd >= 0 && write(fd, image, strlen(image)) == (ssize_t)strlen(image) && !close(fd));
    CUresult result = GPU(cuModuleLoad)((CUmodule *)&object->handle, path);
    unlink(path);
    return result;
}

static CUresult give_module(struct object *object)
{
    return GPU(cuModuleUnload)(object->handle);
}

/* Loaded, and used: its variables are on the card from then on. */
static CUresult take_library(struct object *object, size_t size)
{
    CUmodule module;
    CUresult result =
        GPU(cuLibraryLoadData)((CUlibrary *)&object->handle, image_of(size), NULL, NULL, 0, NULL, NULL, 0);
    REQUIRE(result != CUDA_SUCCESS || GPU(cuLibraryGetModule)(&module, object->handle) == CUDA_SUCCESS);
    return result;
}

static CUresult give_library(struct object *object)
{
    return GPU(cuLibraryUnload)(object->handle);
}

/* A file stands for what another API made; the driver owns its descriptor. */
static CUresult take_external(struct object *object, size_t size)
{
    int fd = memfd_create("external", MFD_CLOEXEC);
    REQUIRE(fd >= 0 && !ftruncate(fd, (off_t)size));
    CUDA_EXTERNAL_MEMORY_HANDLE_DESC described = {
        .type = CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD, .handle.fd = fd, .size = size};
    CUresult result = GPU(cuImportExternalMemory)((CUexternalMemory *)&object->handle, &described);
    if (result != CUDA_SUCCESS)
        close(fd);
    return result;
}

static CUresult give_external(struct object *object)
{
    return GPU(cuDestroyExternalMemory)(object->handle);
}

static const struct kind kinds[] = {
    {"buffer", take_buffer, give_buffer},
    {"first", take_first, give_first},
    {"firstpitch", take_first_pitch, give_first},
    {"array", take_array, give_array},
    {"array3d", take_array3d, give_array},
    {"mipmap", take_mipmap, give_mipmap},
    {"module", take_module, give_module},
    {"file", take_file, give_module},
    {"library", take_library, give_library},
    {"external", take_external, give_external},
};

#endif
