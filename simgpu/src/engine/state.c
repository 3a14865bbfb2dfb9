/*
 * The machine's file: found, made by whoever comes first, checked, and mapped.
 *
 * Nothing but a file of this layout, of this machine and of this user is ever mapped. What another version left
 * and nobody uses is made anew; anything else is refused in one line that names it. The mapping is not inherited
 * by a fork's child, and it is all that keeps the file open, so a program that closes every descriptor takes
 * nothing from it.
 * What it does not do: hold anything in this process but the addresses at the top.
 */
#include "state.h"
#include "mig.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct sim_state *sim_machine;
const struct sim_model *sim_hardware;
char sim_path[4096];
static char machine_name[32];

static int refuse(int error, const char *name, const char *value, const char *why)
{
    fprintf(stderr, "simgpu: %s: %.200s: %s\n", name, value, why);
    return -error;
}

/* SIMGPU_MACHINE and SIMGPU_STATE, checked. */
static int read_environment(uint32_t *cards)
{
    const char *machine = getenv("SIMGPU_MACHINE"), *path = getenv("SIMGPU_STATE");
    machine = machine && *machine ? machine : "h200";
    sim_hardware = strlen(machine) < sizeof(machine_name) ? sim_model_find(machine, cards) : NULL;
    if (!sim_hardware)
        return refuse(EINVAL, "SIMGPU_MACHINE", machine,
                      "not a known machine; one of h200, a100-40g, t4, with :1 to :16 for that many cards");
    if (sim_mig_check(sim_hardware, machine) != 0)
        return refuse(EINVAL, "SIMGPU_MACHINE", machine,
                      "not a way to cut this card; mig=PROFILE*N, as mig=1g.18gb*7, and N of them must fit");
    const char *cut = strchr(machine, ',');
    snprintf(machine_name, sizeof(machine_name), "%s:%u%s", sim_hardware->key, *cards, cut ? cut : "");
    int length = path && *path
                     ? snprintf(sim_path, sizeof(sim_path), "%s", path)
                     : snprintf(sim_path, sizeof(sim_path), "/dev/shm/simgpu-%u-%s", geteuid(), machine_name);
    if (length < 0 || (size_t)length >= sizeof(sim_path))
        return refuse(ENAMETOOLONG, "SIMGPU_STATE", path, "too long for a path");
    if (sim_path[0] != '/') /* it is opened again later, from wherever the program is then */
        return refuse(EINVAL, "SIMGPU_STATE", path, "not an absolute path");
    return 0;
}

/* The same for every machine of that name, so that a test or a script can name a card. */
static void make_uuid(uint8_t uuid[16], uint32_t card)
{
    uint64_t hash = UINT64_C(14695981039346656037); /* FNV-1a */
    for (int i = 0; i < 16; i++) {
        for (const char *c = sim_hardware->key; *c; c++)
            hash = (hash ^ (uint8_t)*c) * UINT64_C(1099511628211);
        hash = (hash ^ (uint8_t)(card * 16 + (uint32_t)i)) * UINT64_C(1099511628211);
        uuid[i] = (uint8_t)(hash >> 32);
    }
    uuid[6] = (uint8_t)(0x40 | (uuid[6] & 0x0f));
    uuid[8] = (uint8_t)(0x80 | (uuid[8] & 0x3f));
}

void sim_state_initialise(struct sim_state *machine, uint32_t cards, uint64_t now)
{
    machine->layout = SIM_LAYOUT;
    machine->size = sizeof(*machine);
    machine->device_count = cards;
    machine->next_event = UINT64_MAX;
    machine->boot = now;
    for (uint32_t d = 0; d < cards; d++) {
        struct sim_device *device = &machine->devices[d];
        make_uuid(device->uuid, d);
        device->pci_bus = 0x19 + 0x11 * d;
        device->turn = device->running = device->resident = SIM_NONE;
        device->clock = now;
        device->next_event = UINT64_MAX;
    }
}

