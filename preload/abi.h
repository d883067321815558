/* The two files through which the node agent and the preload library talk, one pair for each share
 * of a GPU.
 *
 * `limits` is written by the agent alone and read-only for the tenant. `ledger` is created by the
 * agent, full size and mode 0666, and written by every process of the claim. Both are mapped; every
 * word that more than one process touches is one naturally aligned integer, read and written
 * atomically. Layout: little-endian, fixed-width integers only.
 *
 * The first 16 bytes of either file never change. A higher minor version only gives meaning to
 * reserved bytes and is compatible; another major version is refused. tests/preload/abi_test.cpp
 * holds every offset. */
#ifndef DRAWBRIDGE_PRELOAD_ABI_H
#define DRAWBRIDGE_PRELOAD_ABI_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#define DRAWBRIDGE_STATIC_ASSERT static_assert
#else
#define DRAWBRIDGE_STATIC_ASSERT _Static_assert
#endif

#define DRAWBRIDGE_LIMITS_MAGIC 0x53544d494c424400ull /* the bytes "\0DBLIMTS" */
#define DRAWBRIDGE_LEDGER_MAGIC 0x524744454c424400ull /* the bytes "\0DBLEDGR" */
#define DRAWBRIDGE_ABI_MAJOR 1u
#define DRAWBRIDGE_ABI_MINOR 0u
#define DRAWBRIDGE_LIMITS_SIZE 16384u
#define DRAWBRIDGE_LEDGER_SIZE 262144u
#define DRAWBRIDGE_SLOTS 1024u

/* Where the container finds them: <root>/shares/<any name>/{limits,ledger}; the library is
 * <root>/lib/libdrawbridge.so. Where a front stands in the place of libcuda.so.1, the driver's own
 * file is DRAWBRIDGE_DRIVER_FILE, which the front was linked to by this path.
 */
#define DRAWBRIDGE_ROOT "/run/drawbridge"
#define DRAWBRIDGE_SHARES_FOLDER "shares"
#define DRAWBRIDGE_LIMITS_FILE "limits"
#define DRAWBRIDGE_LEDGER_FILE "ledger"
#define DRAWBRIDGE_DRIVER_FILE DRAWBRIDGE_ROOT "/driver/libcuda.so.1"

#define DRAWBRIDGE_UNLIMITED UINT64_MAX /* of memory_bytes: no limit; 0 means zero bytes */
#define DRAWBRIDGE_ALL_CORES 1000u      /* of core_permille: no limit */

/* Byte ranges of the ledger that are locked (open file description locks); far behind its end. */
#define DRAWBRIDGE_SLOT_LOCK(slot) (1048576 + (slot))
#define DRAWBRIDGE_DENIAL_LOCK (1048576 + 4096)

struct drawbridge_header {
    uint64_t magic;
    uint16_t major;
    uint16_t minor;
    uint32_t file_size; /* bytes */
};

enum drawbridge_policy {
    DRAWBRIDGE_POLICY_DEFAULT = 0, /* limit compute while another share of the GPU is active */
    DRAWBRIDGE_POLICY_FORCE = 1,   /* always */
    DRAWBRIDGE_POLICY_DISABLE = 2  /* never */
};

enum drawbridge_flag {
    DRAWBRIDGE_CHARGE_MANAGED = 1 << 0,     /* managed memory counts in full */
    DRAWBRIDGE_CHARGE_OVERHEAD = 1 << 1,    /* contexts, modules, stacks count */
    DRAWBRIDGE_DENY_SETTINGS = 1 << 2,      /* NVML's setters answer "no permission" */
    DRAWBRIDGE_NO_GATE = 1 << 3,            /* compute is limited elsewhere (MPS) */
    DRAWBRIDGE_OBSERVE_ONLY = 1 << 4,       /* count, refuse nothing */
    DRAWBRIDGE_UTILIZATION_DEVICE = 1 << 5, /* NVML's rates are the device's, not the share's own */
    DRAWBRIDGE_UTILIZATION_SCALED = 1 << 6, /* ... own divided by the compute limit */
    DRAWBRIDGE_LEDGER_ERROR_PRIVATE =
        1 << 7 /* ledger unusable: half the limit in private memory, not a refusal */
};

