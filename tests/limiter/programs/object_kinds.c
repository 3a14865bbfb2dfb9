/*
 * Takes and gives device memory of kinds that have no address, at random or as told:
 *
 *   object_kinds do COMMAND…     prints the result of each: KIND:BYTES takes, free:N gives the N-th back; context,
 *                                destroycontext; stack|print|heap:BYTES sets a limit; wait (for a byte on stdin)
 *   object_kinds random SEED N   N random steps; after each the slice's own figure must be NVML's for this process
 *   object_kinds crowd SEED N    the same, from a byte on stdin on, without small arrays; nothing is compared
 *
 * Kinds are in the table at the end. What it does not do: judge anything else; the test does.
 */
#include <nvml.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "gpu.h"

#define OBJECTS 512

struct object {
    const struct kind *kind; /* NULL: given back */
    void *handle;
};

struct kind {
    const char *name;
    CUresult (*take)(struct object *, size_t);
    CUresult (*give)(struct object *);
};

static struct object objects[OBJECTS];
static int made;

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
};
#define KINDS (sizeof kinds / sizeof *kinds)

static CUresult take(const struct kind *kind, size_t size)
{
    struct object object = {.kind = kind};
    CUresult result = kind->take(&object, size);
    REQUIRE(made < OBJECTS);
    if (result == CUDA_SUCCESS)
        objects[made++] = object;
    return result;
}

static CUresult give(int number)
{
    CUresult result = objects[number].kind->give(&objects[number]);
    objects[number].kind = NULL;
    return result;
}

static unsigned long long shown(void)
{
    nvmlProcessInfo_t processes[16];
    unsigned count = 16;
    nvmlDevice_t card;
    REQUIRE(!nvmlDeviceGetHandleByIndex_v2(0, &card));
    REQUIRE(!nvmlDeviceGetComputeRunningProcesses_v3(card, &count, processes));
    for (unsigned i = 0; i < count; i++)
        if (processes[i].pid == (unsigned)getpid())
            return processes[i].usedGpuMemory;
    return 0;
}

static void agree(int step, const char *what)
{
    size_t left, total;
    REQUIRE(GPU(cuMemGetInfo_v2)(&left, &total) == CUDA_SUCCESS);
    if (total - left == shown())
        return;
    fprintf(stderr, "step %d, %s: the slice says %zu, NVML %llu\n", step, what, total - left, shown());
    exit(1);
}

/* Small ones share pages, and which do can be told only while nobody else frees memory. */
static bool packed_unseen(const struct kind *kind)
{
    return kind->give == give_array || kind->give == give_mipmap;
}

static size_t random_size(void)
{
    return 1 + (size_t)rand() % ((size_t)1 << (9 + rand() % 15));
}

static void random_steps(unsigned seed, int steps, bool alone)
{
    int refused = 0;
    srand(seed);
    for (int step = 0; step < steps; step++) {
        const struct kind *kind = &kinds[(size_t)rand() % KINDS];
        int slot = rand() % (OBJECTS / 8);
        if (rand() % 16 == 0) {
            CUresult result = GPU(cuCtxSetLimit)((CUlimit)(1 + rand() % 2), random_size());
            REQUIRE(result == CUDA_SUCCESS || result == CUDA_ERROR_OUT_OF_MEMORY);
        } else if (objects[slot].kind) {
            kind = objects[slot].kind;
            REQUIRE(give(slot) == CUDA_SUCCESS);
        } else {
            made = slot;
            size_t least = alone || !packed_unseen(kind) ? 0 : 1 << 20;
            CUresult result = take(kind, least + random_size());
            REQUIRE(result == CUDA_SUCCESS || result == CUDA_ERROR_OUT_OF_MEMORY);
            refused += result != CUDA_SUCCESS;
        }
        if (alone)
            agree(step, kind->name);
    }
    for (int i = 0; i < OBJECTS; i++)
        REQUIRE(!objects[i].kind || give(i) == CUDA_SUCCESS);
    if (alone)
        agree(steps, "the end");
    printf("%d\n", refused);
}

static int wait_for_byte(void)
{
    char byte;
    printf("waiting\n");
    fflush(stdout);
    return (int)read(STDIN_FILENO, &byte, 1);
}

static bool is_limit(const char *name, CUlimit *limit)
{
    static const char *const names[] = {"stack", "print", "heap"};
    for (*limit = 0; *limit < 3; ++*limit)
        if (!strcmp(name, names[*limit]))
            return true;
    return false;
}

static int run(const char *command)
{
    static CUcontext context;
    char name[32] = "";
    unsigned long long value = 0;
    CUlimit limit;
    sscanf(command, "%31[^:]:%llu", name, &value);
    if (!strcmp(name, "free"))
        return (int)give((int)value);
    if (!strcmp(name, "context"))
        return (int)GPU(cuCtxCreate_v2)(&context, 0, 0);
    if (!strcmp(name, "destroycontext"))
        return (int)GPU(cuCtxDestroy_v2)(context);
    if (is_limit(name, &limit))
        return (int)GPU(cuCtxSetLimit)(limit, value);
    if (!strcmp(name, "wait"))
        return wait_for_byte();
    for (size_t i = 0; i < KINDS; i++)
        if (!strcmp(kinds[i].name, name))
            return (int)take(&kinds[i], value);
    fprintf(stderr, "%s: not a command\n", command);
    exit(2);
}

int main(int argc, char **argv)
{
    REQUIRE(argc > 2 && !nvmlInit_v2());
    gpu_open();
    if (!strcmp(argv[1], "crowd"))
        wait_for_byte();
    if (strcmp(argv[1], "do") && argc == 4)
        random_steps((unsigned)atoi(argv[2]), atoi(argv[3]), !strcmp(argv[1], "random"));
    else
        for (int i = 2; i < argc; i++)
            printf("%s %d\n", argv[i], run(argv[i]));
    return 0;
}
