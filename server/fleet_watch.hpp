#pragma once
// The ResourceSlices of our driver, as the memory sizes that a percentage needs.

#include "kube/client/watcher.hpp"
#include "kube/fleet.hpp"
#include "translate/settings.hpp"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace drawbridge::server {

/// What is watched: the slices of one driver.
[[nodiscard]] kube::client::WatchTarget slice_target(std::string_view driver);

class FleetWatch final : public kube::client::WatchSink {
public:
    using SizesChanged = std::function<void(const std::vector<std::int64_t>&)>;
    using BadSlice = std::function<void(const std::string&)>;

    /// `sizes_changed` is called after each complete list and whenever the sizes are others;
    /// `bad_slice` with what is wrong in a slice that is passed over.
    FleetWatch(const translate::Target& target, SizesChanged sizes_changed, BadSlice bad_slice);

    void list_begun() override;
    void put(base::JsonView object) override;
    void list_complete() override;
    void erase(base::JsonView object) override;

private:
    void publish(bool always);

    std::string driver_;
    std::string memory_capacity_;
    SizesChanged sizes_changed_;
    BadSlice bad_slice_;
    kube::Fleet fleet_;
    kube::Fleet next_;  ///< what a list in progress has brought
    bool listing_ = false;
    std::vector<std::int64_t> published_;
};

}  // namespace drawbridge::server
