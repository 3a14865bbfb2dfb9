/*
 * A registered page of words that streams wait for, and events that say how far a stream is.
 *
 * A store is made only when the stream has been seen to wait, so no test depends on how fast anybody is.
 */
#ifndef WORDS_H
#define WORDS_H

#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>

#include "client.h"

#define PAGE 4096

static _Atomic uint64_t *words; /* a registered page */
static CUdeviceptr page;

static inline void start_with_words(void)
{
    start();
    words = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    REQUIRE(words != MAP_FAILED);
    OK(cuMemHostRegister((void *)words, PAGE, CU_MEMHOSTREGISTER_DEVICEMAP));
    OK(cuMemHostGetDevicePointer(&page, (void *)words, 0));
}

static inline CUdeviceptr word(unsigned i)
{
    return page + 8 * i;
}

/* Behind all that is queued; `passed` says whether the stream got there. */
static inline CUevent mark(CUstream stream)
{
    CUevent event = new_event();
    OK(cuEventRecord(event, stream));
    return event;
}

static inline int passed(CUevent event)
{
    CUresult state = cuEventQuery(event);
    REQUIRE(state == CUDA_SUCCESS || state == CUDA_ERROR_NOT_READY);
    return state == CUDA_SUCCESS;
}

/* ---- a store while the calling thread is blocked ---- */

static pid_t blocking; /* the thread that is about to wait */

static inline char state_of(pid_t thread)
{
    char path[64], state = '?';
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", thread);
    FILE *file = fopen(path, "r");
    REQUIRE(file && fscanf(file, "%*d (%*[^)]) %c", &state) == 1);
    fclose(file);
    return state;
}

static inline void *store_one(void *where)
{
    while (state_of(blocking) != 'S')
        sched_yield();
    *(_Atomic uint64_t *)where = 1;
    return NULL;
}

/* The next that makes this thread sleep should be the call that the store ends. */
static inline void store_when_it_sleeps(pthread_t *thread, _Atomic uint64_t *where)
{
    blocking = gettid();
    OK(pthread_create(thread, NULL, store_one, (void *)where));
}

#endif
