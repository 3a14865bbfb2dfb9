/*
 * Makes arrays of many shapes and says what they take:
 *
 *   array_shapes do SHAPE…       SHAPE: WIDTH,HEIGHT,DEPTH,FORMAT,CHANNELS,FLAGS,LEVELS,COUNT; LEVELS 0: no mipmapped
 *                                array. Prints for each the result, and the bytes more by NVML and by the slice's own
 *                                figure; then, with all of them destroyed, what is left of both
 *   array_shapes random SEED N   N random shapes, a few alive at a time; after each both figures must be the same
 *
 * What it does not do: judge the bytes; the test does.
 */
#include <string.h>

#include "shown.h"

#define MOST 1024

struct made {
    void *handle;
    unsigned levels;
};

static struct made all[MOST];
static int count;

static unsigned long long charged(void)
{
    size_t left, total;
    REQUIRE(GPU(cuMemGetInfo_v2)(&left, &total) == CUDA_SUCCESS);
    return total - left;
}

static CUresult make(const CUDA_ARRAY3D_DESCRIPTOR *shape, unsigned levels)
{
    struct made made = {.levels = levels};
    CUresult result = levels ? GPU(cuMipmappedArrayCreate)((CUmipmappedArray *)&made.handle, shape, levels)
                             : GPU(cuArray3DCreate_v2)((CUarray *)&made.handle, shape);
    REQUIRE(count < MOST);
    if (result == CUDA_SUCCESS)
        all[count++] = made;
    return result;
}

static void drop(int number)
{
    struct made made = all[number];
    all[number] = all[--count];
    CUresult result = made.levels ? GPU(cuMipmappedArrayDestroy)(made.handle) : GPU(cuArrayDestroy)(made.handle);
    REQUIRE(result == CUDA_SUCCESS);
}

static void drop_all(void)
{
    while (count)
        drop(count - 1);
}

static CUresult make_as_told(const char *text)
{
    CUDA_ARRAY3D_DESCRIPTOR shape = {0};
    unsigned long width, height, depth;
    unsigned format, levels, copies;
    REQUIRE(sscanf(text, "%lu,%lu,%lu,%u,%u,%u,%u,%u", &width, &height, &depth, &format, &shape.NumChannels,
                   &shape.Flags, &levels, &copies) == 8);
    shape.Width = width;
    shape.Height = height;
    shape.Depth = depth;
    shape.Format = (CUarray_format)format;
    CUresult result = CUDA_SUCCESS;
    while (copies-- && result == CUDA_SUCCESS)
        result = make(&shape, levels);
    return result;
}

static void as_told(int shapes, char **shape)
{
    unsigned long long card = shown(), slice = charged();
    for (int i = 0; i < shapes; i++) {
        CUresult result = make_as_told(shape[i]);
        printf("%d %lld %lld\n", (int)result, (long long)(shown() - card), (long long)(charged() - slice));
        card = shown();
        slice = charged();
    }
    drop_all();
    printf("%llu %llu\n", shown(), charged());
}

/* From 1 on, small ones as often as large ones. */
static size_t extent(int bits)
{
    size_t most = (size_t)1 << rand() % (bits + 1);
    return most + (size_t)rand() % most;
}

static CUDA_ARRAY3D_DESCRIPTOR random_shape(void)
{
    static const CUarray_format formats[] = {CU_AD_FORMAT_UNSIGNED_INT8, CU_AD_FORMAT_HALF, CU_AD_FORMAT_FLOAT};
    int dimensions = rand() % 4; /* 3: layered in two */
    CUDA_ARRAY3D_DESCRIPTOR shape = {.Width = extent(dimensions == 2 ? 8 : 11),
                                     .Height = dimensions ? extent(dimensions == 2 ? 8 : 11) : 0,
                                     .Depth = dimensions > 1 ? extent(dimensions == 2 ? 8 : 3) : 0,
                                     .Format = formats[rand() % 3],
                                     .NumChannels = 1u << rand() % 3,
                                     .Flags = dimensions == 3 ? CUDA_ARRAY3D_LAYERED : 0};
    return shape;
}

static void at_random(unsigned seed, int steps)
{
    int refused = 0;
    srand(seed);
    for (int step = 0; step < steps; step++) {
        CUDA_ARRAY3D_DESCRIPTOR shape = random_shape();
        unsigned levels = rand() % 3 ? 0 : 1 + (unsigned)rand() % 12;
        CUresult result = make(&shape, levels);
        REQUIRE(result == CUDA_SUCCESS || result == CUDA_ERROR_OUT_OF_MEMORY);
        refused += result != CUDA_SUCCESS;
        while (count > 8 || (count && result != CUDA_SUCCESS))
            drop(rand() % count);
        if (shown() != charged()) {
            fprintf(stderr,
                    "step %d, %zu x %zu x %zu, format %d x %u, flags %u, %u levels: NVML %llu, the slice %llu\n",
                    step, shape.Width, shape.Height, shape.Depth, shape.Format, shape.NumChannels, shape.Flags, levels,
                    shown(), charged());
            exit(1);
        }
    }
    drop_all();
    REQUIRE(shown() == charged());
    printf("%d\n", refused);
}

int main(int argc, char **argv)
{
    REQUIRE(argc > 1 && !nvmlInit_v2());
    gpu_open();
    if (!strcmp(argv[1], "do"))
        as_told(argc - 2, argv + 2);
    else
        at_random((unsigned)atoi(argv[2]), atoi(argv[3]));
    return 0;
}
