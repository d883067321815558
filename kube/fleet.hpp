#pragma once
// The memory sizes of a fleet, from its ResourceSlices.

#include "base/json.hpp"
#include "base/result.hpp"

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace drawbridge::kube {

/// What one ResourceSlice says of memory.
struct SliceFacts {
    std::string driver;
    std::string pool;
    std::int64_t generation = 0;
    std::int64_t slice_count = 1;  ///< slices that make this generation of the pool complete
    std::vector<std::int64_t> memory_bytes;  ///< one a device that has the capacity
};

/// Reads a ResourceSlice (resource.k8s.io/v1; an item of a list may leave kind and version out).
/// `memory_capacity` is the capacity's name. What an API server would not have let in is
/// `invalid_input` with its place. A device whose memory is zero, negative or no whole number of
/// bytes is left out, as if it had none: no share of it can be asked for, and it must not hide the
/// others of its slice.
[[nodiscard]] base::Result<SliceFacts> read_slice(base::JsonView slice,
                                                  std::string_view memory_capacity);

/// The slices of a cluster, by object name; pure state that a list, a watch or a file feeds.
class Fleet {
public:
    void put(std::string_view name, SliceFacts facts);
    void erase(std::string_view name);
    void clear();

    /// The distinct memory sizes in bytes, ascending, of the newest complete generation of each
    /// pool of `driver` (design.md decision 5): a newer generation counts as soon as all its slices
    /// are there; until then the one before it does, as far as its slices are still known (an agent
    /// that writes a new generation overwrites the old one slice by slice). A pool whose only
    /// generation is incomplete does not count, as for the scheduler.
    [[nodiscard]] std::vector<std::int64_t> memory_sizes(std::string_view driver) const;
    /// Whether any slice of the driver is known.
    [[nodiscard]] bool has_driver(std::string_view driver) const;

private:
    std::map<std::string, SliceFacts, std::less<>> slices_;
};

}  // namespace drawbridge::kube
