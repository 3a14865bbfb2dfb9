/*
 * Streams, events and the host's own functions in them, as a program sees them.
 *
 * Orders are told by events on the simulated timeline, behind a first kernel that keeps the card busy until all
 * is queued; so a slow host changes no result.
 */
#include "client.h"

#include <pthread.h>
#include <sys/wait.h>

/* ---- streams ---- */

/* Queue 10 ms in the first stream, then 1 ms in the second: how long after the first's start is each over? */
static void race(CUstream first, CUstream second, long *first_end, long *second_end)
{
    CUevent begin = new_event(), one = new_event(), two = new_event(), gate = new_event();
    CUstream head = new_stream(CU_STREAM_NON_BLOCKING);
    OK(spin(head, HEAD_START));
    OK(cuEventRecord(gate, head));
    OK(cuStreamWaitEvent(first, gate, 0));
    OK(cuEventRecord(begin, first));
    OK(spin(first, 10 * MS));
    OK(cuEventRecord(one, first));
    OK(cuEventRecord(two, second));
    *first_end = between(begin, one);
    *second_end = between(begin, two);
}

static void the_legacy_stream_waits_for_blocking_streams_and_they_for_it(void)
{
    long first, second;
    start();
    CUstream blocking = new_stream(CU_STREAM_DEFAULT), free_running = new_stream(CU_STREAM_NON_BLOCKING);
    race(CU_STREAM_LEGACY, blocking, &first, &second);
    EQUAL(second, 10000);
    race(blocking, NULL, &first, &second);
    EQUAL(second, 10000);
    race(blocking, CU_STREAM_PER_THREAD, &first, &second);
    REQUIRE(second < 0);
    race(CU_STREAM_PER_THREAD, CU_STREAM_LEGACY, &first, &second);
    EQUAL(second, 10000);
    race(CU_STREAM_LEGACY, free_running, &first, &second);
    REQUIRE(second < 0); /* it was over before the first even began */
    race(free_running, CU_STREAM_LEGACY, &first, &second);
    REQUIRE(second < 0);
}

static void waiting_for_the_legacy_stream_waits_for_blocking_streams(void)
{
    start();
    CUstream blocking = new_stream(CU_STREAM_DEFAULT), free_running = new_stream(CU_STREAM_NON_BLOCKING);
    OK(spin(blocking, 20 * MS));
    OK(spin(free_running, 600 * MS));
    EQUAL(cuStreamQuery(NULL), CUDA_ERROR_NOT_READY);
    OK(cuStreamSynchronize(NULL));
    OK(cuStreamQuery(blocking));
    EQUAL(cuStreamQuery(free_running), CUDA_ERROR_NOT_READY);
    OK(cuCtxSynchronize());
    OK(cuStreamQuery(free_running));
}

static void a_stream_waits_for_an_event(void)
{
    start();
    CUstream first = new_stream(CU_STREAM_NON_BLOCKING), second = new_stream(CU_STREAM_NON_BLOCKING);
    CUevent begin = new_event(), middle = new_event(), end = new_event();
    OK(spin(first, HEAD_START));
    OK(cuEventRecord(begin, first));
    OK(spin(first, 5 * MS));
    OK(cuEventRecord(middle, first));
    OK(cuStreamWaitEvent(second, middle, 0));
    OK(spin(second, 2 * MS));
    OK(cuEventRecord(end, second));
    EQUAL(between(begin, end), 7000);
    EQUAL(between(end, begin), -7000);
}

