#pragma once
// Processes that take more of a GPU than their share, as the driver counts: they go past the
// preload library, or past what it counts (enforcement.md 4.10). Pure.

#include "agent/api/event_book.hpp"
#include "agent/claim/claim_record.hpp"
#include "agent/share/device_processes.hpp"

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace drawbridge::agent {

/// What is suspected of a share's processes.
struct Suspect {
    std::int64_t strangers = 0;      ///< those that use the GPU and have no slot in the ledger
    std::int64_t overrun_bytes = 0;  ///< held beyond the limit, for a while
    std::string pod_uid = {};        ///< of the pod that one of them runs in; empty: not known

    [[nodiscard]] bool operator==(const Suspect&) const = default;
};

/// By the share's name.
using Suspects = std::map<std::string, Suspect>;

/// What processes with the same shares of a GPU hold, by the driver's word.
struct Holding {
    std::int64_t bytes = 0;
    std::map<std::string, std::int64_t> limits = {};  ///< of each of the shares; negative: none
    std::uint32_t pid = 0;                            ///< of the one that holds most
    std::int64_t most_bytes = 0;                      ///< what it holds

    void add(const DeviceProcess& process);
    /// Bytes beyond all limits together; 0 where one is none.
    [[nodiscard]] std::int64_t beyond() const;
    /// Whether that is more than a twentieth of the limits and 256 MiB: a driver rounds, and a
    /// context is measured only when it is there.
    [[nodiscard]] bool is_over() const;
};

/// Those that have held too much for a while.
class Overruns {
public:
    static constexpr std::uint64_t patience_ns = 10'000'000'000;

    /// Bytes beyond the limits, by share. `now_ns` never goes back.
    [[nodiscard]] std::map<std::string, std::int64_t> look(
        const std::map<std::string, Holding>& holdings, std::uint64_t now_ns);

private:
    std::map<std::string, std::uint64_t> since_;
};

/// UID of the pod whose container a `/proc/<pid>/mountinfo` is of, by the files that the kubelet
/// mounts into each; empty where it shows none.
[[nodiscard]] std::string pod_in_mounts(std::string_view mountinfo);

/// What people are told: on the pod where it is known, else on the claim. `before` is what they
/// were told of the share before.
[[nodiscard]] std::vector<Occurrence> suspect_occurrences(const Suspect& before, const Suspect& now,
                                                          const ClaimRecord& record,
                                                          const Share& share);

/// The calls that evict the pod, where it is known; one for each pod that the claim has, since only
/// the one with that UID goes. A disruption budget may hold it up.
[[nodiscard]] std::vector<Notice> eviction_notices(const Suspect& suspect,
                                                   const ClaimRecord& record);

/// What an answer to such a call means.
[[nodiscard]] Delivery eviction_delivery(const base::Result<base::JsonDocument>& answer);

}  // namespace drawbridge::agent
