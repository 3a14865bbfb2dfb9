/*
 * Takes memory of one kind and gives it back: `memory_kinds KIND COUNT BYTES`.
 *
 * Prints three pairs, in bytes beyond the bare context: what the card and what NVML's figure for the process
 * show while all is held, once all is freed (in an order that is neither that of taking nor its reverse), and
 * after a synchronisation and a trim. Between, it writes a pattern into each piece of linear memory and reads
 * it back. What it does not do: judge the numbers; the test does.
 */
#include <stdbool.h>

#include "card.h"

#define MOST 128

struct piece {
    CUdeviceptr pointer;
    void *object;
    CUmemGenericAllocationHandle handle;
    size_t size;
    CUgraph graph;
    CUgraphExec exec;
};

static CUmemoryPool own_pool;

static void take_alloc(struct piece *piece, size_t size)
{
    OK(cuMemAlloc(&piece->pointer, size));
}

static void take_pitch(struct piece *piece, size_t size)
{
    size_t pitch;
    OK(cuMemAllocPitch(&piece->pointer, &pitch, size / 16, 16, 4));
    EQUAL(pitch % 512, 0);
}

static void take_managed(struct piece *piece, size_t size)
{
    OK(cuMemAllocManaged(&piece->pointer, size, CU_MEM_ATTACH_GLOBAL));
    memset((void *)piece->pointer, 7, size); /* the host may touch it */
}

static void give_alloc(struct piece *piece)
{
    OK(cuMemFree(piece->pointer));
}

static void take_module(struct piece *piece, size_t size)
{
    char ptx[256];
    CUmodule module;
    snprintf(ptx, sizeof ptx,
             ".version 6.0\n.target sm_52\n.address_size 64\n.global .align 8 .b8 array[%zu];\n"
             ".visible .entry kernel() { ret; }\n", size);
    OK(cuModuleLoadData(&module, ptx));
    piece->object = module;
}

static void give_module(struct piece *piece)
{
    OK(cuModuleUnload(piece->object));
}

static void take_host(struct piece *piece, size_t size)
{
    OK(cuMemHostAlloc(&piece->object, size, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP));
    OK(cuMemHostGetDevicePointer(&piece->pointer, piece->object, 0));
}

static void give_host(struct piece *piece)
{
    OK(cuMemFreeHost(piece->object));
}

static void take_registered(struct piece *piece, size_t size)
{
    piece->object = malloc(size);
    OK(cuMemHostRegister(piece->object, size, 0));
    EQUAL(cuMemHostRegister(piece->object, size, 0), CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
    piece->pointer = (CUdeviceptr)piece->object;
}

static void give_registered(struct piece *piece)
{
    OK(cuMemHostUnregister(piece->object));
    free(piece->object);
}

static void take_async(struct piece *piece, size_t size)
{
    OK(cuMemAllocAsync(&piece->pointer, size, NULL));
}

static void take_pool(struct piece *piece, size_t size)
{
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                            .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
    if (!own_pool)
        OK(cuMemPoolCreate(&own_pool, &props));
    OK(cuMemAllocFromPoolAsync(&piece->pointer, size, own_pool, NULL));
}

static void give_async(struct piece *piece)
{
    OK(cuMemFreeAsync(piece->pointer, NULL));
}

static void take_vmm(struct piece *piece, size_t size)
{
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
    CUmemAccessDesc access = {.location = prop.location, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    OK(cuMemCreate(&piece->handle, size, &prop, 0));
    OK(cuMemAddressReserve(&piece->pointer, size, 0, 0, 0));
    OK(cuMemMap(piece->pointer, size, 0, piece->handle, 0));
    OK(cuMemSetAccess(piece->pointer, size, &access, 1));
    OK(cuMemRelease(piece->handle)); /* the mapping keeps it */
}

static void take_vmm_host(struct piece *piece, size_t size)
{
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = {.type = CU_MEM_LOCATION_TYPE_HOST_NUMA, .id = 0}};
    CUmemAccessDesc access = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
                              .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    OK(cuMemCreate(&piece->handle, size, &prop, 0));
    OK(cuMemAddressReserve(&piece->pointer, size, 0, 0, 0));
    OK(cuMemMap(piece->pointer, size, 0, piece->handle, 0));
    OK(cuMemSetAccess(piece->pointer, size, &access, 1));
    OK(cuMemRelease(piece->handle));
}

static void give_vmm(struct piece *piece)
{
    OK(cuMemUnmap(piece->pointer, piece->size));
    OK(cuMemAddressFree(piece->pointer, piece->size));
}

/* Of `size` bytes: rows of 1024 floats. */
static void take_array(struct piece *piece, size_t size)
{
    CUDA_ARRAY_DESCRIPTOR shape = {
        .Width = 1024, .Height = size / 4096, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 1};
    OK(cuArrayCreate((CUarray *)&piece->object, &shape));
}

static void take_array3d(struct piece *piece, size_t size)
{
    CUDA_ARRAY3D_DESCRIPTOR shape = {.Width = 64,
                                     .Height = 64,
                                     .Depth = size / 4096 / 4,
                                     .Format = CU_AD_FORMAT_FLOAT,
                                     .NumChannels = 1};
    OK(cuArray3DCreate((CUarray *)&piece->object, &shape));
}

static void take_layered(struct piece *piece, size_t size)
{
    CUDA_ARRAY3D_DESCRIPTOR shape = {.Width = size / 8,
                                     .Depth = 4,
                                     .Format = CU_AD_FORMAT_UNSIGNED_INT8,
                                     .NumChannels = 2,
                                     .Flags = CUDA_ARRAY3D_LAYERED};
    OK(cuArray3DCreate((CUarray *)&piece->object, &shape));
}

static void give_array(struct piece *piece)
{
    OK(cuArrayDestroy(piece->object));
}

/* A base level of `size` bytes and the three above it: 85 / 64 of that. */
static void take_mipmap(struct piece *piece, size_t size)
{
    CUDA_ARRAY3D_DESCRIPTOR shape = {
        .Width = 1024, .Height = size / 4096, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 1};
    CUarray level;
    OK(cuMipmappedArrayCreate((CUmipmappedArray *)&piece->object, &shape, 4));
    OK(cuMipmappedArrayGetLevel(&level, piece->object, 3));
    EQUAL(cuMipmappedArrayGetLevel(&level, piece->object, 4), CUDA_ERROR_INVALID_VALUE);
    EQUAL(cuArrayDestroy(level), CUDA_ERROR_INVALID_HANDLE); /* it goes with the whole */
}

static void give_mipmap(struct piece *piece)
{
    OK(cuMipmappedArrayDestroy(piece->object));
}

/* An allocation node that no node frees: the memory stays until the program frees it. */
static void take_graph(struct piece *piece, size_t size)
{
    CUgraphNode node;
    CUDA_MEM_ALLOC_NODE_PARAMS params = {
        .poolProps = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}},
        .bytesize = size};
    OK(cuGraphCreate(&piece->graph, 0));
    OK(cuGraphAddMemAllocNode(&node, piece->graph, NULL, 0, &params));
    OK(cuGraphInstantiate(&piece->exec, piece->graph, 0));
    OK(cuGraphLaunch(piece->exec, NULL));
    OK(cuCtxSynchronize());
    piece->pointer = params.dptr;
}

