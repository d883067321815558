#pragma once
// The share's two files: finding, checking and mapping them, and the slot that a process holds in
// the ledger.

#include "preload/ledger.hpp"
#include "preload/or_none.hpp"

#include <stdint.h>

namespace preload {

/// One share of a GPU as this process has it mapped.
struct Share {
    ledger::View view;
    drawbridge_limits* limits = nullptr;
    OrNone file;  // the ledger, whose lock on our byte says that we live
    uint64_t inode = 0;
    bool holds_slot = false;
    OrNone next;  // another share of the same device
    uint64_t seen_overhead = 0;
    uint64_t left_bytes = 0;  // assumed for memory that others may hold, and since when
    uint64_t left_at = 0;
    uint64_t looked_at = 0;  // for slots of the dead, before a report
    uint64_t reaped_at = 0;  // some were found
    uint32_t deciding = 0;   // 1 while a thread of this process has the lock of denials
    ledger::Limits cached;
    char name[208] = {};  // folder, for messages
};

/// Why a share cannot be used; `text` names file and reason.
struct Problem {
    char text[400] = {};
};

/// Opens, checks and maps one share's folder. False with a problem.
bool open_share(const char* folder, Share& share, Problem& problem);
void close_share(Share& share);

/// Takes a slot of the ledger for this process. False with a problem (all 1024 held by living
/// processes).
bool claim_slot(Share& share, Problem& problem);

/// Frees the slots of processes that are gone; how many. Never one that might live.
uint32_t reap(Share& share);

/// Takes the lock under which denials are decided, waiting at most 20 ms; false: go on without.
bool lock_denials(Share& share);
void unlock_denials(Share& share);

/// Checks that the ledger file is still there in full, and takes the slot's lock again if the
/// program has closed our descriptor. False where the file has been cut: then it must not be
/// touched again.
bool check_ledger(Share& share);

}  // namespace preload
