/*
 * What the files of the simulated libcuda share: entry checks, contexts, streams, and submitting work.
 *
 * Every exported function starts with sim_enter or sim_enter_context and returns what they refuse with.
 * Contexts and streams are objects of one process (CUcontext and CUstream point at them); their lists are
 * changed under the machine's lock, which is also what orders launches. Nobody holds it while waiting.
 *
 * What it does not do: know memory. Copies, allocations and their stream order are memory.h's.
 */
#ifndef SIMGPU_DRIVER_H
#define SIMGPU_DRIVER_H

#define __CUDA_API_VERSION_INTERNAL /* cuda.h then declares every version by its real name */
#pragma GCC visibility push(default) /* what cuda.h declares is exported, wherever it is defined */
#include <cuda.h>
#pragma GCC visibility pop
#include <stdbool.h>
#include <stdint.h>

#include "../engine/engine.h"

#define SIM_GREATEST_PRIORITY (-5) /* the most urgent a stream can be; 0 is the least */

struct sim_graph;

/* A CUcontext. `device` is the card's ordinal in this process's CUDA_VISIBLE_DEVICES order … */
struct sim_context {
    uint32_t magic;
    CUdevice ordinal;
    uint32_t device; /* … and this its index in the machine */
    bool primary;
    bool destroyed;
    _Atomic unsigned users; /* of one that was created: itself, and who is attached; of a primary: the latter */
    unsigned flags;
    uint64_t id;
    size_t limits[16], first_limits[16];
    uint64_t limit_bytes; /* of the card, beyond what a context has for its first limits */
    CUfunc_cache cache_config;
    CUsharedconfig shared_config;
    unsigned peers; /* mask of ordinals whose memory it may use */
    struct sim_stream *streams; /* all of them, the legacy one too */
    struct sim_stream *legacy;
    struct sim_context *next; /* of all live contexts */
};

/* A CUstream. NULL and CU_STREAM_LEGACY mean the context's legacy one, CU_STREAM_PER_THREAD the thread's. */
struct sim_stream {
    uint32_t magic;
    uint32_t channel;
    struct sim_context *context;
    unsigned flags; /* CU_STREAM_NON_BLOCKING */
    int priority;
    uint64_t id;
    uint64_t joined;        /* how much of the legacy stream's work this one already waits for … */
    uint64_t legacy_joined; /* … and how much of this one's the legacy stream does */
    CUsynchronizationPolicy sync_policy;
    CUaccessPolicyWindow window;
    struct sim_capture *_Atomic capture; /* non-NULL while it captures: which, … */
    struct sim_node **tail;      /* … and the nodes that its next one comes after */
    size_t tail_count;
    struct sim_stream *next_member; /* of the capture */
    struct sim_stream *next;  /* of the context */
};

/* ---- entry ---- */

/* Initialised, not forked, no injected fault; otherwise the error to return. Pass __func__. */
CUresult sim_enter(const char *function);
/* … and the calling thread has a live current context on a card that is not lost. */
CUresult sim_enter_context(const char *function, struct sim_context **context);

/* ---- contexts and devices ---- */

struct sim_context *sim_current(void);                                 /* NULL: none */
CUresult sim_context_resolve(CUcontext handle, struct sim_context **context); /* NULL: the current one */
CUresult sim_device_resolve(CUdevice ordinal, uint32_t *device);       /* INVALID_DEVICE when there is none */
CUdevice sim_device_ordinal(uint32_t device);                          /* the reverse; -1: not visible */
int sim_device_visible_count(void);
/* The context that copies between cards and frees run in: the device's primary or any other; NULL: none. */
struct sim_context *sim_context_of_device(uint32_t device);

/* ---- streams ---- */

/* `per_thread`: what NULL means to the caller (the _ptsz and _ptds entry points). */
CUresult sim_stream_resolve(CUstream handle, bool per_thread, struct sim_stream **stream);

/* sim_enter, the stream (NULL: the legacy one), and its card is not lost. For a _ptsz entry point pass on
 * sim_per_thread(handle): `return cuFoo(sim_per_thread(stream), …);` is all it has to do. */
CUresult sim_enter_stream(const char *function, CUstream handle, struct sim_stream **stream);

static inline CUstream sim_per_thread(CUstream handle)
{
    return handle ? handle : CU_STREAM_PER_THREAD;
}

