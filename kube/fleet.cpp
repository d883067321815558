#include "kube/fleet.hpp"

#include "kube/json_patch.hpp"
#include "kube/quantity.hpp"

#include <algorithm>
#include <functional>
#include <optional>
#include <set>
#include <utility>

namespace drawbridge::kube {

namespace {

using base::JsonView;
using base::Result;

tl::unexpected<base::Error> refuse(const PointerPath& path, std::string_view reason) {
    return base::fail(base::ErrorKind::invalid_input, std::string(reason), path.text());
}

/// Kind and version, where they are given. In older versions a device's capacities lie elsewhere.
Result<void> check_kind(JsonView slice) {
    if (!slice.is_object()) return refuse({}, "a ResourceSlice is an object");
    const std::pair<std::string_view, std::string_view> wanted[] = {
        {"kind", "ResourceSlice"}, {"apiVersion", "resource.k8s.io/v1"}};
    for (const auto& [key, text] : wanted) {
        if (!slice[key].is_absent() && slice[key].as_string() != text) {
            return refuse(PointerPath() / key,
                          "only a ResourceSlice of resource.k8s.io/v1 is read");
        }
    }
    return {};
}

Result<std::string> read_text(JsonView view, const PointerPath& path) {
    const auto text = view.as_string();
    if (!text || text->empty()) return refuse(path, "a text that is not empty is expected");
    return std::string(*text);
}

/// The memory of a device in bytes; nothing where it has none to share.
Result<std::optional<std::int64_t>> read_memory(JsonView device, std::string_view memory_capacity,
                                                const PointerPath& path) {
    if (!device.is_object()) return refuse(path, "a device is an object");
    const JsonView capacities = device["capacity"];
    if (capacities.is_absent()) return std::nullopt;
    if (!capacities.is_object()) return refuse(path / "capacity", "an object is expected");
    const JsonView memory = capacities[memory_capacity];
    if (memory.is_absent()) return std::nullopt;
    const PointerPath value_path = path / "capacity" / memory_capacity / "value";
    const auto text = memory["value"].scalar_text();
    if (!text) return refuse(value_path, "a quantity is expected");
    const auto amount = parse_quantity(*text);
    if (!amount) return refuse(value_path, amount.error().message);
    const auto bytes = amount->whole();
    return bytes > 0 ? bytes : std::nullopt;
}

Result<std::vector<std::int64_t>> read_devices(JsonView devices, std::string_view memory_capacity,
                                               const PointerPath& path) {
    std::vector<std::int64_t> sizes;
    if (devices.is_absent()) return sizes;
    if (!devices.is_array()) return refuse(path, "a list is expected");
    for (std::size_t i = 0; i < devices.size(); ++i) {
        auto memory = read_memory(devices.at(i), memory_capacity, path / i);
        if (!memory) return tl::unexpected(std::move(memory).error());
        if (*memory) sizes.push_back(**memory);
    }
    return sizes;
}

/// The known slices of one generation of a pool.
struct Generation {
    std::int64_t slices = 0;
    std::int64_t slice_count = 0;
    std::vector<std::int64_t> sizes;

    [[nodiscard]] bool is_complete() const { return slices == slice_count; }
};

/// The generations of a pool, newest first.
using Pool = std::map<std::int64_t, Generation, std::greater<>>;

/// The generation that counts, or none.
const Generation* current(const Pool& pool) {
    const auto complete =
        std::ranges::find_if(pool, [](const auto& entry) { return entry.second.is_complete(); });
    if (complete != pool.end()) return &complete->second;
    return pool.size() > 1 ? &std::next(pool.begin())->second : nullptr;
}

}  // namespace

Result<SliceFacts> read_slice(JsonView slice, std::string_view memory_capacity) {
    if (auto checked = check_kind(slice); !checked)
        return tl::unexpected(std::move(checked).error());
    const JsonView spec = slice["spec"];
    const PointerPath path("/spec");
    const PointerPath pool_path = path / "pool";
    auto driver = read_text(spec["driver"], path / "driver");
    if (!driver) return tl::unexpected(std::move(driver).error());
    auto pool = read_text(spec["pool"]["name"], pool_path / "name");
    if (!pool) return tl::unexpected(std::move(pool).error());

    const JsonView generation = spec["pool"]["generation"];
    const std::int64_t number = generation.is_absent() ? 0 : generation.as_int().value_or(-1);
    if (number < 0)
        return refuse(pool_path / "generation", "a whole number of at least 0 is expected");
    const std::int64_t count = spec["pool"]["resourceSliceCount"].as_int().value_or(0);
    if (count < 1)
        return refuse(pool_path / "resourceSliceCount", "a whole number above 0 is expected");

    auto sizes = read_devices(spec["devices"], memory_capacity, path / "devices");
    if (!sizes) return tl::unexpected(std::move(sizes).error());
    return SliceFacts{.driver = *std::move(driver),
                      .pool = *std::move(pool),
                      .generation = number,
                      .slice_count = count,
                      .memory_bytes = *std::move(sizes)};
}

void Fleet::put(std::string_view name, SliceFacts facts) {
    slices_.insert_or_assign(std::string(name), std::move(facts));
}

void Fleet::erase(std::string_view name) {
    if (const auto found = slices_.find(name); found != slices_.end()) slices_.erase(found);
}

void Fleet::clear() {
    slices_.clear();
}

std::vector<std::int64_t> Fleet::memory_sizes(std::string_view driver) const {
    std::map<std::string_view, Pool> pools;
    for (const auto& [name, slice] : slices_) {
        if (slice.driver != driver) continue;
        Generation& generation = pools[slice.pool][slice.generation];
        ++generation.slices;
        generation.slice_count = std::max(generation.slice_count, slice.slice_count);
        generation.sizes.insert(generation.sizes.end(), slice.memory_bytes.begin(),
                                slice.memory_bytes.end());
    }
    std::set<std::int64_t> sizes;
    for (const auto& [name, pool] : pools) {
        if (const Generation* generation = current(pool)) {
            sizes.insert(generation->sizes.begin(), generation->sizes.end());
        }
    }
    return {sizes.begin(), sizes.end()};
}

bool Fleet::has_driver(std::string_view driver) const {
    return std::ranges::any_of(
        slices_, [driver](const auto& entry) { return entry.second.driver == driver; });
}

}  // namespace drawbridge::kube
