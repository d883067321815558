#include "agent/api/publish_plan.hpp"

#include "agent/json_reader.hpp"
#include "kube/quantity.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

namespace drawbridge::agent {
namespace {

using base::JsonKind;
using base::JsonView;

constexpr std::size_t max_device = 64U << 10U;

bool same_quantity(std::string_view left, std::string_view right) {
    const auto a = kube::parse_quantity(left);
    const auto b = kube::parse_quantity(right);
    return a && b && *a == *b;
}

/// Appends the places below `path` where `sent` says something that `kept` does not.
void compare(JsonView sent, JsonView kept, const kube::PointerPath& path,
             std::vector<std::string>& missing) {
    if (sent.is_object() && kept.is_object()) {
        for (const base::JsonMember& member : sent.members()) {
            // Set by the server where we left it out (KEP-5055), so never compared.
            if (member.key == "timeAdded") continue;
            compare(member.value, kept[member.key], path / member.key, missing);
        }
        return;
    }
    if (sent.is_array() && kept.is_array() && sent.size() == kept.size()) {
        for (std::size_t i = 0; i < sent.size(); ++i)
            compare(sent.at(i), kept.at(i), path / i, missing);
        return;
    }
    const auto a = sent.as_string();
    const auto b = kept.as_string();
    const bool same = base::same_value(sent, kept) || (a && b && same_quantity(*a, *b));
    if (!same) missing.push_back(path.text());
}

std::vector<std::string> missing_in(std::string_view sent, std::string_view kept,
                                    const kube::PointerPath& path) {
    std::vector<std::string> missing;
    const auto left = base::parse_json(std::string(sent), {.max_bytes = max_device});
    const auto right = base::parse_json(std::string(kept), {.max_bytes = max_device});
    if (!left || !right) return {path.text()};
    compare(left->root(), right->root(), path, missing);
    return missing;
}

bool same_devices(const SliceDevices& left, const SliceDevices& right) {
    return std::ranges::equal(left, right, same_device);
}

/// The seen slices by name, without those to remove.
struct Sorted {
    std::map<std::string, const SeenSlice*> kept;
    std::vector<const SeenSlice*> obsolete;
};

Sorted sort_seen(const std::vector<SeenSlice>& seen, std::size_t wanted, const NodeIdentity& node) {
    std::set<std::string> names;
    for (std::size_t i = 0; i < wanted; ++i)
        names.insert(slice_name(i, node.name));
    Sorted sorted;
    for (const SeenSlice& slice : seen) {
        if (names.contains(slice.name) && slice.owner_uid == node.uid) {
            sorted.kept.emplace(slice.name, &slice);
        } else {
            sorted.obsolete.push_back(&slice);
        }
    }
    return sorted;
}

/// The generation that the kept slices are to have.
std::int64_t next_generation(const std::vector<SeenSlice>& seen, bool keep) {
    std::int64_t newest = 0;
    for (const SeenSlice& slice : seen)
        newest = std::max(newest, slice.generation);
    return keep ? newest : newest + 1;
}

/// Whether the kept slices make one complete generation.
bool is_consistent(const Sorted& sorted, std::size_t wanted) {
    return std::ranges::all_of(sorted.kept, [&](const auto& entry) {
        const SeenSlice& slice = *entry.second;
        return slice.generation == sorted.kept.begin()->second->generation &&
               slice.slice_count == static_cast<std::int64_t>(wanted);
    });
}

}  // namespace

bool same_device(std::string_view left, std::string_view right) {
    return missing_in(left, right, {}).empty() && missing_in(right, left, {}).empty();
}

std::vector<std::string> dropped_fields(const SliceDevices& sent, const SliceDevices& returned) {
    std::vector<std::string> dropped;
    const kube::PointerPath root;
    for (std::size_t i = 0; i < sent.size(); ++i) {
        const kube::PointerPath path = root / i;
        if (i >= returned.size()) {
            dropped.push_back(path.text());
            continue;
        }
        auto missing = missing_in(sent[i], returned[i], path);
        dropped.insert(dropped.end(), missing.begin(), missing.end());
    }
    return dropped;
}

base::Result<SeenSlice> read_seen_slice(JsonView slice) {
    JsonReader reader;
    const Spot root{slice};
    const Spot metadata = root["metadata"];
    const Spot pool = root["spec"]["pool"];
    SeenSlice seen{.name = reader.text(metadata["name"]),
                   .uid = reader.text_or(metadata["uid"], ""),
                   .resource_version = reader.text_or(metadata["resourceVersion"], ""),
                   .generation = reader.whole_or(pool["generation"], {}, 0),
                   .slice_count = reader.whole_or(pool["resourceSliceCount"], {}, 0)};
    for (const Spot& owner : reader.list(metadata["ownerReferences"])) {
        if (owner.view["kind"].as_string() == "Node")
            seen.owner_uid = reader.text_or(owner["uid"], "");
    }
    for (const Spot& device : reader.list(root["spec"]["devices"]))
        seen.devices.push_back(device.view.to_json());
    if (!reader.ok()) return reader.error();
    return seen;
}

std::vector<SliceWrite> plan_publish(const std::vector<SliceDevices>& wanted,
                                     const std::vector<SeenSlice>& seen, const NodeIdentity& node) {
    const Sorted sorted = sort_seen(seen, wanted.size(), node);
    std::vector<std::size_t> changed;
    for (std::size_t i = 0; i < wanted.size(); ++i) {
        const auto found = sorted.kept.find(slice_name(i, node.name));
        if (found == sorted.kept.end() || !same_devices(wanted[i], found->second->devices))
            changed.push_back(i);
    }
    const bool complete = sorted.kept.size() == wanted.size() && sorted.obsolete.empty() &&
                          is_consistent(sorted, wanted.size());
    if (complete && changed.empty()) return {};
    const bool keep = complete && changed.size() == 1;
    const std::int64_t generation = next_generation(seen, keep);

    std::vector<SliceWrite> removals;
    for (const SeenSlice* slice : sorted.obsolete) {
        removals.push_back({.what = SliceDo::remove,
                            .name = slice->name,
                            .uid = slice->uid,
                            .resource_version = slice->resource_version});
    }
    std::vector<SliceWrite> updates;
    std::vector<SliceWrite> creations;
    for (std::size_t i = 0; i < wanted.size(); ++i) {
        if (keep && changed.front() != i) continue;
        SliceHead head{.name = slice_name(i, node.name),
                       .generation = generation,
                       .slice_count = wanted.size()};
        const auto found = sorted.kept.find(head.name);
        const bool exists = found != sorted.kept.end();
        if (exists) head.resource_version = found->second->resource_version;
        (exists ? updates : creations)
            .push_back({.what = exists ? SliceDo::update : SliceDo::create,
                        .name = head.name,
                        .body = slice_json(head, node, wanted[i]),
                        .devices = wanted[i]});
    }
    std::vector<SliceWrite> writes = std::move(removals);
    writes.insert(writes.end(), updates.begin(), updates.end());
    writes.insert(writes.end(), creations.begin(), creations.end());
    return writes;
}

}  // namespace drawbridge::agent