static int make(struct sim_state *machine, uint32_t cards)
{
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    int error = pthread_mutex_init(&machine->mutex, &attributes);
    pthread_mutexattr_destroy(&attributes);
    sim_state_initialise(machine, cards, sim_now());
    snprintf(machine->machine, sizeof(machine->machine), "%s", machine_name);
    sim_mig_make(machine, sim_hardware);
    machine->magic = SIM_MAGIC; /* last: a file without it is made anew */
    return -error;
}

enum finding { EMPTY, OURS, STALE, REFUSED };

/* What the file is, by its first bytes. A machine of another version that no process is on is only in the way. */
static enum finding inspect(int descriptor)
{
    struct stat status;
    struct {
        uint64_t magic;
        uint32_t layout;
        uint64_t size;
        char machine[32];
    } head = {0};
    _Static_assert(offsetof(struct sim_state, machine) == sizeof(head) - 32, "the head of struct sim_state");
    if (fstat(descriptor, &status) != 0 || !S_ISREG(status.st_mode) || status.st_uid != geteuid()) {
        refuse(EPERM, "SIMGPU_STATE", sim_path, "is not a file of this user");
        return REFUSED;
    }
    if (pread(descriptor, &head, sizeof(head), 0) == 0 || head.magic == 0)
        return EMPTY;
    if (head.magic != SIM_MAGIC) {
        refuse(EINVAL, "SIMGPU_STATE", sim_path, "is not the state of a simulated machine");
        return REFUSED;
    }
    if (head.layout != SIM_LAYOUT || head.size != sizeof(struct sim_state)) {
        if (!sim_process_on(descriptor))
            return STALE;
        refuse(EINVAL, "SIMGPU_STATE", sim_path, "is in use by programs of another version");
        return REFUSED;
    }
    if (strncmp(head.machine, machine_name, sizeof(head.machine)) == 0)
        return OURS;
    char why[96];
    snprintf(why, sizeof(why), "is a machine %.31s, not %.31s", head.machine, machine_name);
    refuse(EINVAL, "SIMGPU_STATE", sim_path, why);
    return REFUSED;
}

static int map(int descriptor, bool empty, uint32_t cards)
{
    struct stat status;
    if (empty && ftruncate(descriptor, sizeof(struct sim_state)) != 0)
        return refuse(errno, "SIMGPU_STATE", sim_path, strerror(errno));
    struct sim_state *machine =
        mmap(NULL, sizeof(*machine), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    if (machine == MAP_FAILED)
        return refuse(errno, "SIMGPU_STATE", sim_path, strerror(errno));
    madvise(machine, sizeof(*machine), MADV_DONTFORK);
    int error = 0;
    if (empty && fstat(descriptor, &status) == 0) {
        machine->inode = status.st_ino;
        error = make(machine, cards);
    }
    if (error)
        munmap(machine, sizeof(*machine));
    else
        sim_machine = machine;
    return error;
}

/* Open and lock the file that the path names at this moment: another process may be replacing it. */
static int open_locked(void)
{
    for (;;) {
        struct stat opened, named;
        int descriptor = open(sim_path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (descriptor < 0 || flock(descriptor, LOCK_EX) != 0) {
            int error = errno;
            if (descriptor >= 0)
                close(descriptor);
            return refuse(error, "SIMGPU_STATE", sim_path, strerror(error));
        }
        if (fstat(descriptor, &opened) == 0 && stat(sim_path, &named) == 0 && opened.st_ino == named.st_ino)
            return descriptor;
        close(descriptor);
    }
}

int sim_state_map(void)
{
    uint32_t cards;
    int error = read_environment(&cards);
    if (error)
        return error;
    int descriptor = open_locked();
    enum finding found = descriptor < 0 ? REFUSED : inspect(descriptor);
    if (found == STALE) {
        unlink(sim_path);
        close(descriptor);
        descriptor = open_locked();
        found = descriptor < 0 ? REFUSED : inspect(descriptor);
    }
    if (descriptor < 0)
        return descriptor;
    error = found == OURS || found == EMPTY ? map(descriptor, found == EMPTY, cards) : -EINVAL;
    flock(descriptor, LOCK_UN); /* by name: the mapping keeps the open file, and with it the lock */
    if (error)
        close(descriptor);
    return error ? error : descriptor;
}
