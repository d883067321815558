#include "server/fleet_watch.hpp"

#include <fmt/format.h>

#include <utility>

namespace drawbridge::server {

kube::client::WatchTarget slice_target(std::string_view driver) {
    // A driver is a DNS subdomain (checked with the settings): nothing in it needs escaping.
    return {.path = "/apis/resource.k8s.io/v1/resourceslices",
            .selection = fmt::format("fieldSelector=spec.driver%3D{}", driver)};
}

FleetWatch::FleetWatch(const translate::Target& target, SizesChanged sizes_changed,
                       BadSlice bad_slice)
    : driver_(target.driver),
      memory_capacity_(target.memory_capacity),
      sizes_changed_(std::move(sizes_changed)),
      bad_slice_(std::move(bad_slice)) {}

void FleetWatch::list_begun() {
    next_.clear();
    listing_ = true;
}

void FleetWatch::put(base::JsonView object) {
    const std::string_view name = object["metadata"]["name"].string_or("");
    kube::Fleet& fleet = listing_ ? next_ : fleet_;
    auto facts = kube::read_slice(object, memory_capacity_);
    if (facts) {
        fleet.put(name, std::move(*facts));
    } else {
        fleet.erase(name);
        bad_slice_(fmt::format("ResourceSlice {}: {}: {}", name, facts.error().path,
                               facts.error().message));
    }
    if (!listing_) publish(false);
}

void FleetWatch::list_complete() {
    fleet_ = std::exchange(next_, {});
    listing_ = false;
    publish(true);
}

void FleetWatch::erase(base::JsonView object) {
    fleet_.erase(object["metadata"]["name"].string_or(""));
    publish(false);
}

void FleetWatch::publish(bool always) {
    std::vector<std::int64_t> sizes = fleet_.memory_sizes(driver_);
    if (!always && sizes == published_) return;
    published_ = std::move(sizes);
    sizes_changed_(published_);
}

}  // namespace drawbridge::server