static void streams_say_what_they_are(void)
{
    start();
    CUstream stream;
    CUcontext of;
    CUdevice device;
    int priority, least, greatest;
    unsigned flags;
    unsigned long long id, other;
    OK(cuCtxGetStreamPriorityRange(&least, &greatest));
    OK(cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, greatest - 100));
    OK(cuStreamGetPriority(stream, &priority));
    EQUAL(priority, greatest);
    OK(cuStreamGetFlags(stream, &flags));
    EQUAL(flags, CU_STREAM_NON_BLOCKING);
    OK(cuStreamGetCtx(stream, &of));
    REQUIRE(of == context);
    OK(cuStreamGetDevice(stream, &device));
    EQUAL(device, 0);
    OK(cuStreamGetId(stream, &id));
    OK(cuStreamGetId(NULL, &other));
    REQUIRE(id != other);
    OK(cuStreamDestroy(stream));
    EQUAL(cuStreamCreate(&stream, 99), CUDA_ERROR_INVALID_VALUE);
    EQUAL(cuStreamDestroy(NULL), CUDA_ERROR_INVALID_HANDLE);
}

static void *own_stream_id(void *id)
{
    OK(cuCtxSetCurrent(context));
    OK(cuStreamGetId(CU_STREAM_PER_THREAD, id));
    return NULL;
}

static void each_thread_has_its_own_default_stream(void)
{
    unsigned long long mine, again, others;
    pthread_t thread;
    start();
    OK(cuStreamGetId(CU_STREAM_PER_THREAD, &mine));
    OK(cuStreamGetId(CU_STREAM_PER_THREAD, &again));
    EQUAL(mine, again);
    for (int i = 0; i < 3000; i++) { /* more than there are channels: a thread's goes with it */
        OK(pthread_create(&thread, NULL, own_stream_id, &others));
        OK(pthread_join(thread, NULL));
        REQUIRE(others != mine);
    }
}

/* ---- events ---- */

static void events_tell_what_is_done(void)
{
    float ms;
    CUevent untimed;
    start();
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    CUevent first = new_event(), second = new_event();
    OK(cuEventQuery(first)); /* never recorded: nothing to wait for */
    OK(cuEventSynchronize(first));
    EQUAL(cuEventElapsedTime(&ms, first, second), CUDA_ERROR_INVALID_HANDLE);
    OK(cuEventRecord(first, stream));
    OK(spin(stream, HEAD_START));
    OK(cuEventRecord(second, stream));
    EQUAL(cuEventQuery(second), CUDA_ERROR_NOT_READY);
    EQUAL(cuEventElapsedTime(&ms, first, second), CUDA_ERROR_NOT_READY);
    OK(cuEventSynchronize(second));
    OK(cuEventElapsedTime(&ms, first, second));
    REQUIRE(ms >= 200);
    OK(cuEventCreate(&untimed, CU_EVENT_DISABLE_TIMING));
    OK(cuEventRecord(untimed, stream));
    OK(cuEventSynchronize(untimed));
    EQUAL(cuEventElapsedTime(&ms, first, untimed), CUDA_ERROR_INVALID_HANDLE);
    EQUAL(cuEventCreate(&untimed, 0x100), CUDA_ERROR_INVALID_VALUE);
    EQUAL(cuEventRecord(NULL, stream), CUDA_ERROR_INVALID_HANDLE);
}

static void an_event_destroyed_while_queued_still_orders(void)
{
    start();
    CUstream first = new_stream(CU_STREAM_NON_BLOCKING), second = new_stream(CU_STREAM_NON_BLOCKING);
    CUevent gate = new_event();
    OK(spin(first, HEAD_START));
    OK(cuEventRecord(gate, first));
    OK(cuStreamWaitEvent(second, gate, 0));
    OK(cuEventDestroy(gate));
    for (int i = 0; i < 100; i++)
        OK(cuEventRecord(new_event(), second)); /* none of them gets its slot */
    EQUAL(cuStreamQuery(second), CUDA_ERROR_NOT_READY);
    OK(cuStreamSynchronize(second));
    OK(cuStreamQuery(first));
}

static void a_whole_context_records_and_waits(void)
{
    start();
    CUstream first = new_stream(CU_STREAM_NON_BLOCKING), second = new_stream(CU_STREAM_NON_BLOCKING);
    CUevent all = new_event(), begin = new_event(), end = new_event();
    OK(spin(first, HEAD_START));
    OK(cuEventRecord(begin, first));
    OK(spin(first, 4 * MS));
    OK(spin(second, 3 * MS));
    OK(cuCtxRecordEvent(context, all));
    OK(cuCtxWaitEvent(context, all));
    OK(spin(second, MS));
    OK(cuEventRecord(end, second));
    EQUAL(between(begin, all), 7000);
    EQUAL(between(all, end), 1000);
}

