/*
 * What NVML shows, at given ages, of a full load that starts and of one that has ended; in virtual time.
 * Prints one line for each age in ms given as an argument: rising and falling value, in parts of 10,000.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../simgpu/src/nvml/utilization.h"

#define MS UINT64_C(1000000)
#define START (UINT64_C(1000) * 1000 * MS)
#define LONG_LOAD (2000 * MS)

int main(int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        uint64_t age = strtoull(argv[i], NULL, 10) * MS;
        struct sim_history rising, falling;
        memset(&rising, 0, sizeof rising);
        memset(&falling, 0, sizeof falling);
        sim_history_add(&rising, START, START + age);
        sim_history_add(&falling, START - LONG_LOAD, START);
        printf("%u %u\n", utilization_basis_points(&rising, START + age),
               utilization_basis_points(&falling, START + age));
    }
    return 0;
}
