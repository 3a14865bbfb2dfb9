/*
 * Stream capture: which calls are refused, and that they spoil the capture.
 *
 * As the CUDA documentation has it: by the capture's mode, by the thread's, and by what the call would make
 * depend on what.
 */
#include "client.h"

#include <pthread.h>
#include <stdbool.h>

static CUstream stream;

static void begin(CUstreamCaptureMode mode)
{
    start();
    stream = new_stream(CU_STREAM_NON_BLOCKING);
    OK(cuStreamBeginCapture(stream, mode));
}

static void is_spoilt(void)
{
    CUgraph graph = (CUgraph)1;
    CUstreamCaptureStatus status;
    OK(cuStreamIsCapturing(stream, &status));
    EQUAL(status, CU_STREAM_CAPTURE_STATUS_INVALIDATED);
    EQUAL(spin(stream, MS), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    EQUAL(cuStreamEndCapture(stream, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    REQUIRE(graph == NULL);
    OK(spin(stream, MS)); /* and everything is as before */
    OK(cuStreamSynchronize(stream));
}

/* ---- what is refused ---- */

static void waiting_for_what_captures_spoils_it(void)
{
    begin(CU_STREAM_CAPTURE_MODE_RELAXED); /* no mode allows this */
    EQUAL(cuStreamSynchronize(stream), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    is_spoilt();
    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    EQUAL(cuStreamQuery(stream), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    is_spoilt();
}

static void no_mode_lets_a_context_be_waited_for_while_a_stream_of_it_captures(void)
{
    begin(CU_STREAM_CAPTURE_MODE_RELAXED);
    EQUAL(cuCtxSynchronize(), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    is_spoilt();
}

static void an_event_of_a_capture_cannot_be_queried(void)
{
    begin(CU_STREAM_CAPTURE_MODE_RELAXED);
    CUevent event = new_event();
    OK(cuEventRecord(event, stream));
    EQUAL(cuEventQuery(event), CUDA_ERROR_CAPTURED_EVENT);
    is_spoilt();
    OK(cuEventRecord(event, stream)); /* recorded outside, it is an event again */
    OK(cuEventSynchronize(event));
}

static void work_outside_must_not_be_waited_for_inside(void)
{
    start();
    stream = new_stream(CU_STREAM_NON_BLOCKING);
    CUevent outside = new_event();
    OK(cuEventRecord(outside, new_stream(CU_STREAM_NON_BLOCKING)));
    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    EQUAL(cuStreamWaitEvent(stream, outside, 0), CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
    is_spoilt();
}

static void the_legacy_stream_must_not_depend_on_a_capture(void)
{
    start();
    stream = new_stream(CU_STREAM_DEFAULT);
    EQUAL(cuStreamBeginCapture(NULL, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    CUstreamCaptureStatus status;
    EQUAL(cuStreamIsCapturing(NULL, &status), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    OK(spin(stream, MS)); /* that was only a question */
    EQUAL(spin(NULL, MS), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    is_spoilt();
    CUstream free_running = new_stream(CU_STREAM_NON_BLOCKING);
    OK(cuStreamBeginCapture(free_running, CU_STREAM_CAPTURE_MODE_RELAXED));
    OK(spin(NULL, MS)); /* that one has nothing to do with it */
}

struct attempt {
    CUstreamCaptureMode mode;
    CUresult result;
};

/* An unsafe call: the event has nothing to do with the capture. */
static void *query_in_mode(void *argument)
{
    struct attempt *attempt = argument;
    CUevent event;
    OK(cuCtxSetCurrent(context));
    OK(cuEventCreate(&event, 0));
    OK(cuThreadExchangeStreamCaptureMode(&attempt->mode));
    attempt->result = cuEventQuery(event);
    return NULL;
}

static CUresult query_in_another_thread(CUstreamCaptureMode mode)
{
    pthread_t thread;
    struct attempt attempt = {.mode = mode};
    OK(pthread_create(&thread, NULL, query_in_mode, &attempt));
    OK(pthread_join(thread, NULL));
    return attempt.result;
}

static CUresult query_in_this_thread(CUstreamCaptureMode mode)
{
    struct attempt attempt = {.mode = mode};
    query_in_mode(&attempt);
    OK(cuThreadExchangeStreamCaptureMode(&attempt.mode)); /* back to what it was */
    return attempt.result;
}

#define GLOBAL CU_STREAM_CAPTURE_MODE_GLOBAL
#define LOCAL CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
#define RELAXED CU_STREAM_CAPTURE_MODE_RELAXED

static void unsafe_calls_are_refused_by_mode(void)
{
    static const struct {
        CUstreamCaptureMode capture, thread;
        bool here, elsewhere; /* refused in the capturing thread, in another */
    } table[] = {
        {GLOBAL, GLOBAL, true, true},    {GLOBAL, LOCAL, true, false},   {GLOBAL, RELAXED, false, false},
        {LOCAL, GLOBAL, true, false},    {LOCAL, LOCAL, true, false},    {LOCAL, RELAXED, false, false},
        {RELAXED, GLOBAL, false, false}, {RELAXED, LOCAL, false, false}, {RELAXED, RELAXED, false, false},
    };
    CUgraph graph;
    start();
    stream = new_stream(CU_STREAM_NON_BLOCKING);
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        CUresult spoilt = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, refused = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
        OK(cuStreamBeginCapture(stream, table[i].capture));
        EQUAL(query_in_this_thread(table[i].thread), table[i].here ? refused : 0);
        EQUAL(cuStreamEndCapture(stream, &graph), table[i].here ? spoilt : 0);
        OK(cuStreamBeginCapture(stream, table[i].capture));
        EQUAL(query_in_another_thread(table[i].thread), table[i].elsewhere ? refused : 0);
        EQUAL(cuStreamEndCapture(stream, &graph), table[i].elsewhere ? spoilt : 0);
    }
}

static void unsafe_calls_of_every_kind_are_refused(void)
{
    CUdeviceptr pointer;
    CUstream other;
    CUgraph graph;
    start();
    stream = new_stream(CU_STREAM_NON_BLOCKING);
    other = new_stream(CU_STREAM_NON_BLOCKING);
    CUevent event = new_event();
    for (int i = 0; i < 5; i++) {
        OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
        CUresult result = i == 0   ? cuMemAlloc(&pointer, 1)
                          : i == 1 ? cuCtxSynchronize()
                          : i == 2 ? cuStreamSynchronize(other)
                          : i == 3 ? cuEventSynchronize(event)
                                   : cuMemAllocAsync(&pointer, 1, other);
        REQUIRE(result != CUDA_SUCCESS);
        EQUAL(cuStreamEndCapture(stream, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    }
}

static void *end_capture(void *result)
{
    CUgraph graph;
    OK(cuCtxSetCurrent(context));
    *(CUresult *)result = cuStreamEndCapture(stream, &graph);
    return NULL;
}

static void a_capture_ends_in_its_own_thread_unless_relaxed(void)
{
    pthread_t thread;
    CUresult result;
    CUgraph graph;
    begin(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
    OK(pthread_create(&thread, NULL, end_capture, &result));
    OK(pthread_join(thread, NULL));
    EQUAL(result, CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
    OK(cuStreamEndCapture(stream, &graph));
    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    OK(pthread_create(&thread, NULL, end_capture, &result));
    OK(pthread_join(thread, NULL));
    OK(result);
    EQUAL(cuStreamEndCapture(stream, &graph), CUDA_ERROR_ILLEGAL_STATE);
}

static void destroying_the_capturing_stream_ends_the_capture(void)
{
    begin(CU_STREAM_CAPTURE_MODE_GLOBAL);
    OK(spin(stream, MS));
    OK(cuStreamDestroy(stream));
    OK(cuCtxSynchronize()); /* nothing captures any more */
}

CASES(CASE(waiting_for_what_captures_spoils_it)
      CASE(no_mode_lets_a_context_be_waited_for_while_a_stream_of_it_captures)
      CASE(an_event_of_a_capture_cannot_be_queried)
      CASE(work_outside_must_not_be_waited_for_inside) CASE(the_legacy_stream_must_not_depend_on_a_capture)
      CASE(unsafe_calls_are_refused_by_mode) CASE(unsafe_calls_of_every_kind_are_refused)
      CASE(a_capture_ends_in_its_own_thread_unless_relaxed)
      CASE(destroying_the_capturing_stream_ends_the_capture))
