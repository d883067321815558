#pragma once
// The memory account of one share: who uses how much, and may somebody have more. Pure: works on
// the two mapped files (abi.h), asks no clock, kernel or driver.
//
// Every process owns one slot and one word of bytes in use. A reservation adds to the own word
// first and looks at the sum then, so of two that race the later one in the total order sees the
// other, and what is granted never exceeds the limit. No sum is stored anywhere: a process that
// dies at any instruction leaves a word that is at most too high.

#include "preload/abi.h"

#include <stdint.h>

namespace preload::ledger {

/// Amounts above this are no memory of any device; they are refused before they can overflow a sum.
inline constexpr uint64_t absurd_bytes = uint64_t{1} << 50;

/// One share as a process sees it. `limits` may be read-only memory.
struct View {
    const drawbridge_limits* limits = nullptr;
    drawbridge_ledger* ledger = nullptr;
    uint32_t slot = 0;
    uint32_t left_mib = 0;  // what the slot's last process was measured with: not ours, as long as
                            // it lies there
};

/// The fields of `limits` that are decided upon, as one consistent copy.
struct Limits {
    uint64_t generation = 0;
    uint64_t memory_bytes = 0;
    uint64_t physical_bytes = 0;
    uint64_t context_bytes = 0;
    uint32_t flags = 0;
    uint32_t core_permille = 0;
};

template <class Word>
Word load(const Word& word) {
    return __atomic_load_n(&word, __ATOMIC_SEQ_CST);
}

template <class Word>
void add(Word& word, uint64_t amount) {
    __atomic_fetch_add(&word, static_cast<Word>(amount), __ATOMIC_RELAXED);
}

/// A sum of words, which tenants write: it does not wrap, whatever they hold.
inline uint64_t saturating(uint64_t a, uint64_t b) {
    return a + b < a ? UINT64_MAX : a + b;
}

/// Adds to the own word.
void charge(const View& view, uint64_t bytes);

/// Takes from the own word; never below zero. False where there was less (an error of ours, or of
/// who wrote the file).
bool uncharge(const View& view, uint64_t bytes);

/// Charges the bytes if the sum then is within the limit; otherwise charges nothing, and what
/// cannot fit beside the own word for no moment. Counts stale words and overheads, so it may refuse
/// what `usage` would allow.
bool try_charge(const View& view, uint64_t limit, uint64_t bytes);

/// Bytes in use by all processes of the share: what live slots hold.
uint64_t usage(const View& view);

/// Bytes that the agent has measured of a slot's process beyond its word.
uint64_t overhead_bytes(const View& view, uint32_t slot);

/// Bytes that a slot's process holds: its word, and its measured overhead in the place of what the
/// word has for it until the owner takes that out.
uint64_t held(const View& view, uint32_t slot);

/// Number of slots that were ever used, at most DRAWBRIDGE_SLOTS whatever the file says.
uint32_t slots_in_use(const drawbridge_ledger& ledger);

/// Raises the number of slots in use to at least `count`.
void raise_slots_in_use(drawbridge_ledger& ledger, uint32_t count);

/// Reads the limits; false where the agent was writing at three tries in a row (the copy is then
/// unchanged).
bool read_limits(const drawbridge_limits& limits, Limits& copy);

/// Empties a slot whose owner is gone: its word first, so that no sum counts what nobody holds.
void clear_slot(drawbridge_ledger& ledger, uint32_t slot);

/// Rounding of linear memory: the driver cuts blocks up to 1 MiB from shared ones in steps of 512
/// bytes, and backs larger ones with 2 MiB pages (seen on driver 580, H200).
uint64_t rounded_linear(uint64_t bytes);

/// What a share's processes see: total = limit or the device, free within both.
struct Report {
    uint64_t total = 0;
    uint64_t used = 0;
    uint64_t free = 0;
};
Report report(const Limits& limits, uint64_t usage, uint64_t device_total, uint64_t device_free);

}  // namespace preload::ledger
