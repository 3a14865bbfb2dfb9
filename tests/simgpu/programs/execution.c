/*
 * Contexts, launches and forks, as a program sees them.
 *
 * Orders are told by events on the simulated timeline, behind a first kernel that keeps the card busy until all
 * is queued; so a slow host changes no result.
 */
#include "client.h"

#include <sys/wait.h>

static void nothing_but_init(void)
{
    REQUIRE(cuInit(0) == CUDA_SUCCESS);
}

static void calls_before_init_are_refused(void)
{
    int count;
    CUcontext none;
    EQUAL(cuDeviceGetCount(&count), CUDA_ERROR_NOT_INITIALIZED);
    EQUAL(cuCtxGetCurrent(&none), CUDA_ERROR_NOT_INITIALIZED);
    EQUAL(cuInit(1), CUDA_ERROR_INVALID_VALUE);
    OK(cuDriverGetVersion(&count));
    EQUAL(count, 13000);
}

static void errors_have_names(void)
{
    const char *text;
    OK(cuGetErrorName(CUDA_ERROR_OUT_OF_MEMORY, &text));
    REQUIRE(strcmp(text, "CUDA_ERROR_OUT_OF_MEMORY") == 0);
    OK(cuGetErrorString(CUDA_ERROR_NOT_READY, &text));
    REQUIRE(strcmp(text, "device not ready") == 0);
    EQUAL(cuGetErrorName((CUresult)12345, &text), CUDA_ERROR_INVALID_VALUE);
    REQUIRE(text == NULL);
}

/* ---- contexts ---- */

