// Reads back what claim_model.cpp writes, and refuses everything else.

#include "kube/claim_model.hpp"
#include "kube/json_patch.hpp"
#include "kube/quantity.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace drawbridge::kube {

namespace {

using base::JsonView;
using base::Result;

/// A place in the object, with the pointer that names it.
struct Spot {
    JsonView view;
    PointerPath path;

    Spot operator[](std::string_view key) const { return {view[key], path / key}; }
    Spot at(std::size_t index) const { return {view.at(index), path / index}; }
};

tl::unexpected<base::Error> refuse(const Spot& spot, std::string_view reason) {
    return base::fail(base::ErrorKind::invalid_input, std::string(reason), spot.path.text());
}

/// Refuses what is no object, and a member beside `known`; null counts as left out.
Result<void> check_members(const Spot& spot, std::initializer_list<std::string_view> known) {
    if (!spot.view.is_object()) return refuse(spot, "an object is expected");
    for (const base::JsonMember& member : spot.view.members()) {
        if (!member.value.is_absent() && std::ranges::find(known, member.key) == known.end()) {
            return refuse(spot[member.key], "this field is not one that Drawbridge writes");
        }
    }
    return {};
}

Result<std::string> read_text(const Spot& spot) {
    const auto text = spot.view.as_string();
    if (!text || text->empty()) return refuse(spot, "a text that is not empty is expected");
    return std::string(*text);
}

/// Elements of a list that may be left out.
template <class T>
Result<std::vector<T>> read_list(const Spot& spot, Result<T> (*read)(const Spot&)) {
    std::vector<T> list;
    if (spot.view.is_absent()) return list;
    if (!spot.view.is_array()) return refuse(spot, "a list is expected");
    for (std::size_t i = 0; i < spot.view.size(); ++i) {
        auto item = read(spot.at(i));
        if (!item) return tl::unexpected(std::move(item).error());
        list.push_back(*std::move(item));
    }
    return list;
}

Result<std::string> read_selector(const Spot& spot) {
    return check_members(spot, {"cel"})
        .and_then([&] { return check_members(spot["cel"], {"expression"}); })
        .and_then([&] { return read_text(spot["cel"]["expression"]); });
}

Result<std::vector<std::pair<std::string, std::string>>> read_capacity(const Spot& spot) {
    std::vector<std::pair<std::string, std::string>> capacity;
    if (spot.view.is_absent()) return capacity;
    if (auto checked = check_members(spot, {"requests"}); !checked) {
        return tl::unexpected(std::move(checked).error());
    }
    const Spot requests = spot["requests"];
    if (requests.view.is_absent()) return capacity;
    if (!requests.view.is_object()) return refuse(requests, "an object is expected");
    for (const base::JsonMember& member : requests.view.members()) {
        auto amount = member.value.scalar_text();
        if (!amount || !parse_quantity(*amount)) {
            return refuse(requests[member.key], "a quantity is expected");
        }
        capacity.emplace_back(member.key, *std::move(amount));
    }
    std::ranges::sort(capacity);
    return capacity;
}

/// The body of a request; `name` is among its members only inside firstAvailable.
Result<DeviceAlternative> read_body(const Spot& spot) {
    DeviceAlternative alternative;
    auto device_class = read_text(spot["deviceClassName"]);
    if (!device_class) return tl::unexpected(std::move(device_class).error());
    alternative.device_class = *std::move(device_class);

    auto selectors = read_list(spot["selectors"], read_selector);
    if (!selectors) return tl::unexpected(std::move(selectors).error());
    alternative.selectors = *std::move(selectors);

    const Spot mode = spot["allocationMode"];
    if (!mode.view.is_absent() && mode.view.as_string() != "ExactCount") {
        return refuse(mode, "only ExactCount is expected");
    }
    if (const Spot count = spot["count"]; !count.view.is_absent()) {
        alternative.count = count.view.as_int().value_or(0);
        if (alternative.count < 1) return refuse(count, "a whole number above 0 is expected");
    }
    auto capacity = read_capacity(spot["capacity"]);
    if (!capacity) return tl::unexpected(std::move(capacity).error());
    alternative.capacity = *std::move(capacity);
    return alternative;
}

Result<DeviceAlternative> read_exact(const Spot& spot) {
    return check_members(spot,
                         {"deviceClassName", "selectors", "allocationMode", "count", "capacity"})
        .and_then([&] { return read_body(spot); });
}

Result<DeviceAlternative> read_alternative(const Spot& spot) {
    auto checked = check_members(
        spot, {"name", "deviceClassName", "selectors", "allocationMode", "count", "capacity"});
    if (!checked) return tl::unexpected(std::move(checked).error());
    auto name = read_text(spot["name"]);
    if (!name) return tl::unexpected(std::move(name).error());
    auto alternative = read_body(spot);
    if (alternative) alternative->name = *std::move(name);
    return alternative;
}

Result<DeviceRequest> read_request(const Spot& spot) {
    auto checked = check_members(spot, {"name", "exactly", "firstAvailable"});
    if (!checked) return tl::unexpected(std::move(checked).error());
    auto name = read_text(spot["name"]);
    if (!name) return tl::unexpected(std::move(name).error());
    DeviceRequest request{.name = *std::move(name), .alternatives = {}};

    const bool is_exact = !spot["exactly"].view.is_absent();
    if (is_exact != spot["firstAvailable"].view.is_absent()) {
        return refuse(spot, "exactly one of exactly and firstAvailable is expected");
    }
    if (is_exact) {
        auto alternative = read_exact(spot["exactly"]);
        if (!alternative) return tl::unexpected(std::move(alternative).error());
        request.alternatives.push_back(*std::move(alternative));
        return request;
    }
    auto alternatives = read_list(spot["firstAvailable"], read_alternative);
    if (!alternatives) return tl::unexpected(std::move(alternatives).error());
    if (alternatives->empty()) return refuse(spot["firstAvailable"], "the list is empty");
    request.alternatives = *std::move(alternatives);
    return request;
}

Result<DeviceConstraint> read_constraint(const Spot& spot) {
    auto checked = check_members(spot, {"requests", "matchAttribute", "distinctAttribute"});
    if (!checked) return tl::unexpected(std::move(checked).error());
    DeviceConstraint constraint;
    auto requests = read_list(spot["requests"], read_text);
    if (!requests) return tl::unexpected(std::move(requests).error());
    constraint.requests = *std::move(requests);

    const bool matches = !spot["matchAttribute"].view.is_absent();
    if (matches != spot["distinctAttribute"].view.is_absent()) {
        return refuse(spot, "exactly one of matchAttribute and distinctAttribute is expected");
    }
    auto attribute = read_text(spot[matches ? "matchAttribute" : "distinctAttribute"]);
    if (!attribute) return tl::unexpected(std::move(attribute).error());
    (matches ? constraint.match_attribute : constraint.distinct_attribute) = *std::move(attribute);
    return constraint;
}

Result<OpaqueConfig> read_config(const Spot& spot) {
    auto checked = check_members(spot, {"requests", "opaque"}).and_then([&] {
        return check_members(spot["opaque"], {"driver", "parameters"});
    });
    if (!checked) return tl::unexpected(std::move(checked).error());
    OpaqueConfig config;
    auto requests = read_list(spot["requests"], read_text);
    if (!requests) return tl::unexpected(std::move(requests).error());
    config.requests = *std::move(requests);
    auto driver = read_text(spot["opaque"]["driver"]);
    if (!driver) return tl::unexpected(std::move(driver).error());
    config.driver = *std::move(driver);
    const Spot parameters = spot["opaque"]["parameters"];
    if (!parameters.view.is_object()) return refuse(parameters, "an object is expected");
    config.parameters = parameters.view.to_json();
    return config;
}

}  // namespace

Result<ClaimSpec> claim_spec_from_json(JsonView devices) {
    const Spot spot{devices, PointerPath("/spec/spec/devices")};
    auto checked = check_members(spot, {"requests", "constraints", "config"});
    if (!checked) return tl::unexpected(std::move(checked).error());
    auto requests = read_list(spot["requests"], read_request);
    if (!requests) return tl::unexpected(std::move(requests).error());
    auto constraints = read_list(spot["constraints"], read_constraint);
    if (!constraints) return tl::unexpected(std::move(constraints).error());
    auto config = read_list(spot["config"], read_config);
    if (!config) return tl::unexpected(std::move(config).error());
    return ClaimSpec{.requests = *std::move(requests),
                     .constraints = *std::move(constraints),
                     .config = *std::move(config)};
}

}  // namespace drawbridge::kube
