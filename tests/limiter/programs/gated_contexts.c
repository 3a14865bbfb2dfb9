/*
 * Contexts that end with a gate closed in one of their streams, one after the other.
 *
 *   gated_contexts COUNT   fills memory until it is known how long that takes, prints "ready" and reads a byte. In each
 *                          of so many contexts it fills until a call has returned before its work was complete, which
 *                          then waits for a slot, and destroys the context. Prints how many pages more of shared memory
 *                          are mapped than before the first.
 */
#include <string.h>
#include <unistd.h>

#include "gpu.h"

#define BYTES 4096

static int shared_mappings(void)
{
    char line[512];
    int count = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    REQUIRE(maps);
    while (fgets(line, sizeof line, maps))
        count += strstr(line, "/dev/zero") != NULL;
    fclose(maps);
    return count;
}

/* Whether a fill was left to the stream. */
static int fill_is_gated(CUdeviceptr memory, CUstream stream)
{
    REQUIRE(GPU(cuMemsetD8Async)(memory, 0, BYTES, stream) == CUDA_SUCCESS);
    usleep(100);
    return GPU(cuStreamQuery)(stream) == CUDA_ERROR_NOT_READY;
}

static void live_and_end(void)
{
    CUcontext context;
    CUdeviceptr memory;
    CUstream stream;
    REQUIRE(GPU(cuCtxCreate_v2)(&context, 0, 0) == CUDA_SUCCESS);
    REQUIRE(GPU(cuMemAlloc_v2)(&memory, BYTES) == CUDA_SUCCESS);
    REQUIRE(GPU(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
    while (!fill_is_gated(memory, stream))
        ;
    REQUIRE(GPU(cuCtxDestroy_v2)(context) == CUDA_SUCCESS);
}

int main(int argc, char **argv)
{
    CUdeviceptr memory;
    char go;
    REQUIRE(argc == 2);
    gpu_open();
    REQUIRE(GPU(cuMemAlloc_v2)(&memory, BYTES) == CUDA_SUCCESS);
    for (int i = 0; i < 20; i++) {
        fill_is_gated(memory, CU_STREAM_PER_THREAD);
        REQUIRE(GPU(cuCtxSynchronize)() == CUDA_SUCCESS);
    }
    REQUIRE(write(STDOUT_FILENO, "ready\n", 6) == 6);
    REQUIRE(read(STDIN_FILENO, &go, 1) == 1);
    int before = shared_mappings();
    for (int i = atoi(argv[1]); i > 0; i--)
        live_and_end();
    printf("%d\n", shared_mappings() - before);
    return 0;
}
