/*
 * What the files of the timeline share among themselves; everybody else goes through engine.h.
 *
 * All of it wants the machine's lock held and takes the time as an argument, so a test can run a machine in
 * virtual time. After any change at `now`, sim_timeline_settle makes the derived fields right again.
 */
#ifndef SIMGPU_TIMELINE_H
#define SIMGPU_TIMELINE_H

#include "engine.h"

/* turns.c: the compute engine of one card */
void sim_device_progress(struct sim_state *machine, const struct sim_model *model, uint32_t device, uint64_t now);
bool sim_wants_engine(struct sim_channel *channel);
void sim_turn_pick(struct sim_state *machine, const struct sim_model *model, struct sim_device *device);
void sim_turn_end(struct sim_device *device);
uint64_t sim_turn_event(struct sim_state *machine, const struct sim_model *model, struct sim_device *device);

/* timeline.c */
void sim_channel_run(struct sim_state *machine, struct sim_channel *channel, uint64_t now);
void sim_channel_finish(struct sim_state *machine, struct sim_channel *channel, uint64_t now);
void sim_channel_deactivate(struct sim_state *machine, struct sim_channel *channel);
void sim_timeline_settle(struct sim_state *machine, const struct sim_model *model, uint64_t now);

/* channel.c, event.c */
void sim_channel_retire(struct sim_state *machine, struct sim_channel *channel);
void sim_channel_drop(struct sim_state *machine, const struct sim_model *model, uint32_t channel, uint64_t now);
void sim_event_destroy_in(struct sim_state *machine, uint32_t event);
void sim_event_unreference(struct sim_state *machine, uint32_t event);

/* helper.c: threads of this library in a client's process */
struct sim_helper {
    pthread_mutex_t starting;
    bool started;
    void *(*run)(void *);
};
int sim_helper_start(struct sim_helper *helper); /* once; 0 or a negative errno */
void sim_wake_process(struct sim_process *process);
bool sim_process_woken(const struct sim_process *process, uint32_t seen); /* since its `wake` was read */
void sim_process_sleep(struct sim_process *process, uint32_t seen, uint64_t now, uint64_t until); /* … or then */

/* word.c: write or look, in the owner's process; false: not yet what is awaited */
bool sim_word_try(const struct sim_op *op);

/* process.c: forget a process and all that it has; mutex.c calls it for whoever died holding the lock */
void sim_process_forget(struct sim_state *machine, const struct sim_model *model, uint32_t process, uint64_t now);

static inline bool sim_is_word_op(const struct sim_op *op)
{
    return op->type == SIM_OP_WAIT_VALUE || op->type == SIM_OP_WRITE_VALUE;
}

static inline struct sim_op *sim_first_op(struct sim_channel *channel)
{
    return &channel->ops[channel->completed % SIM_QUEUE];
}

#endif
