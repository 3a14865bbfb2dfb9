/*
 * The two pages of a slice directory: the whole format, and the only copy of it in C.
 *
 *   control   written by the node agent, read-only for the tenant: limits, gate, time slot.
 *   rw/stats  written by the limiter in every process of the slice: ledger, counters, process slots.
 *
 * limiter/pages.py and writer.py read and write both; tests/limiter/test_pages.py compiles this header and
 * compares every offset with layout.py. Readers walk the pages by the sizes and strides in the file, so a
 * field may be appended to a struct with a bump of WEIR_PAGE_MINOR. Anything else is a new major and a new
 * file name.
 *
 * All integers are little endian. Times are CLOCK_MONOTONIC nanoseconds. What a deadline guards applies until
 * then and is renewed in time; a deadline in the past, or further off than anybody sets one, guards nothing. So
 * nothing stays blocked, whether every daemon dies or a page is noise.
 */
#ifndef WEIR_PAGE_H
#define WEIR_PAGE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define WEIR_CONTROL_MAGIC UINT64_C(0x4c52544352494557) /* "WEIRCTRL" */
#define WEIR_STATS_MAGIC UINT64_C(0x5441545352494557)   /* "WEIRSTAT" */
#define WEIR_PAGE_MAJOR 1
#define WEIR_PAGE_MINOR 0

#define WEIR_MAX_DEVICES 16
#define WEIR_SLOTS 512       /* processes that can be attached to one slice at once */
#define WEIR_INTENTS 8       /* ledger operations one process can have under way; the last is the reaper's */
#define WEIR_NO_LIMIT UINT64_MAX
#define WEIR_COVERED 6       /* intervals of GPU time that the processes of a slice remember together */
#define WEIR_FULL_CORES 10000 /* basis points: no core cap */
#define WEIR_DEADLINE_REACH UINT64_C(3600000000000) /* no deadline is further off: an hour */

/* ---- control: one writer (the agent), guarded by a sequence lock: odd while being written ---- */

enum weir_policy { WEIR_POLICY_FIXED = 0, WEIR_POLICY_BURST = 1 };

struct weir_control_header {
    uint64_t magic;
    uint16_t major;
    uint16_t minor;
    uint32_t header_size;
    uint32_t device_count;
    uint32_t device_stride;
    uint64_t generation;       /* minted at each container start; the stats page carries the same */
    _Atomic uint32_t sequence; /* odd: a write is under way */
    uint32_t policy;           /* enum weir_policy */
    uint32_t refuse_unknown;   /* 1: allocation calls that are not accounted for are refused, 0: counted */
    uint32_t forgeries;        /* times the agent found here what it had not written, and put it back */
    uint32_t reserved[20];
};

struct weir_control_device {
    uint8_t uuid[16];             /* as cuDeviceGetUuid gives it */
    uint64_t memory_limit;        /* bytes; WEIR_NO_LIMIT: none */
    uint64_t context_bytes;       /* what one bare context costs on this card, charged when one is made */
    uint32_t core_limit;          /* basis points of GPU time; WEIR_FULL_CORES: no cap */
    uint32_t core_guarantee;      /* basis points */
    uint64_t lease_deadline;      /* until then the lease's limits replace the two above where smaller */
    uint64_t lease_memory_limit;
    uint32_t lease_core_limit;
    uint32_t gate;                /* 1: no launch passes until gate_deadline */
    uint64_t gate_deadline;
    uint64_t slot_deadline;       /* until then launches are made only inside the slot below */
    uint64_t slot_frame;          /* ns; the phase is CLOCK_MONOTONIC modulo frame */
    uint64_t slot_offset;
    uint64_t slot_length;
    uint64_t unaccounted;         /* bytes the card shows beyond the ledger; counted against the limit */
    uint64_t unaccounted_deadline;
    uint64_t loan_deadline;       /* until then core_limit is loan_core_limit where that is larger; a lease */
    uint32_t loan_core_limit;     /* still lowers it. Lends a burst slice what its neighbours leave idle */
    uint32_t reserved_core;
    uint64_t card_total;          /* usable bytes of the card */
    uint64_t card_room;           /* bytes that the slice would hold if it took all that is free on the card */
    uint64_t card_deadline;       /* until then the two above answer for the card */
    uint64_t beside_deadline;     /* until then others run beside it without slots: elapsed time holds their turns */
    uint64_t reserved[11];
};

static inline bool weir_in_force(uint64_t deadline, uint64_t now)
{
    return deadline > now && deadline - now <= WEIR_DEADLINE_REACH;
}

/* ---- stats: many writers (every thread of every process of the slice), atomics only ---- */

/*
 * A tagged word is a sum together with the operation that changed it last, so that one compare-and-swap
 * moves both and a reaper can tell whether a process died before or after its operation took effect:
 *
 *   bits 63..30  the sum, in units of 512 bytes   (34 bits: 8 TiB)
 *   bits 29..18  the intent: slot * WEIR_INTENTS + index  (12 bits)
 *   bits 17..0   the intent's sequence number, modulo 2^18
 */
#define WEIR_UNIT 512
#define WEIR_WORD_SUM_SHIFT 30
#define WEIR_WORD_INTENT_SHIFT 18
#define WEIR_WORD_INTENT_MASK UINT64_C(0xfff)
#define WEIR_WORD_SEQUENCE_MASK UINT64_C(0x3ffff)

