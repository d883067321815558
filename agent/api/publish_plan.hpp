#pragma once
// What to write so that a node has the slices it should have: pure comparison of wanted and seen.

#include "agent/api/slices.hpp"
#include "base/json.hpp"
#include "base/result.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace drawbridge::agent {

/// A slice of ours as the API server has it.
struct SeenSlice {
    std::string name = {};
    std::string uid = {};
    std::string resource_version = {};
    std::string owner_uid = {};  ///< of the Node that owns it; empty: none
    std::int64_t generation = 0;
    std::int64_t slice_count = 0;
    SliceDevices devices = {};
};

/// Reads a ResourceSlice of resource.k8s.io/v1. What an API server would not have let in is
/// `invalid_input`.
[[nodiscard]] base::Result<SeenSlice> read_seen_slice(base::JsonView slice);

enum class SliceDo { remove, update, create };

/// One write. A slice is removed with its UID and resourceVersion as preconditions, updated with
/// its resourceVersion.
struct SliceWrite {
    SliceDo what = SliceDo::create;
    std::string name = {};
    std::string uid = {};               ///< of the slice to remove
    std::string resource_version = {};  ///< of the slice to remove
    std::string body = {};              ///< JSON of the slice to write
    SliceDevices devices = {};          ///< those in the body

    [[nodiscard]] bool operator==(const SliceWrite&) const = default;
};

/// The writes in their order; empty when all is as it should be. One slice to change and none to
/// add or remove keeps the generation; everything else makes a new one of all slices
/// (node-agent.md 7.2). A slice that another Node object owned is replaced.
[[nodiscard]] std::vector<SliceWrite> plan_publish(const std::vector<SliceDevices>& wanted,
                                                   const std::vector<SeenSlice>& seen,
                                                   const NodeIdentity& node);

/// What the server left out of the devices it was given: JSON pointers into `spec.devices` of the
/// slice. Not empty means that a feature gate is off.
[[nodiscard]] std::vector<std::string> dropped_fields(const SliceDevices& sent,
                                                      const SliceDevices& returned);

/// Whether two devices say the same: quantities compared as numbers, and what only the server sets
/// (`timeAdded` of a taint) left aside.
[[nodiscard]] bool same_device(std::string_view left, std::string_view right);

}  // namespace drawbridge::agent