/* Queue one operation, ordered with the legacy stream as CUDA says; waits while the queue is full. */
CUresult sim_submit(struct sim_stream *stream, const struct sim_op *op, struct sim_ticket *ticket);
/* The same in two halves, for what needs more than one step under the lock: returns now, with the lock held. */
uint64_t sim_submit_begin(struct sim_stream *stream);
/* Queue `duration` ns beside the kernels (a copy, a memset). */
CUresult sim_submit_copy(struct sim_stream *stream, uint64_t duration, struct sim_ticket *ticket);
bool sim_stream_idle(struct sim_stream *stream); /* nothing is left of what the next call waits for */
/* Wait until all that is queued on the stream (legacy: and on its blocking streams) is done. */
CUresult sim_stream_drain(struct sim_stream *stream);
/* Wait for everything queued in the context. */
CUresult sim_context_drain(struct sim_context *context);

/* ---- events and functions ---- */

struct sim_recorder { /* a CUevent */
    uint32_t magic;
    uint32_t event; /* its slot in the machine */
    struct sim_context *context;
    unsigned flags;
    uint64_t imported;          /* another process's: its serial number; 0: this process made it */
    _Atomic uint64_t capture;   /* recorded in a capture last: its ID, … */
    struct sim_node **captured; /* … and the nodes before that point */
    size_t captured_count;
};

/* As sim_enter_stream. */
CUresult sim_enter_event(const char *function, CUevent handle, struct sim_recorder **recorder);
CUresult sim_event_resolve(CUevent handle, struct sim_recorder **recorder);

CUresult sim_event_imported(const struct sim_recorder *recorder); /* INVALID_HANDLE once its maker destroyed it */

#define SIM_PARAMETERS 64

struct sim_parameter {
    size_t offset, size;
};

struct sim_function { /* a CUfunction or a CUkernel: a kernel of a module or a library */
    uint32_t magic;
    bool timed;            /* its first parameter is its duration in ns */
    bool parameters_known; /* from PTX; of a binary they are not */
    struct sim_image *image;
    int max_dynamic_shared, carveout;
    struct sim_old_launch *old_launch; /* what the calls of before CUDA 4 have set (launch_old.c) */
    unsigned parameter_count;
    struct sim_parameter parameters[SIM_PARAMETERS];
    struct sim_function *next;
    char name[];
};

CUresult sim_function_resolve(CUfunction handle, struct sim_function **function);

/* ---- what the memory side does when a context ends, and after a stream, event or context was waited for ---- */

void sim_memory_forget_context(struct sim_context *context);
void sim_pools_synchronised(void); /* pools give back what is unused beyond their release threshold */

/* ---- capture (capture.c): see graph.h for adding nodes ---- */

bool sim_stream_capturing(const struct sim_stream *stream);
/* For calls that are unsafe while any capture in the thread's mode is under way (cuMemAlloc, synchronize, pools,
 * instantiating …): CUDA_SUCCESS, or CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED and the capture is spoilt. */
CUresult sim_capture_forbids(void);
/* sim_enter for such a call. */
CUresult sim_enter_unsafe(const char *function);
/* Some questions about a stream: refused while it captures, in every mode; so is work outside of the capture. */
CUresult sim_capture_forbids_own(struct sim_stream *stream);
/* Query and synchronize of a stream: refused alike, and as unsafe calls. */
CUresult sim_capture_forbids_stream(struct sim_stream *stream);
/* Work for the legacy stream: CUDA_ERROR_STREAM_CAPTURE_IMPLICIT while a blocking stream of its context captures. */
CUresult sim_capture_forbids_legacy_use(struct sim_stream *stream);
/* The same for a question about its capture, which spoils nothing. */
CUresult sim_capture_hides_legacy(struct sim_stream *stream);
/* Synchronize of this context: refused in every mode while any stream of it captures. */
CUresult sim_capture_forbids_context(const struct sim_context *context);
/* Query and synchronize of an event: refused as above, or because it stands for nodes of a capture. */
CUresult sim_capture_forbids_event(const struct sim_recorder *recorder);
/* Record and wait in a stream that captures (`external`: a node of its own instead of edges). */
CUresult sim_capture_record(struct sim_stream *stream, struct sim_recorder *recorder, bool external);
CUresult sim_capture_wait(struct sim_stream *stream, struct sim_recorder *recorder, bool external);
void sim_capture_stream_gone(struct sim_stream *stream); /* destroyed while capturing: the capture is spoilt */

#endif
