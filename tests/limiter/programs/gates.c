/*
 * The gates (gate.c) by themselves, with a driver that only says where a stream waits.
 *
 *   gates WAY   closes a gate and prints whether it opened as it should: "let-go" when it is let go, "kept" by
 *               itself when it never is, "later" at the moment of another that was closed meanwhile, "two" each
 *               at its own, and "between" at its own while another context's stays closed.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "clock.h"
#include "gate.h"
#include "internal.h"
#include "real.h"
#include "streams.h"

#define CONTEXT ((CUcontext)1)
#define STREAM ((CUstream)64)
#define FAR (50 * WEIR_MS)
#define OTHER ((CUcontext)2)
#define FARTHER (1000 * WEIR_S)

struct weir_linker weir_linker;
void *_Atomic weir_reals[WEIR_SYMBOLS];
__thread const char *weir_entered;
static _Atomic uint64_t *word;

void *weir_load_real(enum weir_symbol_id id)
{
    (void)id;
    abort();
}
bool weir_has_real(enum weir_symbol_id id) { return atomic_load(&weir_reals[id]) != NULL; }
bool context_enter(CUcontext context) { return (void)context, false; }
void context_leave(void) {}
void weir_lock(pthread_mutex_t *lock, sigset_t *before) { (void)before, pthread_mutex_lock(lock); }
void weir_unlock(pthread_mutex_t *lock, const sigset_t *before) { (void)before, pthread_mutex_unlock(lock); }

static CUresult take_page(void *page, size_t size, unsigned flags)
{
    (void)size, (void)flags;
    word = page;
    return CUDA_SUCCESS;
}
static CUresult address_of(CUdeviceptr *address, void *page, unsigned flags)
{
    (void)flags;
    *address = (CUdeviceptr)page;
    return CUDA_SUCCESS;
}
static CUresult wait_for(CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned flags)
{
    bool as_asked = stream == STREAM && address == (CUdeviceptr)word && flags == CU_STREAM_WAIT_VALUE_GEQ;
    return as_asked && value ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
static CUresult exchange(CUstreamCaptureMode *mode) { return (void)mode, CUDA_SUCCESS; }

static bool open_for(uint64_t moment) { return atomic_load(word) >= moment; }

static bool is_early(uint64_t moment) { return open_for(moment) && weir_now() < moment; }

/* Waits until it opens, which may be late on a busy machine, and says whether it was not opened before its moment. */
static bool opens_on_the_dot(uint64_t moment)
{
    while (!open_for(moment))
        if (weir_now() > moment + 60 * WEIR_S)
            return false;
    return weir_now() >= moment;
}

/* What is held is let go while two contexts have a gate closed: the next to open is not the last. */
static bool opens_before_another(void)
{
    struct hold hold = gate_hold(CONTEXT, STREAM, 0);
    uint64_t moment = weir_now() + FAR;
    bool closed = hold.until && gate_close(CONTEXT, STREAM, moment, 0);
    _Atomic uint64_t *first = word;
    closed = closed && gate_close(OTHER, STREAM, weir_now() + FARTHER, 0);
    word = first;
    gate_let_go(&hold);
    return closed && opens_on_the_dot(moment);
}

static bool is_right(const char *way)
{
    if (strcmp(way, "between") == 0)
        return opens_before_another();

    struct hold hold = gate_hold(CONTEXT, STREAM, 0);
    if (!hold.until || is_early(hold.until))
        return false;
    if (strcmp(way, "kept") == 0)
        return opens_on_the_dot(hold.until);
    uint64_t later = weir_now() + FAR;
    bool others = strcmp(way, "let-go") != 0;
    if (others && !gate_close(CONTEXT, STREAM, later, 0))
        return false;
    if (strcmp(way, "two") == 0 && !opens_on_the_dot(hold.until))
        return false;
    gate_let_go(&hold);
    if (!open_for(hold.until))
        return false;
    return !others || (!is_early(later) && opens_on_the_dot(later));
}

int main(int argc, char **argv)
{
    if (argc != 2)
        return 2;
    weir_linker.dlsym = dlsym;
    atomic_store(&weir_reals[WEIR_ID_cuMemHostRegister_v2], (void *)take_page);
    atomic_store(&weir_reals[WEIR_ID_cuMemHostGetDevicePointer_v2], (void *)address_of);
    atomic_store(&weir_reals[WEIR_ID_cuStreamWaitValue64_v2], (void *)wait_for);
    atomic_store(&weir_reals[WEIR_ID_cuThreadExchangeStreamCaptureMode], (void *)exchange);
    puts(is_right(argv[1]) ? "right" : "wrong");
    return 0;
}