/* The child does its work only after what the parent recorded; it is told the handle through a pipe. */
static void wait_in_a_child(int from_parent, int to_parent)
{
    CUipcEventHandle handle;
    CUevent event;
    start();
    REQUIRE(read(from_parent, &handle, sizeof(handle)) == sizeof(handle));
    OK(cuIpcOpenEventHandle(&event, handle));
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    EQUAL(cuEventQuery(event), CUDA_ERROR_NOT_READY);
    OK(cuStreamWaitEvent(stream, event, 0));
    EQUAL(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
    OK(cuStreamSynchronize(stream));
    OK(cuEventQuery(event));
    REQUIRE(write(to_parent, "x", 1) == 1);
    REQUIRE(read(from_parent, &handle, 1) == 1); /* the parent has destroyed it */
    EQUAL(cuEventQuery(event), CUDA_ERROR_INVALID_HANDLE);
    exit(0);
}

static void an_event_orders_two_processes(void)
{
    int to_child[2], to_parent[2], status;
    char word;
    CUevent event;
    CUipcEventHandle handle;
    OK(pipe(to_child));
    OK(pipe(to_parent));
    pid_t child = fork();
    if (child == 0)
        wait_in_a_child(to_child[0], to_parent[1]);
    start();
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    EQUAL(cuIpcGetEventHandle(&handle, new_event()), CUDA_ERROR_INVALID_HANDLE);
    OK(cuEventCreate(&event, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING));
    OK(spin(stream, 3 * HEAD_START));
    OK(cuEventRecord(event, stream));
    OK(cuIpcGetEventHandle(&handle, event));
    REQUIRE(write(to_child[1], &handle, sizeof(handle)) == sizeof(handle));
    OK(cuEventSynchronize(event));
    REQUIRE(read(to_parent[0], &word, 1) == 1); /* the child has found it done, too */
    OK(cuEventDestroy(event));
    REQUIRE(write(to_child[1], "x", 1) == 1);
    REQUIRE(waitpid(child, &status, 0) == child);
    EQUAL(status, 0);
}

/* ---- the host's own code ---- */

static int order[8];
static _Atomic int ran;

static void note(void *which)
{
    order[ran++] = (int)(intptr_t)which;
}

static void note_callback(CUstream stream, CUresult status, void *which)
{
    OK(status);
    REQUIRE(stream != NULL);
    note(which);
}

static void host_functions_run_in_the_streams_order(void)
{
    start();
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    OK(spin(stream, 20 * MS));
    OK(cuLaunchHostFunc(stream, note, (void *)1));
    OK(spin(stream, MS));
    OK(cuStreamAddCallback(stream, note_callback, (void *)2, 0));
    OK(cuLaunchHostFunc(stream, note, (void *)3));
    EQUAL(ran, 0);
    OK(cuStreamSynchronize(stream));
    EQUAL(ran, 3);
    for (int i = 0; i < 3; i++)
        EQUAL(order[i], i + 1);
    EQUAL(cuLaunchHostFunc(stream, NULL, NULL), CUDA_ERROR_INVALID_VALUE);
}

CASES(CASE(the_legacy_stream_waits_for_blocking_streams_and_they_for_it)
      CASE(waiting_for_the_legacy_stream_waits_for_blocking_streams) CASE(a_stream_waits_for_an_event)
      CASE(streams_say_what_they_are) CASE(each_thread_has_its_own_default_stream)
      CASE(events_tell_what_is_done) CASE(an_event_destroyed_while_queued_still_orders)
      CASE(a_whole_context_records_and_waits) CASE(an_event_orders_two_processes)
      CASE(host_functions_run_in_the_streams_order))
