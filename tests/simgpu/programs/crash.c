/*
 * A process that dies at the worst moment: with the machine's lock held and what is derived in disorder.
 *
 * It is compiled with the engine's own sources and attaches to the machine in SIMGPU_STATE. `holding` dies with
 * memory, a running kernel and queued work; `queueing` in the middle of pushing an operation.
 */
#include "check.h"
#include "engine.h"

#include <signal.h>
#include <unistd.h>

static void die(void)
{
    kill(getpid(), SIGKILL);
    for (;;)
        pause();
}

static uint32_t busy_channel(void)
{
    struct sim_op kernel = {.type = SIM_OP_KERNEL, .duration = UINT64_C(3600) * 1000000000};
    OK(sim_attach(SIM_CLIENT));
    OK(sim_memory_take(0, SIM_MEMORY_BUFFER, UINT64_C(100) << 30));
    uint64_t now = sim_lock();
    uint32_t channel = sim_channel_create(sim_self_index(), 0, 0, 1);
    for (int i = 0; i < 100; i++)
        sim_channel_push(channel, &kernel, now);
    return channel;
}

static void holding(void)
{
    busy_channel();
    sim_machine->devices[0].used += 12345;
    sim_machine->devices[0].competitors = 17;
    sim_machine->devices[0].active_count = 3;
    sim_machine->next_event = 0;
    die();
}

static void queueing(void)
{
    uint32_t index = busy_channel();
    struct sim_channel *channel = &sim_machine->channels[index];
    channel->queued_ns += 99;
    channel->ops[channel->submitted % SIM_QUEUE].type = SIM_OP_WAIT_EVENT;
    channel->ops[channel->submitted % SIM_QUEUE].target = 7;
    die();
}

CASES(CASE(holding) CASE(queueing))
