/*
 * What NVML shows, at given times, of a full load that runs from START to END; in virtual time.
 *
 * `step_response PHASE WINDOW AGE…`, all in ms: the load starts PHASE into a sample. One line for each age
 * since the load's start: the process's figure for the last WINDOW ms, and the card's. A process exists long
 * before its load; "-" where it has no sample.
 */
#include <stdio.h>
#include <stdlib.h>

#include "../../simgpu/src/nvml/utilization.h"

#define MS UINT64_C(1000000)
#define BASE (5000 * UTILIZATION_SAMPLE_NS)
#define LOAD (2000 * MS)

int main(int argc, char **argv) {
    uint64_t start = BASE + strtoull(argv[1], NULL, 10) * MS, window = strtoull(argv[2], NULL, 10) * MS;
    for (int i = 3; i < argc; i++) {
        static struct sim_history history;
        uint64_t age = strtoull(argv[i], NULL, 10) * MS, now = start + age;
        uint32_t percent;
        history = (struct sim_history){0};
        sim_history_add(&history, start, start + (age < LOAD ? age : LOAD));
        if (utilization_since(&history, BASE / 2, now - window, now, &percent))
            printf("%u", percent);
        else
            printf("-");
        printf(" %u\n", utilization_of_sample(&history, now));
    }
    return 0;
}
