#pragma once
// NVML as far as the agent uses it, opened at run time; names and layouts are those of its stable
// interface, so that any driver will do.

#include "base/result.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace drawbridge::agent {

/// An answer of NVML: 0 is success.
enum class NvmlCode : int {
    success = 0,
    uninitialized = 1,
    invalid_argument = 2,
    not_supported = 3,
    not_found = 6,
    driver_not_loaded = 9,
    timed_out = 10,
    gpu_lost = 15,
    reset_required = 16,
    driver_mismatch = 18  ///< the driver's library was replaced, its kernel module not yet
};

/// Whether an answer is one of the driver as a whole and of no single GPU.
[[nodiscard]] constexpr bool is_of_driver(NvmlCode code) {
    return code == NvmlCode::uninitialized || code == NvmlCode::driver_not_loaded ||
           code == NvmlCode::driver_mismatch;
}

/// Whether an answer means that there is no such thing, and not that it does not answer.
[[nodiscard]] constexpr bool is_of_nothing(NvmlCode code) {
    return code == NvmlCode::not_found || code == NvmlCode::invalid_argument ||
           code == NvmlCode::not_supported;
}

using NvmlHandle = void*;

/// A process on a device.
struct NvmlProcess {
    std::uint32_t pid = 0;  ///< as the caller's pid namespace sees it
    std::uint64_t bytes = 0;
};

/// How much of a device a process had of late.
struct NvmlUse {
    std::uint32_t pid = 0;
    std::uint64_t time_us = 0;  ///< end of what was looked at, by the driver's clock
    std::uint32_t percent = 0;  ///< of the time between the last two, its kernels ran
};

/// A critical error that the driver reported.
struct NvmlEvent {
    NvmlHandle device = nullptr;
    std::int64_t xid = 0;
};

/// One opened and initialised NVML; one thread at a time. A function that the library lacks answers
/// as one that the device does not support.
class NvmlLibrary {
public:
    /// Opens the first of `paths` that can be opened; `unavailable` with the reasons.
    [[nodiscard]] static base::Result<std::unique_ptr<NvmlLibrary>> open(
        const std::vector<std::string>& paths);
    ~NvmlLibrary();
    NvmlLibrary(const NvmlLibrary&) = delete;
    NvmlLibrary& operator=(const NvmlLibrary&) = delete;

    [[nodiscard]] std::string driver_version() const;
    /// As `12.4`; empty where unknown.
    [[nodiscard]] std::string cuda_version() const;
    [[nodiscard]] base::Result<unsigned> device_count() const;
    [[nodiscard]] NvmlCode device(unsigned index, NvmlHandle& handle) const;
    /// MIG instances of a card; none where it has none, or MIG is off.
    [[nodiscard]] NvmlCode mig_devices(NvmlHandle card, std::vector<NvmlHandle>& found) const;
    [[nodiscard]] NvmlCode mig_mode(NvmlHandle card, bool& enabled) const;

    [[nodiscard]] NvmlCode uuid(NvmlHandle device, std::string& text) const;
    [[nodiscard]] std::string name(NvmlHandle device) const;
    [[nodiscard]] std::string architecture(NvmlHandle device) const;
    [[nodiscard]] std::string compute_capability(NvmlHandle device) const;
    [[nodiscard]] std::string pci_bus_id(NvmlHandle device) const;
    [[nodiscard]] std::optional<unsigned> minor(NvmlHandle device) const;
    [[nodiscard]] NvmlCode total_memory(NvmlHandle device, std::uint64_t& bytes) const;
    [[nodiscard]] bool has_pending_remap(NvmlHandle device) const;
    /// Of GPU instance and compute instance.
    [[nodiscard]] NvmlCode instance_ids(NvmlHandle mig, std::pair<unsigned, unsigned>& ids) const;

    /// Processes that compute on a device, as far as their memory is told; none where it is not.
    [[nodiscard]] std::vector<NvmlProcess> processes(NvmlHandle device) const;

    /// Processes that used a device's multiprocessors since `since_us`, which is the last time that
    /// was told, 0 at first; none where there is nothing new. `not_supported` where the device does
    /// not tell, as instances of MIG do not.
    [[nodiscard]] NvmlCode uses(NvmlHandle device, std::uint64_t since_us,
                                std::vector<NvmlUse>& found) const;

    /// From now on errors of the device are reported; false where it reports none.
    [[nodiscard]] bool watch(NvmlHandle device);
    /// What was reported since the last call; does not wait.
    [[nodiscard]] std::vector<NvmlEvent> events();

private:
    NvmlLibrary() = default;
    template <class Function>
    [[nodiscard]] Function find(const char* name) const;
    template <class... Arguments>
    [[nodiscard]] NvmlCode call(const char* name, Arguments... arguments) const;
    [[nodiscard]] std::string text(const char* name, NvmlHandle device) const;

    void* library_ = nullptr;
    void* event_set_ = nullptr;
    bool initialised_ = false;
};

}  // namespace drawbridge::agent