enum weir_kind { /* what device memory is held for */
    WEIR_KIND_CONTEXT,
    WEIR_KIND_BUFFER,
    WEIR_KIND_MANAGED,
    WEIR_KIND_POOL,
    WEIR_KIND_VMM,
    WEIR_KIND_MODULE,
    WEIR_KIND_OTHER,
    WEIR_KINDS = 8
};

enum weir_api { /* what a call was for that takes device memory which the ledger does not cover */
    WEIR_API_MEMORY,
    WEIR_API_SHARED, /* memory from another process, another API, or of several cards */
    WEIR_API_CODE,
    WEIR_API_TABLE, /* the driver's hidden functions */
    WEIR_APIS = 8
};

struct weir_stats_header {
    uint64_t magic;
    uint16_t major;
    uint16_t minor;
    uint32_t header_size;
    uint32_t device_count;
    uint32_t device_stride;
    uint32_t slot_count;
    uint32_t slot_stride;
    uint64_t generation;
    _Atomic uint64_t heartbeat; /* when the limiter last wrote anything here */
    _Atomic uint64_t reaped;    /* slots taken back from dead processes */
    char limiter_version[32];
    _Atomic uint64_t uncovered_calls[WEIR_APIS]; /* the devices' `uncovered`, by what they were for */
    uint64_t reserved[13];
};

struct weir_stats_device {
    _Atomic uint64_t used;              /* tagged word: bytes held by all processes of the slice */
    _Atomic uint64_t peak_bytes;
    _Atomic uint64_t balance;           /* pacing: the time at which the budget is even (see pacer.h) */
    _Atomic uint64_t gpu_time;          /* ns in which a kernel of the slice was resident, as measured by events */
    _Atomic uint64_t throttled_time;    /* ns in which launches were held back */
    _Atomic uint64_t periods;           /* pacing decisions */
    _Atomic uint64_t throttled_periods; /* … of which these had to wait */
    _Atomic uint64_t launches;
    _Atomic uint64_t last_launch;       /* ns, CLOCK_MONOTONIC */
    _Atomic uint64_t waiting;           /* ns, CLOCK_MONOTONIC: when a launch last had to wait */
    _Atomic uint64_t longest_kernel;    /* ns, the longest single launch measured; of late (longest_seen) */
    _Atomic uint64_t allocations;
    _Atomic uint64_t frees;
    _Atomic uint64_t denied_limit;      /* allocations refused by the limit */
    _Atomic uint64_t denied_device;     /* … by the card itself */
    _Atomic uint64_t denied_policy;     /* … because they could not be accounted for */
    _Atomic uint64_t denied_bytes;
    _Atomic uint64_t uncovered;         /* calls that take device memory in a way not accounted for yet */
    _Atomic uint64_t hook_errors;       /* what the limiter itself failed at */
    _Atomic uint64_t intent_waits;      /* ledger operations that found every intent of the process taken */
    _Atomic uint64_t drain;             /* pacing: when the work launched so far should be complete (pacer.h) */
    _Atomic uint64_t launch_errors;     /* those of hook_errors that concern launches */
    _Atomic uint64_t covered[WEIR_COVERED]; /* pacing: when kernels of the slice ran, as told of late (coverage.h) */
    _Atomic uint64_t balance_limit; /* pacing: the limit by which the balance counts, basis points; 0: none yet */
    _Atomic uint64_t longest_seen; /* ns, CLOCK_MONOTONIC: when a launch last took about as long as longest_kernel */
    _Atomic uint64_t queue; /* pacing: whose turn it is among the processes of the slice (queue.h) */
    uint64_t reserved[7 - WEIR_COVERED];
};

struct weir_intent { /* one ledger operation under way */
    _Atomic uint64_t sequence; /* 0 when never used; odd while an operation is under way */
    _Atomic int64_t delta;     /* bytes */
    _Atomic uint32_t device;
    _Atomic uint32_t kind;
    _Atomic uint64_t applied; /* the sequence whose delta is in the device's sum */
    _Atomic uint64_t folded;  /* the sequence whose delta is in the slot's sum */
};

enum weir_slot_state { WEIR_SLOT_FREE = 0, WEIR_SLOT_ATTACHED = 1 };

/*
 * A slot is alive while somebody holds the open-file-description lock on the byte at its own offset. What its process
 * lends to siblings has numbers, and whoever holds one of these things holds the lock on the byte for its number, far
 * beyond the end of the file: WEIR_SHARED_OFFSET + slot * WEIR_SHARED_NUMBERS + number.
 */
#define WEIR_SHARED_OFFSET (UINT64_C(1) << 48)
#define WEIR_SHARED_NUMBERS (UINT64_C(1) << 32)
struct weir_slot_header {
    _Atomic uint32_t state; /* enum weir_slot_state */
    uint32_t pid;           /* in the process's own PID namespace */
    uint64_t attached;
    struct weir_intent intents[WEIR_INTENTS];
    uint64_t reserved[22];
};

struct weir_slot_device { /* follows the slot header, once for each device */
    _Atomic uint64_t used; /* tagged word: this process's part of the device's sum */
    _Atomic uint64_t kind_bytes[WEIR_KINDS];
    _Atomic uint64_t lent; /* bytes of `used` that siblings may hold too: given back once none does (shares.h) */
    uint64_t reserved[6];
};

#endif
