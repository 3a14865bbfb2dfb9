/* A program that is linked against the driver: allocates 100 MiB at a time and prints how often that went well. */
#include <cuda.h>
#include <stdio.h>

int main(void)
{
    CUcontext context;
    CUdeviceptr pointer;
    int count = 0;
    if (cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) || cuCtxSetCurrent(context))
        return 1;
    while (count < 100 && cuMemAlloc(&pointer, 100u << 20) == CUDA_SUCCESS)
        count++;
    printf("%d\n", count);
    return 0;
}
