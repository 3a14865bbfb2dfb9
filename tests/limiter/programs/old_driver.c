/* A driver from before most of what Weir knows: it can start, and say how much memory there is. */
#include <stddef.h>

int cuInit(unsigned int flags);
int cuMemGetInfo_v2(size_t *free_bytes, size_t *total);

int cuInit(unsigned int flags)
{
    return (int)flags;
}

int cuMemGetInfo_v2(size_t *free_bytes, size_t *total)
{
    *free_bytes = *total = 4096;
    return 0;
}
