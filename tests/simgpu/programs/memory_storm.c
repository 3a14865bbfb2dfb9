/*
 * Many at once: `memory_storm fill BYTES` and `memory_storm churn SEED`.
 *
 * fill says that it has a context, waits for a line, takes pieces of BYTES until the card refuses one, says
 * how many it got, and holds them until its input ends. churn takes and gives memory of many kinds and sizes
 * at random in four threads, and finds the process charged for its context alone when all is given back. What
 * it does not do: touch the memory.
 */
#include <pthread.h>

#include "card.h"

#define THREADS 4
#define HELD 32
#define ROUNDS 2000

static unsigned seed;
static CUcontext context;

struct piece {
    int kind;
    CUdeviceptr pointer;
    CUarray array;
    size_t size;
};

static unsigned chance(unsigned *state, unsigned below)
{
    *state = *state * 1664525 + 1013904223;
    return (*state >> 8) % below;
}

static void take(struct piece *piece, unsigned *state)
{
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
    CUDA_ARRAY_DESCRIPTOR shape = {.Width = 1 + chance(state, 1024),
                                   .Height = chance(state, 512),
                                   .Format = CU_AD_FORMAT_FLOAT,
                                   .NumChannels = 2};
    CUmemGenericAllocationHandle handle;
    piece->kind = 1 + (int)chance(state, 5);
    piece->size = 1 + chance(state, 1u << (8 + chance(state, 16)));
    switch (piece->kind) {
    case 1:
        OK(cuMemAlloc(&piece->pointer, piece->size));
        break;
    case 2:
        OK(cuMemAllocManaged(&piece->pointer, piece->size, CU_MEM_ATTACH_GLOBAL));
        break;
    case 3:
        OK(cuMemAllocAsync(&piece->pointer, piece->size, CU_STREAM_PER_THREAD));
        break;
    case 4:
        OK(cuArrayCreate(&piece->array, &shape));
        break;
    default:
        piece->size = (1 + chance(state, 8)) * 2 * MIB;
        OK(cuMemCreate(&handle, piece->size, &prop, 0));
        OK(cuMemAddressReserve(&piece->pointer, piece->size, 0, 0, 0));
        OK(cuMemMap(piece->pointer, piece->size, 0, handle, 0));
        OK(cuMemRelease(handle));
    }
}

static void give(struct piece *piece)
{
    switch (piece->kind) {
    case 0:
        break;
    case 3:
        OK(cuMemFreeAsync(piece->pointer, CU_STREAM_PER_THREAD));
        break;
    case 4:
        OK(cuArrayDestroy(piece->array));
        break;
    case 5:
        OK(cuMemUnmap(piece->pointer, piece->size));
        OK(cuMemAddressFree(piece->pointer, piece->size));
        break;
    default:
        OK(cuMemFree(piece->pointer));
    }
    piece->kind = 0;
}

static void *churn(void *number)
{
    struct piece pieces[HELD] = {0};
    unsigned state = seed * 1000 + (unsigned)(intptr_t)number;
    OK(cuCtxSetCurrent(context));
    for (int i = 0; i < ROUNDS; i++) {
        struct piece *piece = &pieces[chance(&state, HELD)];
        give(piece);
        take(piece, &state);
    }
    for (int i = 0; i < HELD; i++)
        give(&pieces[i]);
    OK(cuStreamSynchronize(CU_STREAM_PER_THREAD));
    return NULL;
}

static void fill(size_t step)
{
    CUdeviceptr pointer;
    CUresult result;
    int count = 0;
    puts("ready");
    fflush(stdout);
    getchar();
    while (!(result = cuMemAlloc(&pointer, step)))
        count++;
    EQUAL(result, CUDA_ERROR_OUT_OF_MEMORY);
    printf("%d\n", count);
    fflush(stdout);
    while (getchar() != EOF)
        ;
}

int main(int argc, char **argv)
{
    pthread_t threads[THREADS];
    REQUIRE(argc == 3);
    context = open_card();
    if (!strcmp(argv[1], "fill")) {
        fill(strtoull(argv[2], NULL, 10));
        return 0;
    }
    seed = (unsigned)atoi(argv[2]);
    for (intptr_t i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, churn, (void *)i);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    OK(cuCtxSynchronize());
    EQUAL(process_used(), CONTEXT);
    return 0;
}
