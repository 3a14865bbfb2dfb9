/*
 * The two kernels, as PTX that any card since 2014 takes, and how long they take.
 *
 * weir_spin(ns, iterations) does a fixed amount of dependent arithmetic: work, not waiting, so that a kernel
 * which the driver switches out for another process's turn still has its own rest to do. How many iterations
 * make a nanosecond is calibrated at the start (on an H200, 1,000 us then take 1,003 from launch to launch, and
 * 44 us 45.8). With 0 iterations it waits until %globaltimer has moved by ns, which is as exact alone, but
 * counts the neighbour's turns. How long the work took by the card's own clock, it leaves in weir_elapsed.
 * A simulated card runs no PTX: it takes the first argument for the duration, and weir_elapsed stays 0.
 */
#include <stddef.h>

#include "load.h"

#define CALIBRATION_NS 1000000 /* below a driver's time slice (about 2 ms) */
#define CALIBRATION_ITERATIONS_PER_NS 0.1 /* a first guess; the measured rate replaces it */
#define CALIBRATION_BUSY_NS 50e6 /* of work at least, in case the clock is still coming up: not seen to matter */
#define CALIBRATION_ROUNDS 1000
#define CALIBRATION_AGREE 0.01

static const char ptx[] =
    ".version 6.0\n"
    ".target sm_52\n"
    ".address_size 64\n"
    "\n"
    ".visible .global .align 8 .u64 weir_elapsed;\n"
    "\n"
    ".visible .entry weir_empty()\n"
    "{\n"
    "    ret;\n"
    "}\n"
    "\n"
    ".visible .entry weir_spin(.param .u64 ns, .param .u64 iterations)\n"
    "{\n"
    "    .shared .align 4 .u32 sink;\n"
    "    .reg .pred %p<3>;\n"
    "    .reg .u32 %r<2>;\n"
    "    .reg .u64 %rd<6>;\n"
    "    ld.param.u64 %rd1, [ns];\n"
    "    ld.param.u64 %rd2, [iterations];\n"
    "    mov.u64 %rd3, %globaltimer;\n"
    "    setp.ne.u64 %p1, %rd2, 0;\n"
    "    @%p1 bra WORK_BEGIN;\n"
    "CLOCK:\n"
    "    mov.u64 %rd4, %globaltimer;\n"
    "    sub.u64 %rd5, %rd4, %rd3;\n"
    "    setp.lt.u64 %p1, %rd5, %rd1;\n"
    "    @%p1 bra CLOCK;\n"
    "    ret;\n"
    "WORK_BEGIN:\n"
    "    cvt.u32.u64 %r1, %rd1;\n"
    "WORK:\n"
    "    mad.lo.u32 %r1, %r1, 1664525, 1013904223;\n"
    "    sub.u64 %rd2, %rd2, 1;\n"
    "    setp.ne.u64 %p2, %rd2, 0;\n"
    "    @%p2 bra WORK;\n"
    "    st.volatile.shared.u32 [sink], %r1;\n" /* else the loop has no effect and is removed */
    "    mov.u64 %rd4, %globaltimer;\n"
    "    sub.u64 %rd5, %rd4, %rd3;\n"
    "    st.volatile.global.u64 [weir_elapsed], %rd5;\n"
    "    ret;\n"
    "}\n";

static CUresult launch(CUfunction function, const struct options *options, unsigned grid, CUstream stream,
                       void **arguments) {
    if (options->cooperative)
        return driver.cuLaunchCooperativeKernel(function, grid, 1, 1, 32, 1, 1, 0, stream, arguments);
    if (options->extended) {
        CUlaunchConfig config = {.gridDimX = grid, .gridDimY = 1, .gridDimZ = 1,
                                 .blockDimX = 32, .blockDimY = 1, .blockDimZ = 1, .hStream = stream};
        return driver.cuLaunchKernelEx(&config, function, arguments, NULL);
    }
    return driver.cuLaunchKernel(function, grid, 1, 1, 32, 1, 1, 0, stream, arguments, NULL);
}

CUresult kernels_launch(struct kernels *kernels, const struct options *options, CUstream stream) {
    void *arguments[] = {&kernels->ns, &kernels->iterations};
    bool spins = kernels->chosen == kernels->spin;
    return launch(kernels->chosen, options, kernels->grid, stream, spins ? arguments : NULL);
}

/* Nanoseconds that one spin of about CALIBRATION_NS takes on the card, by its own clock; 0: no kernel runs. */
static uint64_t timed_spin(const struct kernels *kernels, const struct options *options, CUdeviceptr elapsed) {
    uint64_t ns = CALIBRATION_NS, taken;
    uint64_t iterations = (uint64_t)(CALIBRATION_NS * CALIBRATION_ITERATIONS_PER_NS);
    void *arguments[] = {&ns, &iterations};
    CHECK(launch(kernels->spin, options, kernels->grid, NULL, arguments));
    CHECK(driver.cuMemcpyDtoH(&taken, elapsed, sizeof(taken)));
    return taken;
}

/*
 * Iterations for one nanosecond, by the shortest of several spins, so that the clock has come up and no
 * neighbour's turn is in it. The kernel itself tells how long it took: between two events lies also the time
 * for which a limiter holds the launch. Under a limit of 10 % it held every one, and kernels calibrated by
 * events were down to 1/8.7 as long as asked.
 */
static double calibrate(const struct kernels *kernels, const struct options *options, CUdeviceptr elapsed) {
    uint64_t best = timed_spin(kernels, options, elapsed);
    double busy = (double)best;
    for (int round = 0, agreed = 0;
         best && round < CALIBRATION_ROUNDS && (agreed < 3 || busy < CALIBRATION_BUSY_NS); round++) {
        uint64_t taken = timed_spin(kernels, options, elapsed);
        agreed = (double)taken > (double)best * (1 - CALIBRATION_AGREE) ? agreed + 1 : 0;
        busy += (double)taken;
        best = taken < best ? taken : best;
    }
    return best ? CALIBRATION_NS * CALIBRATION_ITERATIONS_PER_NS / (double)best : 0;
}

void kernels_load(struct kernels *kernels, const struct options *options) {
    CUmodule module;
    CUdeviceptr elapsed;
    CHECK(driver.cuModuleLoadData(&module, ptx));
    CHECK(driver.cuModuleGetGlobal(&elapsed, NULL, module, "weir_elapsed"));
    CHECK(driver.cuModuleGetFunction(&kernels->spin, module, "weir_spin"));
    CHECK(driver.cuModuleGetFunction(&kernels->empty, module, "weir_empty"));
    kernels->chosen = options->kernel_us > 0 ? kernels->spin : kernels->empty;
    kernels->grid = (unsigned)options->grid;
    kernels->ns = (uint64_t)(options->kernel_us * 1000);
    kernels->iterations = 0;
    if (options->kernel_us > 0 && !options->no_calibrate && options_launches(options))
        kernels->iterations = (uint64_t)((double)kernels->ns * calibrate(kernels, options, elapsed));
}
