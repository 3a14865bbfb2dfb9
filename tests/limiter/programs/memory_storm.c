/*
 * Takes and gives device memory of every exact kind at random until a byte comes on stdin; then prints how many bytes
 * it holds as the card counts them, context included, and keeps them until stdin is closed.
 *
 *   memory_storm SEED CONTEXT_BYTES
 *   memory_storm watch     instead: every millisecond until stdin is closed, the sum of what NVML shows for
 *                          processes that are alive; prints the largest
 */
#include <nvml.h>
#include <poll.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "gpu.h"

#define HELD 32
#define MIB (UINT64_C(1) << 20)
#define PAGE (2 * MIB)

static struct held {
    CUdeviceptr pointer;
    uint64_t bytes; /* as the card counts them; 0: a free place */
    bool physical;  /* a handle of cuMemCreate instead */
} held[HELD];

static uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    return *state ^= *state << 17;
}

static void give(struct held *one)
{
    CUresult result = one->physical ? GPU(cuMemRelease)(one->pointer) : GPU(cuMemFree_v2)(one->pointer);
    REQUIRE(result == CUDA_SUCCESS);
    one->bytes = 0;
}

static void take(struct held *one, uint64_t random)
{
    CUmemAllocationProp where = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                 .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    uint64_t bytes = (random % 32 + 1) * PAGE;
    one->physical = random >> 8 & 1;
    CUmemGenericAllocationHandle handle = 0;
    CUresult result = one->physical ? GPU(cuMemCreate)(&handle, bytes, &where, 0)
                                    : GPU(cuMemAlloc_v2)(&one->pointer, bytes - random % 1000);
    if (one->physical)
        one->pointer = handle;
    REQUIRE(result == CUDA_SUCCESS || result == CUDA_ERROR_OUT_OF_MEMORY);
    one->bytes = result == CUDA_SUCCESS ? bytes : 0;
}

static bool told(int wait_ms)
{
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
    return poll(&input, 1, wait_ms) > 0;
}

#define EXITING 4 /* PF_EXITING of the kernel: its mappings, and with them its slot, may be gone already */

static bool is_alive(unsigned pid)
{
    char path[64], state = 'Z';
    unsigned flags = EXITING;
    snprintf(path, sizeof path, "/proc/%u/stat", pid);
    FILE *file = fopen(path, "r");
    bool read = file && fscanf(file, "%*d (%*[^)]) %c %*d %*d %*d %*d %*d %u", &state, &flags) == 2;
    if (file)
        fclose(file);
    return read && state != 'Z' && state != 'X' && !(flags & EXITING);
}

#define NVML(symbol) ((__typeof__(&symbol))dlsym(library, #symbol))

static uint64_t held_by_the_living(void *library, nvmlDevice_t card)
{
    nvmlProcessInfo_t processes[256];
    unsigned count = 256;
    uint64_t sum = 0;
    REQUIRE(NVML(nvmlDeviceGetComputeRunningProcesses_v3)(card, &count, processes) == NVML_SUCCESS);
    for (unsigned i = 0; i < count; i++)
        sum += is_alive(processes[i].pid) ? processes[i].usedGpuMemory : 0;
    return sum;
}

static int watch(void)
{
    void *library = dlopen("libnvidia-ml.so.1", RTLD_LAZY);
    nvmlDevice_t card;
    uint64_t largest = 0;
    REQUIRE(library && NVML(nvmlInit_v2)() == NVML_SUCCESS);
    REQUIRE(NVML(nvmlDeviceGetHandleByIndex_v2)(0, &card) == NVML_SUCCESS);
    bool end;
    do { /* once more after it was told */
        end = told(1);
        uint64_t sum = held_by_the_living(library, card);
        largest = sum > largest ? sum : largest;
    } while (!end);
    printf("%llu\n", (unsigned long long)largest);
    return 0;
}

int main(int argc, char **argv)
{
    REQUIRE(argc > 1);
    if (strcmp(argv[1], "watch") == 0)
        return watch();
    REQUIRE(argc == 3);
    uint64_t random = strtoull(argv[1], NULL, 10) * UINT64_C(0x9e3779b97f4a7c15) | 1;
    uint64_t total = strtoull(argv[2], NULL, 10);
    CUcontext context;
    REQUIRE(GPU(cuInit)(0) == CUDA_SUCCESS);
    bool open = false;
    while (!told(0)) {
        if (!open) { /* the others may have everything */
            open = GPU(cuDevicePrimaryCtxRetain)(&context, 0) == CUDA_SUCCESS;
            REQUIRE(!open || GPU(cuCtxSetCurrent)(context) == CUDA_SUCCESS);
            continue;
        }
        struct held *one = &held[next_random(&random) % HELD];
        if (one->bytes)
            give(one);
        else
            take(one, next_random(&random));
    }
    char byte;
    total = open ? total : 0;
    for (int i = 0; i < HELD; i++)
        total += held[i].bytes;
    printf("%llu\n", (unsigned long long)total);
    fflush(stdout);
    while (read(STDIN_FILENO, &byte, 1) > 0)
        ;
    return 0;
}