static void contexts_stack_and_can_be_destroyed(void)
{
    CUcontext first, second, current;
    CUdevice device;
    OK(cuInit(0));
    EQUAL(cuCtxSynchronize(), CUDA_ERROR_INVALID_CONTEXT);
    OK(cuCtxCreate(&first, NULL, CU_CTX_SCHED_BLOCKING_SYNC, 0));
    OK(cuCtxCreate(&second, NULL, 0, 0));
    OK(cuCtxGetCurrent(&current));
    REQUIRE(current == second);
    OK(cuCtxPopCurrent(&current));
    OK(cuCtxGetCurrent(&current));
    REQUIRE(current == first);
    OK(cuCtxSetCurrent(second));
    OK(cuCtxDestroy(first));
    OK(cuCtxSynchronize());
    OK(cuCtxDestroy(second));
    EQUAL(cuCtxGetDevice(&device), CUDA_ERROR_INVALID_CONTEXT);
    EQUAL(cuCtxPushCurrent(first), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    EQUAL(cuCtxCreate(&first, NULL, 0, 7), CUDA_ERROR_INVALID_DEVICE);
}

static void a_context_destroyed_elsewhere_reads_as_destroyed(void)
{
    CUcontext other;
    start();
    OK(cuCtxPopCurrent(NULL));
    OK(cuCtxPushCurrent(context));
    OK(cuCtxPushCurrent(context));
    OK(cuCtxDestroy(context)); /* leaves the stack once only */
    EQUAL(cuCtxSynchronize(), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    OK(cuCtxGetCurrent(&other));
    REQUIRE(other == context);
}

static void a_context_lives_until_its_last_user_detaches(void)
{
    CUcontext same, primary;
    start();
    OK(cuCtxAttach(&same, 0));
    REQUIRE(same == context);
    EQUAL(cuCtxAttach(&same, 1), CUDA_ERROR_INVALID_VALUE);
    OK(cuCtxDetach(context));
    OK(cuCtxSynchronize());
    OK(cuCtxPopCurrent(NULL));
    EQUAL(cuCtxDetach(context), CUDA_ERROR_INVALID_CONTEXT); /* it is not current */
    OK(cuCtxPushCurrent(context));
    OK(cuCtxDetach(context));
    EQUAL(cuCtxPushCurrent(context), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    OK(cuDevicePrimaryCtxRetain(&primary, 0));
    OK(cuCtxPushCurrent(primary));
    EQUAL(cuCtxDetach(primary), CUDA_ERROR_INVALID_CONTEXT); /* it is released */
    OK(cuCtxAttach(&same, 0));
    OK(cuCtxDetach(primary));
    OK(cuCtxSynchronize());
}

static void the_primary_context_is_counted(void)
{
    CUcontext first, second;
    unsigned flags;
    int active;
    size_t before, with, after, total;
    OK(cuInit(0));
    OK(cuCtxCreate(&context, NULL, 0, 0));
    OK(cuMemGetInfo(&before, &total));
    OK(cuDevicePrimaryCtxRetain(&first, 0));
    OK(cuDevicePrimaryCtxRetain(&second, 0));
    REQUIRE(first == second);
    OK(cuMemGetInfo(&with, &total));
    EQUAL(before - with, 518ull << 20);
    OK(cuDevicePrimaryCtxRelease(0));
    OK(cuDevicePrimaryCtxGetState(0, &flags, &active));
    EQUAL(active, 1);
    OK(cuDevicePrimaryCtxRelease(0));
    OK(cuDevicePrimaryCtxGetState(0, &flags, &active));
    EQUAL(active, 0);
    EQUAL(cuDevicePrimaryCtxRelease(0), CUDA_ERROR_INVALID_CONTEXT);
    OK(cuMemGetInfo(&after, &total));
    EQUAL(after, before);
    EQUAL(cuCtxPushCurrent(first), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    OK(cuDevicePrimaryCtxRetain(&second, 0));
    REQUIRE(first == second);
    OK(cuCtxPushCurrent(first));
    OK(cuCtxSynchronize());
}

/* ---- launches ---- */

static void impossible_launches_are_refused(void)
{
    start();
    uint64_t ns = 1;
    void *p[] = {&ns};
    EQUAL(cuLaunchKernel(spin_kernel, 0, 1, 1, 1, 1, 1, 0, 0, p, NULL), CUDA_ERROR_INVALID_VALUE);
    EQUAL(cuLaunchKernel(spin_kernel, 1, 1, 1, 1025, 1, 1, 0, 0, p, NULL), CUDA_ERROR_INVALID_VALUE);
    EQUAL(cuLaunchKernel(spin_kernel, 1, 1, 1, 64, 64, 1, 0, 0, p, NULL), CUDA_ERROR_INVALID_VALUE);
    EQUAL(cuLaunchKernel(spin_kernel, 1, 65536, 1, 1, 1, 1, 0, 0, p, NULL), CUDA_ERROR_INVALID_VALUE);
    EQUAL(cuLaunchKernel(spin_kernel, 1, 1, 1, 1, 1, 1, 1 << 20, 0, p, NULL), CUDA_ERROR_INVALID_VALUE);
    EQUAL(cuLaunchKernel(NULL, 1, 1, 1, 1, 1, 1, 0, 0, p, NULL), CUDA_ERROR_INVALID_HANDLE);
    EQUAL(cuLaunchCooperativeKernel(plain_kernel, 1 << 20, 1, 1, 1024, 1, 1, 0, 0, NULL),
          CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE);
    OK(cuLaunchCooperativeKernel(plain_kernel, 132, 1, 1, 1024, 1, 1, 0, 0, NULL));
}

static void every_way_to_launch_takes_the_time_it_says(void)
{
    start();
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    CUevent at[5];
    uint64_t ns = 3 * MS;
    void *p[] = {&ns};
    size_t size = sizeof(ns);
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &ns, CU_LAUNCH_PARAM_BUFFER_SIZE, &size, CU_LAUNCH_PARAM_END};
    CUlaunchConfig config = {.gridDimX = 1, .gridDimY = 1, .gridDimZ = 1, .blockDimX = 1, .blockDimY = 1,
                             .blockDimZ = 1, .hStream = stream};
    for (int i = 0; i < 5; i++)
        at[i] = new_event();
    OK(spin(stream, HEAD_START));
    OK(cuEventRecord(at[0], stream));
    OK(cuLaunchKernel(spin_kernel, 1, 1, 1, 1, 1, 1, 0, stream, NULL, extra));
    OK(cuEventRecord(at[1], stream));
    OK(cuLaunchKernelEx(&config, spin_kernel, p, NULL));
    OK(cuEventRecord(at[2], stream));
    OK(cuLaunchCooperativeKernel(spin_kernel, 1, 1, 1, 1, 1, 1, 0, stream, p));
    OK(cuEventRecord(at[3], stream));
    OK(cuLaunchKernel(plain_kernel, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL));
    OK(cuEventRecord(at[4], stream));
    for (int i = 0; i < 3; i++)
        EQUAL(between(at[i], at[i + 1]), 3000);
    EQUAL(between(at[3], at[4]), 2);
}

static void launches_of_before_cuda_4_work(void)
{
    start();
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    CUevent begin = new_event(), end = new_event();
    uint64_t ns = 3 * MS;
    EQUAL(cuLaunchGrid(spin_kernel, 1, 1), CUDA_ERROR_INVALID_VALUE); /* it has no block shape yet */
    OK(cuFuncSetBlockShape(spin_kernel, 32, 1, 1));
    OK(cuFuncSetSharedSize(spin_kernel, 1024));
    EQUAL(cuParamSetv(spin_kernel, 4095, &ns, sizeof(ns)), CUDA_ERROR_INVALID_VALUE);
    OK(cuParamSetv(spin_kernel, 0, &ns, sizeof(ns)));
    OK(cuParamSetSize(spin_kernel, sizeof(ns)));
    OK(spin(stream, HEAD_START));
    OK(cuEventRecord(begin, stream));
    OK(cuLaunchGridAsync(spin_kernel, 4, 4, stream));
    OK(cuEventRecord(end, stream));
    EQUAL(between(begin, end), 3000);
    OK(cuLaunch(spin_kernel));
}

static void a_full_queue_makes_the_launch_wait(void)
{
    start();
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    uint64_t before = clock_ns();
    for (int i = 0; i < 1200; i++)
        OK(spin(stream, 500000));
    REQUIRE(clock_ns() - before > 88 * MS); /* 176 of them were over: the queue holds 1,024 */
    EQUAL(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
    OK(cuStreamSynchronize(stream));
    OK(cuStreamQuery(stream));
    REQUIRE(clock_ns() - before >= 600 * MS);
}

/* ---- forks ---- */

static void a_forks_child_is_not_initialised(void)
{
    start();
    OK(spin(NULL, MS));
    pid_t child = fork();
    if (child == 0) {
        int count;
        CUstream stream;
        EQUAL(cuInit(0), CUDA_ERROR_NOT_INITIALIZED);
        EQUAL(cuDeviceGetCount(&count), CUDA_ERROR_NOT_INITIALIZED);
        EQUAL(cuStreamCreate(&stream, 0), CUDA_ERROR_NOT_INITIALIZED);
        EQUAL(spin(NULL, MS), CUDA_ERROR_NOT_INITIALIZED);
        EQUAL(cuCtxDestroy(context), CUDA_ERROR_NOT_INITIALIZED);
        exit(0);
    }
    int status;
    REQUIRE(waitpid(child, &status, 0) == child);
    EQUAL(status, 0);
    OK(cuCtxSynchronize()); /* the parent goes on */
}

static void a_child_forked_before_init_is_a_process_of_its_own(void)
{
    pid_t child = fork();
    start();
    OK(spin(NULL, MS));
    OK(cuCtxSynchronize());
    if (child == 0)
        exit(0);
    int status;
    REQUIRE(waitpid(child, &status, 0) == child);
    EQUAL(status, 0);
}

CASES(CASE(nothing_but_init) CASE(calls_before_init_are_refused) CASE(errors_have_names)
      CASE(contexts_stack_and_can_be_destroyed) CASE(a_context_destroyed_elsewhere_reads_as_destroyed)
      CASE(a_context_lives_until_its_last_user_detaches) CASE(the_primary_context_is_counted)
      CASE(impossible_launches_are_refused)
      CASE(every_way_to_launch_takes_the_time_it_says) CASE(launches_of_before_cuda_4_work)
      CASE(a_full_queue_makes_the_launch_wait) CASE(a_forks_child_is_not_initialised)
      CASE(a_child_forked_before_init_is_a_process_of_its_own))
