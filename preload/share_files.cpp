#include "preload/share_files.hpp"

#include "preload/marks.hpp"
#include "preload/os.hpp"

#include <stdio.h>
#include <string.h>

namespace preload {
namespace {

using ledger::load;

void tell(Problem& problem, const char* folder, const char* file, const char* reason) {
    snprintf(problem.text, sizeof problem.text, "%s/%s: %s", folder, file, reason);
}

const char* header_problem(const drawbridge_header& header, uint64_t magic, uint32_t size) {
    if (header.magic != magic) return "not a file of Drawbridge, or damaged (magic number)";
    if (header.major != DRAWBRIDGE_ABI_MAJOR) return "made for another version of the library";
    if (header.file_size != size) return "wrong size in its head";
    return nullptr;
}

void* open_mapped(const char* folder, const char* name, uint64_t size, bool writable, OrNone& file,
                  Problem& problem) {
    char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    file = open_file(path, writable);
    if (file < 0) {
        tell(problem, folder, name, writable ? "cannot be opened for writing" : "cannot be read");
        return nullptr;
    }
    const FileFacts facts = facts_of(file);
    void* at = facts.size == size ? map_file(file, size, writable) : nullptr;
    if (at == nullptr)
        tell(problem, folder, name, facts.size == size ? "cannot be mapped" : "wrong size");
    return at;
}

int hex_digit(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return -1;
}

// A kernel that hides its boot id (gVisor) leaves nothing to compare.
bool same_boot(const uint8_t (&expected)[16]) {
    char text[64];
    if (read_text("/proc/sys/kernel/random/boot_id", text, sizeof text) < 36) return true;
    uint8_t id[16] = {};
    int digits = 0;
    for (const char* c = text; *c != '\0' && digits < 32; ++c) {
        const int digit = hex_digit(*c);
        if (digit < 0) continue;
        id[digits / 2] = static_cast<uint8_t>(id[digits / 2] << 4 | digit);
        ++digits;
    }
    return memcmp(id, expected, sizeof id) == 0;
}

bool same_place(const drawbridge_slot& slot, uint64_t names) {
    return __atomic_load_n(&slot.pid_namespace, __ATOMIC_RELAXED) == names;
}

// Nobody holds the byte. The owner may still live: a program that closes all descriptors loses its
// locks, and keeps the ledger mapped; one that has begun another program has neither. What cannot
// be known from here (another pid namespace) counts as alive; the agent sees all pids and decides.
bool owner_gone(const Share& share, const drawbridge_slot& slot, uint64_t names) {
    if (!same_place(slot, names)) return false;
    const uint32_t pid = __atomic_load_n(&slot.pid, __ATOMIC_RELAXED);
    if (pid == 0) return true;
    const uint32_t flags = __atomic_load_n(&slot.flags, __ATOMIC_RELAXED);
    // Ourselves, before we began another program.
    if (pid == process_id() && (flags & DRAWBRIDGE_SLOT_NO_LOCKS) == 0) return true;
    if (start_time_of(pid) != __atomic_load_n(&slot.start_time, __ATOMIC_RELAXED)) return true;
    // What our own mapping is listed as is what is looked for.
    return (flags & DRAWBRIDGE_SLOT_NO_LOCKS) == 0 && !may_map(pid, share.inode) &&
           may_map(process_id(), share.inode);
}

void fill_slot(Share& share, uint32_t index, bool locked) {
    drawbridge_ledger& book = *share.view.ledger;
    ledger::clear_slot(book, index);
    pass(Mark::claim_cleared);
    drawbridge_slot& slot = book.slot[index];
    slot.pid = process_id();
    slot.pid_namespace = pid_namespace();
    slot.start_time = start_time_of(slot.pid);
    slot.flags = locked ? 0 : DRAWBRIDGE_SLOT_NO_LOCKS;
    pass(Mark::claim_filled);
    __atomic_store_n(&slot.state, DRAWBRIDGE_SLOT_LIVE, __ATOMIC_SEQ_CST);
    pass(Mark::claim_live);
    ledger::raise_slots_in_use(book, index + 1);
    share.view.slot = index;
    share.view.left_mib = __atomic_load_n(&share.limits->overhead_mib[index], __ATOMIC_RELAXED);
    share.seen_overhead = share.view.left_mib;
    __atomic_store_n(&share.holds_slot, true, __ATOMIC_RELEASE);
}

bool try_claim(Share& share, uint32_t index, bool locks) {
    drawbridge_slot& slot = share.view.ledger->slot[index];
    if (load(slot.state) == DRAWBRIDGE_SLOT_LIVE) return false;
    if (!locks) {
        uint32_t free = DRAWBRIDGE_SLOT_FREE;
        if (!__atomic_compare_exchange_n(&slot.state, &free, DRAWBRIDGE_SLOT_LIVE, false,
                                         __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
            return false;
        fill_slot(share, index, false);
        return true;
    }
    if (!try_lock_byte(share.file, DRAWBRIDGE_SLOT_LOCK(index))) return false;
    pass(Mark::claim_locked);
    if (load(slot.state) == DRAWBRIDGE_SLOT_LIVE) {  // its owner lives without the lock
        unlock_byte(share.file, DRAWBRIDGE_SLOT_LOCK(index));
        return false;
    }
    fill_slot(share, index, true);
    return true;
}

// The agent leaves a share alone until somebody opens its ledger, and for a while after that. Ours
// may have been opened long ago: for NVML, or before a driver that took its time to start.
void tell_agent(const Share& share) {
    char path[256];
    snprintf(path, sizeof path, "%s/%s", share.name, DRAWBRIDGE_LEDGER_FILE);
    close_file(open_file(path, false));
}

}  // namespace

bool open_share(const char* folder, Share& share, Problem& problem) {
    snprintf(share.name, sizeof share.name, "%s", folder);
    OrNone file;
    share.limits = static_cast<drawbridge_limits*>(
        open_mapped(folder, DRAWBRIDGE_LIMITS_FILE, DRAWBRIDGE_LIMITS_SIZE, false, file, problem));
    close_file(file);
    if (share.limits == nullptr) return false;
    share.view.limits = share.limits;
    const char* wrong =
        header_problem(share.limits->header, DRAWBRIDGE_LIMITS_MAGIC, DRAWBRIDGE_LIMITS_SIZE);
    if (wrong == nullptr && !same_boot(share.limits->boot_id))
        wrong = "written before the last boot of the node";
    if (wrong == nullptr && !ledger::read_limits(*share.limits, share.cached))
        wrong = "being written without end";
    if (wrong != nullptr) {
        tell(problem, folder, DRAWBRIDGE_LIMITS_FILE, wrong);
        return false;
    }
    share.view.ledger = static_cast<drawbridge_ledger*>(open_mapped(
        folder, DRAWBRIDGE_LEDGER_FILE, DRAWBRIDGE_LEDGER_SIZE, true, share.file, problem));
    if (share.view.ledger == nullptr) return false;
    share.inode = facts_of(share.file).inode;
    wrong =
        header_problem(share.view.ledger->header, DRAWBRIDGE_LEDGER_MAGIC, DRAWBRIDGE_LEDGER_SIZE);
    if (wrong != nullptr) tell(problem, folder, DRAWBRIDGE_LEDGER_FILE, wrong);
    return wrong == nullptr;
}

void close_share(Share& share) {
    unmap(share.limits, DRAWBRIDGE_LIMITS_SIZE);
    unmap(share.view.ledger, DRAWBRIDGE_LEDGER_SIZE);
    close_file(share.file);
    share = Share{};
}

bool claim_slot(Share& share, Problem& problem) {
    if (share.holds_slot) return true;
    tell_agent(share);
    const bool locks =
        probe_byte(share.file, DRAWBRIDGE_SLOT_LOCK(DRAWBRIDGE_SLOTS)) != ByteLock::unsupported;
    for (int round = 0; round < 2; ++round) {
        for (uint32_t index = 0; index < DRAWBRIDGE_SLOTS; ++index)
            if (try_claim(share, index, locks)) return true;
        if (reap(share) == 0) break;
    }
    tell(problem, share.name, DRAWBRIDGE_LEDGER_FILE, "all slots are held by running processes");
    return false;
}

uint32_t reap(Share& share) {
    uint32_t reaped = 0;
    const uint64_t names = pid_namespace();
    const uint32_t count = ledger::slots_in_use(*share.view.ledger);
    for (uint32_t index = 0; index < count; ++index) {
        drawbridge_slot& slot = share.view.ledger->slot[index];
        if (load(slot.state) != DRAWBRIDGE_SLOT_LIVE ||
            (share.holds_slot && index == share.view.slot))
            continue;
        if (probe_byte(share.file, DRAWBRIDGE_SLOT_LOCK(index)) == ByteLock::held) continue;
        if (!owner_gone(share, slot, names)) continue;
        const bool locked = try_lock_byte(share.file, DRAWBRIDGE_SLOT_LOCK(index));
        const bool unlocked_kind =
            (__atomic_load_n(&slot.flags, __ATOMIC_RELAXED) & DRAWBRIDGE_SLOT_NO_LOCKS) != 0;
        if (!locked && !unlocked_kind) continue;  // another one is at it
        pass(Mark::reap_locked);
        if (load(slot.state) == DRAWBRIDGE_SLOT_LIVE && owner_gone(share, slot, names)) {
            ledger::clear_slot(*share.view.ledger, index);
            ++reaped;
            pass(Mark::reaped);
        }
        if (locked) unlock_byte(share.file, DRAWBRIDGE_SLOT_LOCK(index));
    }
    if (reaped == 0) return 0;
    __atomic_store_n(&share.reaped_at, monotonic_ns(), __ATOMIC_RELAXED);
    if (share.holds_slot) ledger::add(share.view.ledger->slot[share.view.slot].reaps, reaped);
    return reaped;
}

// The byte's lock is the whole process's: its threads would pass it all at once.
bool lock_denials(Share& share) {
    for (int tries = 0; tries < 200; ++tries) {
        if (__atomic_exchange_n(&share.deciding, 1, __ATOMIC_ACQUIRE) == 0) {
            if (try_lock_byte(share.file, DRAWBRIDGE_DENIAL_LOCK)) return true;
            __atomic_store_n(&share.deciding, 0, __ATOMIC_RELEASE);
        }
        sleep_ns(100000);
    }
    return false;
}

void unlock_denials(Share& share) {
    unlock_byte(share.file, DRAWBRIDGE_DENIAL_LOCK);
    __atomic_store_n(&share.deciding, 0, __ATOMIC_RELEASE);
}

bool check_ledger(Share& share) {
    char path[256];
    snprintf(path, sizeof path, "%s/%s", share.name, DRAWBRIDGE_LEDGER_FILE);
    const FileFacts wanted = facts_of(path);
    if (wanted.found && wanted.size < DRAWBRIDGE_LEDGER_SIZE) return false;
    const FileFacts held = facts_of(share.file);
    if (held.found && held.device == wanted.device && held.inode == wanted.inode) return true;
    // The program has closed our descriptor, or put another file in its place: that one is not ours
    // to close.
    share.file = open_file(path, true);
    if (share.file >= 0 && share.holds_slot)
        try_lock_byte(share.file, DRAWBRIDGE_SLOT_LOCK(share.view.slot));
    return true;
}

}  // namespace preload
