/*
 * Uses the GPU for the first time with every descriptor taken, and again when they have been given back; prints
 * both results.
 */
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "gpu.h"

int main(void)
{
    CUcontext context;
    size_t total;
    REQUIRE(GPU(cuInit)(0) == CUDA_SUCCESS && GPU(cuDeviceTotalMem_v2)(&total, 0) == CUDA_SUCCESS);
    struct rlimit few = {32, 32};
    REQUIRE(setrlimit(RLIMIT_NOFILE, &few) == 0);
    while (open("/dev/null", O_RDONLY) >= 0)
        ;
    __typeof__(&cuDevicePrimaryCtxRetain) retain = GPU(cuDevicePrimaryCtxRetain);
    printf("%d\n", retain(&context, 0));
    for (int fd = 3; fd < 32; fd++)
        close(fd);
    printf("%d\n", retain(&context, 0));
    return 0;
}
