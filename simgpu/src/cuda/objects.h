/*
 * Marks at the head of every object whose address is a handle, so that a stale or foreign one is refused.
 *
 * Cleared when the object is destroyed. What it does not do: make a wild pointer safe; the real driver
 * crashes on those too.
 */
#ifndef SIMGPU_OBJECTS_H
#define SIMGPU_OBJECTS_H

enum {
    SIM_CONTEXT_MAGIC = 0x43545831,
    SIM_STREAM_MAGIC,
    SIM_EVENT_MAGIC,
    SIM_IMAGE_MAGIC,
    SIM_FUNCTION_MAGIC,
    SIM_KERNEL_MAGIC,
    SIM_NODE_MAGIC,
    SIM_GRAPH_MAGIC,
    SIM_EXEC_MAGIC,
};

#endif
