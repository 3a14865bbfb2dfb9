/*
 * The step response of NVML's utilisation, as measured on an H200: after a load of 100 % starts it reads 10 %
 * at 0.19 s, 46 % at 0.5 s, 78 % at 0.9 s and 99 % at 1.3 s, and it is gone 1.35 s after the load ends.
 *
 * A linear filter with that step response weighs the busy time of age t by the response's slope at t. Between
 * the measured points the response is taken to be straight, so the value is a sum of five terms: the busy
 * share of each span of ages, times what the response gains over it. Only this card was measured; the others
 * are taken to be as late.
 */
#include "utilization.h"

#define MS UINT64_C(1000000)

static const struct {
    uint64_t age; /* where the span ends; it begins where the one before ends */
    uint32_t gain; /* of 10,000 */
} spans[] = {{190 * MS, 1000}, {500 * MS, 3600}, {900 * MS, 3200}, {1300 * MS, 2100}, {1350 * MS, 100}};

uint32_t utilization_basis_points(const struct sim_history *history, uint64_t now) {
    uint64_t newer = 0;
    double sum = 0;
    for (unsigned int i = 0; i < sizeof spans / sizeof spans[0]; i++) {
        uint64_t age = spans[i].age < now ? spans[i].age : now;
        if (age > newer) {
            uint64_t busy = sim_history_busy(history, now - age, now - newer);
            sum += (double)spans[i].gain * (double)busy / (double)(spans[i].age - newer);
        }
        newer = spans[i].age;
    }
    return sum < 10000 ? (uint32_t)(sum + 0.5) : 10000;
}
