/*
 * What all processes of a simulated machine share: the layout of its file.
 *
 * One struct sim_state holds the cards, the processes, their memory, their queued work and the faults set for
 * them. A field marked "derived" follows from others and is made anew after a crash (rebuild.c). Times are
 * CLOCK_MONOTONIC nanoseconds. Bump SIM_LAYOUT when a struct changes its meaning; its size is checked, too.
 *
 * What it does not do: say how any of it is used. That is engine.h, and nobody writes here but through it.
 */
#ifndef SIMGPU_MACHINE_H
#define SIMGPU_MACHINE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/types.h>

#define SIM_MAGIC UINT64_C(0x5550474d49535257) /* "WRSIMGPU" */
#define SIM_LAYOUT 5                           /* bump when any struct below changes its size or meaning */

#define SIM_DEVICES 16
#define SIM_PROCESSES 512
#define SIM_CHANNELS 2048  /* streams of all contexts of all processes */
#define SIM_QUEUE 1024     /* operations a channel can hold; a launch into a full one waits */
#define SIM_EVENTS 65536
#define SIM_FAULTS 32
#define SIM_SHARES 4096 /* pieces of card memory that may be held by several processes */
#define SIM_XIDS 64
#define SIM_MIG_SLICES 7
#define SIM_NONE UINT32_MAX

#define SIM_BUCKET_NS UINT64_C(10000000) /* utilisation is kept in steps of 10 ms … */
#define SIM_BUCKETS 256                  /* … for 2.56 s: NVML looks back over about 1.3 s */

/* ---- memory ---- */

enum sim_memory_kind { /* what device memory is held for, one sum each */
    SIM_MEMORY_CONTEXT,
    SIM_MEMORY_BUFFER,  /* cuMemAlloc and relatives, pools, physical handles: all that NVML shows */
    SIM_MEMORY_ARRAY,   /* small ones share blocks with each other, not with buffers: an assumption */
    SIM_MEMORY_MODULE,
    SIM_MEMORY_MANAGED, /* takes the card's memory, yet NVML leaves it out of a process's figure */
    SIM_MEMORY_KINDS
};

struct sim_share { /* memory held in common; the charge is in `memory` of the process that pays */
    uint32_t in_use;
    uint32_t generation; /* changes when the slot is used anew */
    uint32_t device;
    uint32_t payer;      /* index of a process that holds it */
    uint64_t bytes;
    uint64_t holders[SIM_PROCESSES / 64]; /* a bit for each process */
};

struct sim_share_ref { /* names one from any process; share SIM_NONE: none */
    uint32_t share;
    uint32_t generation;
};

/* ---- utilisation ---- */

struct sim_history { /* busy nanoseconds in the last SIM_BUCKETS steps; bucket b is at b % SIM_BUCKETS */
    uint64_t newest; /* number of the newest bucket: time / SIM_BUCKET_NS */
    uint64_t total;  /* ns busy since the beginning */
    uint32_t busy[SIM_BUCKETS];
};

/* ---- processes ---- */

struct sim_process_device { /* what one process holds and does on one card */
    uint64_t memory[SIM_MEMORY_KINDS];
    uint32_t contexts; /* contexts that exist now; 0: NVML doesn't list the process on this card */
    uint32_t runnable; /* derived: its channels whose first operation wants the compute engine */
    struct sim_history history;
};

struct sim_process {
    uint32_t in_use;
    uint32_t generation; /* changes when the slot is given to another process */
    pid_t pid;           /* getpid() + SIMGPU_PID_OFFSET: what NVML reports */
    uint32_t wake;       /* futex: changed when an operation of this process needs one of its helper threads */
    uint32_t host_queued; /* host functions queued and not yet run */
    uint64_t started;
    char name[256]; /* of the executable */
    struct sim_process_device device[SIM_DEVICES];
};

/* ---- the timeline ---- */

enum sim_op_type {
    SIM_OP_KERNEL,       /* wants the compute engine for `duration` */
    SIM_OP_COPY,         /* takes `duration`; beside kernels, on a copy engine */
    SIM_OP_RECORD,       /* event `target` reaches `sequence`, now */
    SIM_OP_WAIT_EVENT,   /* holds the channel until event `target` has reached `sequence` */
    SIM_OP_WAIT_CHANNEL, /* … until channel `target` (of that `generation`) has completed `sequence` ops */
    SIM_OP_HOST,         /* holds the channel until the process's helper ran `function(argument)` */
    SIM_OP_WAIT_VALUE,   /* … until the word at `function` in the owner's memory meets `flags` with `argument` */
    SIM_OP_WRITE_VALUE,  /* … until the owner has written `argument` there */
    SIM_OP_MARK          /* takes no time */
};

enum sim_word { /* `flags` of those two: what the awaited word must be to the value, and how wide both are */
    SIM_WORD_AT_LEAST, /* cyclic: a counter may have wrapped */
    SIM_WORD_EQUAL,
    SIM_WORD_AND, /* a bit in common */
    SIM_WORD_NOR, /* a bit that neither has */
    SIM_WORD_CONDITION = 3,
    SIM_WORD_64 = 4 /* bits; else 32 */
};

struct sim_op {
    uint32_t type; /* enum sim_op_type */
    uint32_t target;
    uint32_t generation;
    uint32_t flags; /* enum sim_word */
    uint64_t sequence;
    uint64_t duration; /* ns */
    uint64_t ends_at;  /* sum of all durations of the channel up to and with this one */
    uint64_t function; /* addresses in the owner's address space */
    uint64_t argument;
};

