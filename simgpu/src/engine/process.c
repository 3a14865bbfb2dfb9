/*
 * The processes of the machine: attaching, forking, and forgetting those that died.
 *
 * A client's slot is locked through the very open file that its mapping keeps alive and that a fork's child
 * does not inherit (MADV_DONTFORK): the lock goes with the process, neither earlier nor later. Anybody who
 * finds a slot's byte unlocked may take from the card all that the dead process held.
 * What it does not do: free anything at a process's exit; the next to look does.
 */
#define _GNU_SOURCE /* F_OFD_SETLK */
#include "state.h"
#include "timeline.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define LIVENESS_OFFSET (INT64_C(1) << 40) /* of slot 0's byte: beyond the file's end, where nothing else is */

static pthread_mutex_t attaching = PTHREAD_MUTEX_INITIALIZER;
static uint32_t self = SIM_NONE;
static bool child_of_client;

static struct flock slot_lock(uint32_t slot)
{
    return (struct flock){.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = LIVENESS_OFFSET + slot, .l_len = 1};
}

bool sim_process_on(int descriptor)
{
    struct flock lock = slot_lock(0);
    lock.l_len = 0; /* to the end, however many slots that version has */
    return fcntl(descriptor, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

static void in_child(void)
{
    child_of_client = child_of_client || self != SIM_NONE;
    self = SIM_NONE;
    sim_machine = NULL;
    pthread_mutex_init(&attaching, NULL);
}

static void fill_slot(struct sim_process *process, uint64_t now)
{
    uint32_t generation = process->generation + 1;
    const char *offset = getenv("SIMGPU_PID_OFFSET");
    memset(process, 0, sizeof(*process));
    process->generation = generation;
    process->pid = getpid() + (offset ? atoi(offset) : 0);
    process->started = now;
    ssize_t length = readlink("/proc/self/exe", process->name, sizeof(process->name) - 1);
    process->name[length > 0 ? length : 0] = '\0';
    process->in_use = 1;
}

/* With the lock held: the first slot that is free and whose byte nobody has locked. */
static int take_slot(int descriptor, uint64_t now)
{
    for (uint32_t i = 0; i < SIM_PROCESSES; i++) {
        struct flock lock = slot_lock(i);
        if (sim_machine->processes[i].in_use || fcntl(descriptor, F_OFD_SETLK, &lock) != 0)
            continue;
        fill_slot(&sim_machine->processes[i], now);
        if (sim_machine->process_limit <= i)
            sim_machine->process_limit = i + 1;
        self = i;
        return 0;
    }
    return -EAGAIN;
}

static int attach(enum sim_role role)
{
    static bool handler;
    if (!handler)
        handler = pthread_atfork(NULL, NULL, in_child) == 0;
    int descriptor = sim_state_map();
    if (descriptor < 0)
        return descriptor;
    int error = 0;
    if (role == SIM_CLIENT) {
        uint64_t now = sim_lock();
        sim_reap();
        error = take_slot(descriptor, now);
        sim_unlock();
    }
    close(descriptor); /* the mapping keeps the file open */
    if (error) {
        munmap(sim_machine, sizeof(*sim_machine));
        sim_machine = NULL;
    }
    return error;
}

int sim_attach(enum sim_role role)
{
    if (role == SIM_CLIENT && child_of_client)
        return -ECHILD;
    pthread_mutex_lock(&attaching);
    int error = sim_machine ? 0 : attach(role);
    pthread_mutex_unlock(&attaching);
    return error;
}

bool sim_attached(void)
{
    return sim_machine != NULL;
}

bool sim_forked(void)
{
    return child_of_client;
}

uint32_t sim_self_index(void)
{
    return self;
}

struct sim_process *sim_self(void)
{
    return self == SIM_NONE ? NULL : &sim_machine->processes[self];
}

void sim_process_forget(struct sim_state *machine, const struct sim_model *model, uint32_t index, uint64_t now)
{
    struct sim_process *process = &machine->processes[index];
    for (uint32_t c = 0; c < machine->channel_limit; c++)
        if (machine->channels[c].in_use && machine->channels[c].process == index)
            sim_channel_drop(machine, model, c, now);
    for (uint32_t e = 0; e < machine->event_limit; e++)
        if (machine->events[e].in_use && !machine->events[e].destroyed && machine->events[e].process == index)
            sim_event_destroy_in(machine, e);
    sim_share_forget(machine, index);
    for (uint32_t d = 0; d < machine->device_count; d++)
        for (int kind = 0; kind < SIM_MEMORY_KINDS; kind++) {
            machine->devices[d].used -= process->device[d].memory[kind];
            process->device[d].memory[kind] = 0;
        }
    process->in_use = 0;
}

/* The machine's file again, if it is still the one that is mapped. */
static int reopen(void)
{
    struct stat here;
    int descriptor = open(sim_path, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
    if (descriptor >= 0 && (fstat(descriptor, &here) != 0 || here.st_ino != (ino_t)sim_machine->inode)) {
        close(descriptor);
        return -1;
    }
    return descriptor;
}

void sim_reap_at(uint64_t now)
{
    int saved = errno, descriptor = reopen();
    for (uint32_t i = 0; descriptor >= 0 && i < sim_machine->process_limit; i++) {
        struct flock lock = slot_lock(i);
        if (!sim_machine->processes[i].in_use || i == self)
            continue;
        if (fcntl(descriptor, F_OFD_GETLK, &lock) == 0 && lock.l_type == F_UNLCK)
            sim_process_forget(sim_machine, sim_hardware, i, now);
    }
    if (descriptor >= 0)
        close(descriptor);
    sim_machine->last_reap = now;
    errno = saved;
}

void sim_reap(void)
{
    sim_reap_at(sim_now());
}
