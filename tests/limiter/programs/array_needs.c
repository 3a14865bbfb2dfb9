/*
 * For each shape on stdin (WIDTH,HEIGHT,DEPTH,FORMAT,CHANNELS,FLAGS,LEVELS; LEVELS 0: no mipmapped array) the bytes
 * that the driver says a deferred array of it needs, 0 where it makes none, and the least and most of the
 * limiter's formula.
 */
#include <string.h>

#include "array_size.h"
#include "gpu.h"

static size_t told(const CUDA_ARRAY3D_DESCRIPTOR *shape, unsigned levels)
{
    CUDA_ARRAY3D_DESCRIPTOR deferred = *shape;
    CUDA_ARRAY_MEMORY_REQUIREMENTS needs;
    CUarray array;
    CUmipmappedArray mipmap;
    deferred.Flags |= CUDA_ARRAY3D_DEFERRED_MAPPING;
    if (levels ? GPU(cuMipmappedArrayCreate)(&mipmap, &deferred, levels) : GPU(cuArray3DCreate_v2)(&array, &deferred))
        return 0;
    REQUIRE(!(levels ? GPU(cuMipmappedArrayGetMemoryRequirements)(&needs, mipmap, 0)
                     : GPU(cuArrayGetMemoryRequirements)(&needs, array, 0)));
    REQUIRE(!(levels ? GPU(cuMipmappedArrayDestroy)(mipmap) : GPU(cuArrayDestroy)(array)));
    return needs.size;
}

int main(void)
{
    CUDA_ARRAY3D_DESCRIPTOR shape = {0};
    unsigned format, levels;
    gpu_open();
    while (scanf("%zu,%zu,%zu,%u,%u,%u,%u\n", &shape.Width, &shape.Height, &shape.Depth, &format, &shape.NumChannels,
                 &shape.Flags, &levels) == 7) {
        shape.Format = (CUarray_format)format;
        struct weir_array_size size = weir_array_size(&shape, levels ? levels : 1);
        printf("%zu,%lu,%lu\n", told(&shape, levels), size.least, size.most);
    }
    return 0;
}
