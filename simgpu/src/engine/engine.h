/*
 * The simulated machine: everything its processes share, and the only way to touch it.
 *
 * One file in /dev/shm holds the cards, the processes, their memory and their queued work. Both libraries
 * (libcuda.so.1, libnvidia-ml.so.1) map it and link these functions. There is no daemon: whoever holds the
 * lock first advances the cards to the present, so a card is as far as the last look at it, never behind.
 *
 * Invariants. The lock is never held while waiting. Nothing outside engine/ writes a field of these structs
 * without holding it. What is derived (sums, active channels) can be rebuilt from what is not, and is, when
 * a process died holding the lock. Times are CLOCK_MONOTONIC nanoseconds.
 *
 * What it does not do: know CUDA's or NVML's types. Results are 0 or a negative errno.
 */
#ifndef SIMGPU_ENGINE_H
#define SIMGPU_ENGINE_H

#include <stdbool.h>
#include <stdint.h>

#include "machine.h"
#include "model.h"

/* ---- attaching (state.c, process.c) ---- */

enum sim_role {
    SIM_OBSERVER, /* NVML: looks, holds nothing, is not in the process table */
    SIM_CLIENT    /* CUDA: gets a slot in the process table */
};

/*
 * Map the machine, making it if this is the first process. Repeated calls are free. Returns 0, or a negative
 * errno after one line on stderr. A fork's child is not attached: an observer may attach again there; a
 * client gets -ECHILD, as CUDA refuses it.
 */
int sim_attach(enum sim_role role);
bool sim_attached(void); /* cheap; false in the child of a fork */
bool sim_forked(void);   /* the parent was attached as a client */

extern struct sim_state *sim_machine;       /* NULL until attached */
extern const struct sim_model *sim_hardware; /* this machine's constants */
struct sim_process *sim_self(void);         /* the caller's slot; NULL for an observer */
uint32_t sim_self_index(void);

/* ---- the lock (lock.c) ---- */

uint64_t sim_now(void);
uint64_t sim_lock(void); /* lock, forget dead processes now and then, advance all cards; returns now */
void sim_unlock(void);
void sim_reap(void); /* with the lock held: forget processes that have died, without waiting for the next turn */

/* ---- memory (memory.c): lock held by the callee, not the caller ---- */

/* Charge the calling process and the card. -ENOMEM when the card has not that much left; charges nothing then. */
int sim_memory_take(uint32_t device, enum sim_memory_kind kind, uint64_t bytes);
void sim_memory_give(uint32_t device, enum sim_memory_kind kind, uint64_t bytes);
void sim_memory_info(uint32_t device, uint64_t *free_bytes, uint64_t *total_bytes); /* what cuMemGetInfo says */
/* With the lock held: NVML's figure for one process: all kinds but managed. */
uint64_t sim_process_visible(const struct sim_process *process, uint32_t device);

/* ---- memory in common (sharing.c): lock held by the callee, except for the last ---- */

/* The caller, charged for so many bytes as SIM_MEMORY_BUFFER, may share them from now on. */
struct sim_share_ref sim_share_begin(uint32_t device, uint64_t bytes);
bool sim_share_join(struct sim_share_ref ref);  /* hold it too, at no charge; false: nobody holds it any more */
void sim_share_leave(struct sim_share_ref ref); /* if the caller pays, another holder does, or nobody */
void sim_share_forget(struct sim_state *machine, uint32_t process); /* it died; before its sums are cleared */

/* ---- utilisation (history.c): lock held by the caller ---- */

void sim_history_add(struct sim_history *history, uint64_t from, uint64_t to);
uint64_t sim_history_busy(const struct sim_history *history, uint64_t from, uint64_t to); /* ns, to 10 ms */

/* ---- channels (channel.c): lock held by the caller ---- */

/* SIM_NONE: all are taken. `process`: an index as sim_self_index gives it. */
uint32_t sim_channel_create(uint32_t process, uint32_t device, int32_t priority, uint64_t owner);
/* The last operation of the first channel from `start` on that `process` has for `owner` and that has work.
 * Returns the channel after it, or SIM_NONE. */
uint32_t sim_channel_busy(uint32_t process, uint64_t owner, uint32_t start, struct sim_ticket *last);
void sim_channel_destroy(uint32_t channel, uint64_t now); /* what is still queued runs first */
void sim_channel_abandon(uint32_t channel, uint64_t now); /* … is dropped */
bool sim_channel_idle(uint32_t channel);
bool sim_channel_full(uint32_t channel, uint32_t wanted); /* has no room for so many more */
struct sim_ticket sim_channel_push(uint32_t channel, const struct sim_op *op, uint64_t now);
struct sim_ticket sim_channel_last(uint32_t channel); /* the latest operation queued */
bool sim_ticket_done(struct sim_ticket ticket);
uint64_t sim_ticket_estimate(struct sim_ticket ticket, uint64_t now); /* no earlier than this; now if unknown */

/* ---- events (event.c): lock held by the caller ---- */

uint32_t sim_event_create(uint32_t process); /* SIM_NONE: all are taken */
void sim_event_destroy(uint32_t event);
struct sim_ticket sim_event_record(uint32_t event, uint32_t channel, uint64_t now);
void sim_event_wait(uint32_t event, uint32_t channel, uint64_t now); /* the channel waits for the latest record */
bool sim_event_done(uint32_t event);

/* ---- the cards' progress (timeline.c): lock held by the caller ---- */

void sim_advance(struct sim_state *machine, const struct sim_model *model, uint64_t now);
/* After a process died holding the lock: make all that is derived anew from what is not. */
void sim_timeline_rebuild(struct sim_state *machine, const struct sim_model *model, uint64_t now);

/* ---- waiting (wait.c): lock NOT held ---- */

void sim_wait_ticket(struct sim_ticket ticket); /* sleeps until it is done */
uint64_t sim_lock_with_room(uint32_t channel, uint32_t wanted); /* as sim_lock, once so many more fit in */
void sim_sleep_until(uint64_t when);

/* ---- host functions (host.c) ---- */

/* With the lock held: queue function(argument), run by a helper thread of this process in the channel's order. */
int sim_host_start(void); /* start that thread if it isn't there; call before, without the lock */
struct sim_ticket sim_host_push(uint32_t channel, void (*function)(void *), void *argument, uint64_t now);

/* ---- words in memory (word.c) ---- */

int sim_word_start(void); /* the thread that SIM_OP_WAIT_VALUE and …WRITE_VALUE need; call before, without the lock */

/* ---- faults (fault.c) ---- */

/* At the top of every entry point: the injected result for this function, or 0. Costs one load when none is set. */
int sim_fault(const char *function);
bool sim_device_lost(uint32_t device);

/* Exported by both libraries, for simgpu/faults.py: set `calls` coming calls of `function` to fail with `result`
 * (calls 0: none any more), take a card off the bus or put it back, raise an XID. 0 or a negative errno. */
int simgpu_fault(const char *function, uint32_t calls, int result, int pid);
int simgpu_lose(uint32_t device, int lost);
int simgpu_xid(uint32_t device, uint32_t xid);

#endif
