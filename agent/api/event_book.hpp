#pragma once
// Events (events.k8s.io/v1) on what people look at: the Node of a device, the Pod of a claim. Pure:
// what happens again and again becomes a series and not more events.

#include "agent/api/outbox.hpp"
#include "agent/claim/claim_facts.hpp"
#include "agent/device/inventory.hpp"
#include "base/clock.hpp"
#include "base/json.hpp"
#include "base/result.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace drawbridge::agent {

/// An object as an event names it.
struct ObjectName {
    std::string api_version = {};
    std::string kind = {};
    std::string name_space = {};  ///< empty: of the cluster
    std::string name = {};
    std::string uid = {};
};

/// Something that happened.
struct Occurrence {
    ObjectName regarding = {};
    std::optional<ObjectName> related = std::nullopt;
    bool warning = true;
    std::string reason = {};  ///< one word for programs
    std::string action = {};  ///< what was being done
    std::string note = {};    ///< for people
};

/// Turns occurrences into calls. One thread.
class EventBook {
public:
    using Wall = base::Clock::Wall;
    /// What happens again within this time of the first is told as its series.
    static constexpr std::chrono::minutes series_time{30};
    /// Wait before a series is told again, doubled each time up to `longest_wait`.
    static constexpr std::chrono::minutes first_wait{1};
    static constexpr std::chrono::minutes longest_wait{10};
    /// Different things told of one object within `series_time`.
    static constexpr std::size_t most_of_object = 8;
    static constexpr std::size_t most_series = 1024;

    /// `instance` is the node's name.
    explicit EventBook(std::string instance) : instance_(std::move(instance)) {}

    /// The call that tells it: a new event, or the count of an old one; nothing where it was told
    /// short time ago.
    [[nodiscard]] std::optional<Notice> tell(const Occurrence& occurrence, Wall now);

private:
    struct Series {
        ObjectName regarding;
        std::string name_space;
        std::string name;
        Wall first;
        Wall told;
        std::chrono::minutes wait{first_wait};
        std::int64_t count = 1;
    };

    void forget_old(Wall now);
    [[nodiscard]] std::size_t told_of(const ObjectName& object) const;
    [[nodiscard]] Notice create(const Occurrence& occurrence, const Series& series) const;

    std::string instance_;
    std::map<std::string, Series> series_;  ///< by what is the same of them
};

/// Faults that came and went on a node between two looks; those that only inform are no event.
[[nodiscard]] std::vector<Occurrence> device_occurrences(const Inventory& before,
                                                         const Inventory& after,
                                                         std::string_view node);

/// A refused prepare, once for each pod that waits for the claim.
[[nodiscard]] std::vector<Occurrence> refusal_occurrences(const ClaimName& claim,
                                                          const std::vector<Consumer>& consumers,
                                                          const base::Error& error);

/// The container runtime of a node has CDI off, or on again where `refusal` is empty.
[[nodiscard]] Occurrence runtime_occurrence(const std::string& refusal, std::string_view node);

/// What an answer to an event's call means.
[[nodiscard]] Delivery event_delivery(const base::Result<base::JsonDocument>& answer);

}  // namespace drawbridge::agent
