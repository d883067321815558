// What a test lets happen to the cards of the stand-in, for NVML alone: a text file that
// DRAWBRIDGE_STANDIN_NVML names, read at each call. A word and numbers a line:
//
// - `down`: the driver is unloaded; NVML does not start, and stops answering
// - `lost CARD`: the card has fallen off the bus
// - `fails CARD CODE`: every call for the card answers that
// - `remap CARD`: rows of it wait for a remap
// - `deaf CARD`: it reports no errors
// - `bare CARD`: it has no node below /dev, as a runtime that opens nodes would need one
// - `xid CARD NUMBER`: an error, reported once to each set of events made before
// - `mig CARD`: MIG mode is on
// - `instance CARD GI CI MIB UUID`: a MIG instance of it
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace standin {

struct Instance {
    int card = 0;
    unsigned gpu_instance = 0;
    unsigned compute_instance = 0;
    std::uint64_t bytes = 0;
    std::string uuid = {};
};

struct NvmlScript {
    bool down = false;
    std::set<int> lost, remap, deaf, bare, mig;
    std::map<int, int> fails;
    std::vector<std::pair<int, unsigned>> xids;
    std::vector<Instance> instances;
};

NvmlScript nvml_script();

// NVML's answers.
inline constexpr int uninitialized = 1;
inline constexpr int invalid_argument = 2;
inline constexpr int not_supported = 3;
inline constexpr int not_found = 6;
inline constexpr int insufficient_size = 7;
inline constexpr int driver_not_loaded = 9;
inline constexpr int timed_out = 10;
inline constexpr int gpu_lost = 15;

inline constexpr std::uintptr_t first_card = 0x1000;
inline constexpr std::uintptr_t first_instance = 0x2000;

/// Number of a card; of an instance: that of its card. -1 where the handle is none.
int card_of(const void* handle);
/// The instance behind a handle; its card is -1 where it is none.
Instance instance_of(const void* handle);
/// What every call on that handle answers; 0: it is served.
int failure_of(const void* handle);

}  // namespace standin
