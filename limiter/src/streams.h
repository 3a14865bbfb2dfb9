/*
 * What the limiter asks of the program's streams and events by itself, without breaking a capture.
 *
 * A stream that captures must not be asked whether it is idle or which device it has: on an H200 either call ends
 * the capture. So everything here asks first whether the stream captures, and then leaves it alone; the legacy
 * stream counts as one while a blocking stream captures. Other calls are made by WEIR_ASK (hooks.h), which no
 * capture of another stream or thread minds. Streams are named as own_default names them: one handle means one
 * stream, whichever variant of a function the program called.
 */
#ifndef WEIR_STREAMS_H
#define WEIR_STREAMS_H

#include "hooks.h"

/* What NULL means to the _ptsz variants. */
static inline CUstream own_default(CUstream stream)
{
    return stream ? stream : CU_STREAM_PER_THREAD;
}

/* The legacy stream, or the calling thread's own: a handle that each context has a stream for. */
static inline bool stream_is_default(CUstream stream)
{
    return (uintptr_t)stream <= (uintptr_t)CU_STREAM_PER_THREAD;
}

/* NULL: none. */
CUcontext current_context(void);
/* The stream's context; of a default stream's handle the current one. NULL: unknown. */
CUcontext stream_context(CUstream stream);
/* Makes the context the current one, if it is not; false: so it was, or cannot be. Whoever entered leaves. */
bool context_enter(CUcontext context);
void context_leave(void);
/* Whether calls become nodes of a graph there; also where the driver does not say. */
bool stream_captures(CUstream stream);
/* Whether all its work is complete, … */
bool stream_idle(CUstream stream);
/* … or some is not. A stream that captures is neither. */
bool stream_busy(CUstream stream);
/* The stream's device, which need not be the current context's; −1: unknown. Not for one that captures. */
CUdevice stream_device(CUstream stream);
/* Whether waiting for this event of the program's would take time. */
bool event_pending(CUevent event);

#endif
