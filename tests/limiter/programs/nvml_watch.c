/*
 * The outside truth while others run: looks at the first card through NVML as fast as it can and, when its
 * standard input ends, prints how many looks there were and the most memory that was in use beyond the start.
 * The first line is what is in use at the start.
 */
#include <nvml.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>

int main(void)
{
    struct pollfd input = {.fd = 0, .events = POLLIN};
    nvmlDevice_t card;
    nvmlMemory_t memory;
    if (nvmlInit_v2() || nvmlDeviceGetHandleByIndex_v2(0, &card) || nvmlDeviceGetMemoryInfo(card, &memory))
        return 1;
    unsigned long long start = memory.used, most = 0, looks = 0;
    printf("%llu\n", start);
    fflush(stdout);
    bool ended;
    do {
        ended = poll(&input, 1, 0) != 0; /* then looks once more, however seldom it ran until now */
        if (nvmlDeviceGetMemoryInfo(card, &memory))
            return 1;
        if (memory.used > start && memory.used - start > most)
            most = memory.used - start;
        looks++;
    } while (!ended);
    printf("%llu %llu\n", looks, most);
    return 0;
}