struct sim_channel { /* a stream: its operations run in order */
    uint32_t in_use;
    uint32_t generation;
    uint32_t process;
    uint32_t device;
    int32_t priority;     /* smaller is more urgent, as in CUDA */
    uint64_t owner;       /* the context, in the process's own numbering */
    uint32_t started;      /* the first operation has begun: it runs, or it holds the channel */
    uint32_t active;       /* derived: it is in its device's list of channels with work */
    uint32_t waiters;      /* derived: channels held by an operation that waits for this one */
    uint32_t running_host; /* the helper is inside this channel's host function */
    uint32_t words;        /* derived: operations on words in its queue */
    uint32_t orphan;       /* destroyed while it had work: it goes when that is done */
    uint64_t submitted;   /* operations ever queued */
    uint64_t completed;   /* … and done: submitted - completed are in the ring */
    uint64_t queued_ns;   /* sum of durations ever queued */
    uint64_t done_ns;     /* … and of those done */
    uint64_t ready_at;    /* when its first operation became the first */
    uint64_t finish_at;   /* a copy's end, once begun */
    uint64_t remaining;   /* a kernel's ns left to run */
    struct sim_op ops[SIM_QUEUE] __attribute__((aligned(4096))); /* whole pages, given back when it is destroyed */
};

struct sim_event {
    uint32_t in_use;
    uint32_t process;
    uint32_t references;  /* operations in queues that name it; a destroyed event's slot waits for 0 */
    uint32_t destroyed;
    uint32_t waiters;     /* derived: channels held until it is reached */
    uint64_t recorded;    /* sequence of the latest record queued; 0: never recorded */
    uint64_t reached;     /* sequence of the latest record done */
    uint64_t time;        /* of that one, on the simulated timeline */
    uint32_t channel;     /* where the latest record was queued … */
    uint32_t generation;
    uint64_t position;    /* … and its place there (a ticket) */
    uint64_t serial;      /* no two events ever made have the same */
};

/* A place in a channel. It is done when the channel has completed that many, or is another's by now. */
struct sim_ticket {
    uint32_t channel;
    uint32_t generation;
    uint64_t position;
};

/* ---- cards ---- */

struct sim_mig { /* one MIG device of a card in MIG mode */
    uint32_t in_use;
    uint32_t compute_slices; /* of 7 */
    uint32_t memory_slices;  /* of 8 */
    uint32_t gpu_instance;
    uint32_t compute_instance;
    uint8_t uuid[16];
};

struct sim_device {
    uint8_t uuid[16];
    uint32_t pci_domain, pci_bus, pci_device;
    uint32_t lost;       /* fell off the bus: CUDA says unavailable, NVML says lost */
    uint32_t mig_mode;
    struct sim_mig mig[SIM_MIG_SLICES];
    uint64_t used;       /* derived: sum of all processes' memory, the driver's own reserve not in it */
    struct sim_history history; /* any kernel resident */
    /* the compute engine */
    uint32_t turn;       /* the process whose turn it is, or SIM_NONE */
    uint32_t running;    /* the channel whose kernel runs, or SIM_NONE */
    uint64_t turn_ends;  /* when another process that has work gets its turn */
    uint32_t resident;   /* the process that ran last and was not preempted, or SIM_NONE */
    uint64_t exchanged;  /* until then the engine turns from one process to another, and works for neither */
    uint64_t clock;      /* how far the engine was advanced */
    uint64_t remainder;  /* thousandths of a ns of work done and not yet credited */
    uint64_t next_event; /* derived: nothing happens on this card before */
    uint32_t competitors; /* derived: processes with runnable > 0 */
    uint32_t active_count;
    uint32_t active[SIM_CHANNELS]; /* derived: channels of this card that have work */
};

struct sim_xid {
    uint64_t time;
    uint32_t device;
    uint32_t xid;
};

struct sim_fault {
    char function[64];  /* without version suffix: cuMemAlloc serves cuMemAlloc_v2; "*" serves all */
    uint32_t remaining; /* calls that will still fail */
    int32_t result;     /* what they return */
    int32_t pid;        /* as in struct sim_process; 0: any */
};

struct sim_state {
    uint64_t magic;
    uint32_t layout;
    uint64_t size;       /* sizeof(struct sim_state) */
    char machine[32];    /* "h200:2" */
    pthread_mutex_t mutex;
    uint32_t device_count;
    _Atomic uint32_t fault_count; /* faults with calls left, so that a call without faults pays one load */
    _Atomic uint32_t lost_count;  /* devices that are lost */
    uint32_t repairs;             /* times a process died holding the lock */
    uint64_t last_reap;
    uint64_t next_event; /* derived: nothing happens on any card before this */
    uint32_t rescan;     /* something was reached that a channel waits for */
    uint64_t boot;       /* when the machine was made */
    uint64_t inode;      /* of its file */
    struct sim_fault faults[SIM_FAULTS];
    struct sim_xid xids[SIM_XIDS];
    _Atomic uint32_t xid_count; /* ever; the newest is at (xid_count - 1) % SIM_XIDS; a futex to wait on */
    uint32_t event_hint;        /* where to look for a free event first */
    uint64_t event_serial;      /* of the latest event made */
    uint32_t event_limit;       /* events beyond were never used */
    uint32_t channel_limit;     /* channels beyond were never used */
    uint32_t process_limit;     /* process slots beyond were never used */
    uint32_t share_limit;         /* shares beyond were never used */
    struct sim_device devices[SIM_DEVICES];
    struct sim_process processes[SIM_PROCESSES];
    struct sim_share shares[SIM_SHARES];
    struct sim_event events[SIM_EVENTS];
    struct sim_channel channels[SIM_CHANNELS];
};

#endif