struct drawbridge_limits {
    struct drawbridge_header header;
    uint64_t generation;     /* odd while the agent writes the fields below, up to and including
                                busy_scale. What it measures, context_bytes and busy_scale, also
                                changes alone, a word at a time. */
    uint8_t device_uuid[16]; /* GPU or MIG device, binary as cuDeviceGetUuid_v2 gives it */
    uint8_t
        boot_id[16]; /* /proc/sys/kernel/random/boot_id, binary; another one: the file is stale */
    char pci_bus_id[16];     /* 0000:00:06.0, for people */
    char claim_uid[40];      /* 36 characters, for people */
    uint32_t share_index;    /* of the claim */
    uint32_t flags;          /* drawbridge_flag */
    uint64_t memory_bytes;   /* limit */
    uint64_t physical_bytes; /* of the device, as NVML's v1 total without the reserved part */
    uint64_t context_bytes;  /* calibrated overhead of one context of this GPU model and driver */
    uint32_t core_permille;  /* limit, 0..1000 */
    uint32_t policy;         /* drawbridge_policy */
    uint32_t priority;       /* 0 is high */
    uint32_t busy_scale;     /* 16.16 fixed point: event time to busy time */
    uint64_t heartbeat_ns; /* CLOCK_MONOTONIC of the agent's last write; these three change without
                              generation */
    uint64_t contended_until_ns; /* another share of the GPU is active until then */
    uint64_t paused_until_ns;    /* no launches until then */
    uint8_t reserved0[4096 - 184];
    uint32_t
        overhead_mib[DRAWBRIDGE_SLOTS]; /* measured for each slot's process, beyond its used word */
    uint16_t util_permille[DRAWBRIDGE_SLOTS]; /* measured for each slot's process, 0..1000 */
    uint8_t reserved1[DRAWBRIDGE_LIMITS_SIZE - 4096 - 6 * DRAWBRIDGE_SLOTS];
};

enum drawbridge_slot_state { DRAWBRIDGE_SLOT_FREE = 0, DRAWBRIDGE_SLOT_LIVE = 1 };

enum drawbridge_gauge {
    DRAWBRIDGE_GAUGE_LINEAR, /* pitched memory too */
    DRAWBRIDGE_GAUGE_MANAGED,
    DRAWBRIDGE_GAUGE_ARRAY,
    DRAWBRIDGE_GAUGE_VMM,
    DRAWBRIDGE_GAUGE_POOL,
    DRAWBRIDGE_GAUGE_GRAPH,
    DRAWBRIDGE_GAUGE_IMPORTED, /* known, not charged */
    DRAWBRIDGE_GAUGES
};

enum drawbridge_slot_flag {
    DRAWBRIDGE_SLOT_NO_LOCKS =
        1 << 0 /* the kernel has no OFD locks: alive is what pid and start time say */
};

/* One process. Written by its owner alone, except by who reaps it. Byte counts unless said
 * otherwise. */
struct drawbridge_slot {
    uint32_t state;         /* drawbridge_slot_state */
    uint32_t pid;           /* in the owner's pid namespace */
    uint64_t start_time;    /* field 22 of /proc/<pid>/stat */
    uint64_t pid_namespace; /* inode of /proc/self/ns/pid */
    uint32_t in_flight;     /* reservations not yet decided */
    uint32_t flags;         /* drawbridge_slot_flag */
    uint64_t provisional;   /* part of the used word that stands for overhead until the agent has
                               measured it */
    uint64_t gauge[DRAWBRIDGE_GAUGES];
    uint64_t allocations;
    uint64_t frees;
    uint64_t denied_bytes;
    uint64_t launches;
    uint64_t throttle_ns;
    uint64_t busy_ns; /* charged by the gate */
    uint32_t denied;
    uint32_t unknown_frees;
    uint32_t unknown_handles;
    uint32_t identity_misses; /* driver functions that were no export of the driver */
    uint32_t gate_closures;
    uint32_t probes;
    uint32_t reaps;
    uint32_t oom_retries;
    uint32_t errors;
    uint32_t last_error; /* a CUresult */
    uint32_t
        seen_generation; /* low half of the last generation of limits that the process has read */
    uint32_t driver_version; /* as cuDriverGetVersion */
};

struct drawbridge_ledger {
    struct drawbridge_header header;
    uint32_t high_water; /* number of slots ever used; only grows */
    uint32_t arbiter;    /* non-zero while a denial is decided */
    uint8_t reserved0[64 - 24];
    uint64_t tat_ns; /* clock of the launch gate, CLOCK_MONOTONIC; a cache line of its own */
    uint8_t reserved1[4096 - 72];
    uint64_t
        used[DRAWBRIDGE_SLOTS]; /* bytes charged to each slot, its provisional overhead included */
    struct drawbridge_slot slot[DRAWBRIDGE_SLOTS];
    uint8_t reserved2[DRAWBRIDGE_LEDGER_SIZE - 4096 - 200 * DRAWBRIDGE_SLOTS];
};

DRAWBRIDGE_STATIC_ASSERT(sizeof(struct drawbridge_header) == 16, "frozen");
DRAWBRIDGE_STATIC_ASSERT(sizeof(struct drawbridge_limits) == DRAWBRIDGE_LIMITS_SIZE, "file size");
DRAWBRIDGE_STATIC_ASSERT(offsetof(struct drawbridge_limits, overhead_mib) == 4096, "page");
DRAWBRIDGE_STATIC_ASSERT(sizeof(struct drawbridge_slot) == 192, "three cache lines");
DRAWBRIDGE_STATIC_ASSERT(sizeof(struct drawbridge_ledger) == DRAWBRIDGE_LEDGER_SIZE, "file size");
DRAWBRIDGE_STATIC_ASSERT(offsetof(struct drawbridge_ledger, tat_ns) == 64, "cache line");
DRAWBRIDGE_STATIC_ASSERT(offsetof(struct drawbridge_ledger, used) == 4096, "page");

#ifdef __cplusplus
}
#endif
#endif