static void give_graph(struct piece *piece)
{
    OK(cuMemFreeAsync(piece->pointer, NULL));
    OK(cuGraphExecDestroy(piece->exec));
    OK(cuGraphDestroy(piece->graph));
}

static const struct kind {
    const char *name;
    void (*take)(struct piece *, size_t);
    void (*give)(struct piece *);
    bool linear;
} kinds[] = {
    {"alloc", take_alloc, give_alloc, true},
    {"pitch", take_pitch, give_alloc, true},
    {"managed", take_managed, give_alloc, true},
    {"module", take_module, give_module, false},
    {"host", take_host, give_host, true},
    {"registered", take_registered, give_registered, true},
    {"async", take_async, give_async, true},
    {"async-freed-by-cuMemFree", take_async, give_alloc, true},
    {"pool", take_pool, give_async, true},
    {"vmm", take_vmm, give_vmm, true},
    {"vmm-host", take_vmm_host, give_vmm, true},
    {"array", take_array, give_array, false},
    {"array3d", take_array3d, give_array, false},
    {"layered", take_layered, give_array, false},
    {"mipmap", take_mipmap, give_mipmap, false},
    {"graph", take_graph, give_graph, true},
};

static void write_and_read(const struct piece *piece, unsigned mark)
{
    size_t size = piece->size < 4096 ? piece->size : 4096;
    unsigned char back[4096] = {0};
    OK(cuMemsetD8(piece->pointer + piece->size - size, (unsigned char)mark, size));
    OK(cuMemcpyDtoH(back, piece->pointer + piece->size - size, size));
    for (size_t i = 0; i < size; i++)
        EQUAL(back[i], mark);
}

static void show(void)
{
    printf("%llu %llu\n", (unsigned long long)(card_used() - CONTEXT),
           (unsigned long long)(process_used() - CONTEXT));
}

int main(int argc, char **argv)
{
    static struct piece pieces[MOST];
    const struct kind *kind = NULL;
    REQUIRE(argc == 4);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (!strcmp(kinds[i].name, argv[1]))
            kind = &kinds[i];
    int count = atoi(argv[2]);
    size_t size = strtoull(argv[3], NULL, 10);
    REQUIRE(kind && count <= MOST);
    open_card();
    EQUAL(card_used(), CONTEXT);
    for (int i = 0; i < count; i++) {
        pieces[i].size = size;
        kind->take(&pieces[i], size);
    }
    for (int i = 0; kind->linear && i < count; i++)
        write_and_read(&pieces[i], (unsigned)i);
    show();
    for (int i = 0; i < count; i++) /* 0, 7, 14, …: every piece once, as 7 does not divide any count used */
        kind->give(&pieces[i * 7 % count]);
    show();
    OK(cuCtxSynchronize());
    OK(cuDeviceGraphMemTrim(0));
    show();
    return 0;
}
