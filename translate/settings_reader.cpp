#include "translate/settings_reader.hpp"

#include "base/text.hpp"
#include "kube/quantity.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace drawbridge::translate {
namespace {

std::string_view name_of(base::JsonKind kind) {
    switch (kind) {
        case base::JsonKind::missing:
        case base::JsonKind::null:
            return "nothing";
        case base::JsonKind::boolean:
            return "true or false";
        case base::JsonKind::number:
            return "a number";
        case base::JsonKind::string:
            return "a text";
        case base::JsonKind::array:
            return "a list";
        case base::JsonKind::object:
            return "an object";
    }
    return "something else";
}

/// What stands there, for a person: a scalar as written, anything longer by its kind.
std::string found_at(base::JsonView value) {
    if (const auto text = value.as_string()) return shown(*text);
    const auto scalar = value.scalar_text();
    return scalar ? base::shortened(*scalar, 80) : std::string(name_of(value.kind()));
}

std::string wrong_kind(base::JsonView found, base::JsonKind wanted) {
    return fmt::format("must be {}, found {}", name_of(wanted), found_at(found));
}

/// The bytes of a memory size, or what is wrong with it.
base::Result<std::int64_t> memory_size(base::JsonView value) {
    const auto text = value.scalar_text();
    if (!text) {
        return base::fail(base::ErrorKind::invalid_input,
                          fmt::format("must be a quantity, like 80Gi, found {}", found_at(value)));
    }
    const auto quantity = kube::parse_quantity(*text);
    if (!quantity) {
        return base::fail(
            base::ErrorKind::invalid_input,
            fmt::format("{} is no quantity: {}", shown(*text), quantity.error().message));
    }
    const auto bytes = quantity->whole();
    const auto [min, max] = rules::memory_size_bytes;
    if (!bytes || *bytes < min || *bytes > max) {
        return base::fail(
            base::ErrorKind::invalid_input,
            fmt::format("must be a whole number of bytes from 1Mi to 1Pi, like 80Gi, found {}",
                        shown(*text)));
    }
    return *bytes;
}

template <class T>
bool contains(const std::vector<T>& values, const T& value) {
    return std::find(values.begin(), values.end(), value) != values.end();
}

}  // namespace

std::string FieldReader::place_of(std::string_view key) const {
    return fmt::format("{}/{}", frames_.back().place, key);
}

base::JsonView FieldReader::member(std::string_view key) {
    frames_.back().known.push_back(key);
    return frames_.back().object[key];
}

bool FieldReader::expect(base::JsonView value, base::JsonKind kind, std::string_view place,
                         std::size_t max) {
    if (value.kind() != kind) {
        problems_.add(place, wrong_kind(value, kind));
        return false;
    }
    const std::size_t count =
        kind == base::JsonKind::object ? value.members().size() : value.size();
    if (count > max) {
        problems_.add(place, fmt::format("has {} entries; at most {} are allowed", count, max));
        return false;
    }
    return true;
}

std::optional<std::string> FieldReader::checked(base::JsonView value, std::string_view place,
                                                const TextRule& rule) {
    const auto found = value.as_string();
    if (!found) {
        problems_.add(place, wrong_kind(value, base::JsonKind::string));
        return std::nullopt;
    }
    if (!rule.holds(*found)) {
        problems_.add(place, fmt::format("must be {}, found {}", rule.description, shown(*found)));
        return std::nullopt;
    }
    return std::string(*found);
}

void FieldReader::report_unknown() {
    const Frame& frame = frames_.back();
    for (const auto& [key, value] : frame.object.members()) {
        if (std::find(frame.known.begin(), frame.known.end(), key) == frame.known.end()) {
            problems_.add(fmt::format("{}/{}", frame.place, pointer_token(key)),
                          unknown_name("key", key, frame.known));
        }
    }
}

void FieldReader::text(std::string_view key, std::string& field, const TextRule& rule) {
    const base::JsonView value = member(key);
    if (value.is_absent()) return;
    if (auto found = checked(value, place_of(key), rule)) field = std::move(*found);
}

void FieldReader::texts(std::string_view key, std::vector<std::string>& field,
                        const TextRule& rule) {
    const base::JsonView list = member(key);
    if (list.is_absent() || !expect(list, base::JsonKind::array, place_of(key))) return;
    std::vector<std::string> values;
    for (std::size_t i = 0; i < list.size(); ++i) {
        const std::string place = fmt::format("{}/{}", place_of(key), i);
        auto found = checked(list.at(i), place, rule);
        if (!found) continue;
        if (contains(values, *found))
            problems_.add(place, fmt::format("{} is listed twice", shown(*found)));
        values.push_back(std::move(*found));
    }
    field = std::move(values);
}

void FieldReader::read_mode(std::string_view name, base::JsonView value,
                            std::map<std::string, ModeTarget>& modes) {
    ModeTarget mode;
    if (value.is_object()) {
        section(name, [&] { visit_mode(*this, mode); });
        if (value["deviceClass"].is_absent())
            problems_.add(place_of(name), "deviceClass is missing");
    } else {
        text(name, mode.device_class, rules::object_name);
        if (value.is_absent())
            problems_.add(place_of(name), "must be a device class, or an object with deviceClass");
    }
    modes.emplace(name, std::move(mode));
}

void FieldReader::modes(std::string_view key, std::map<std::string, ModeTarget>& field) {
    std::map<std::string, ModeTarget> modes;
    const base::JsonView object = frames_.back().object[key];
    section(key, [&] {
        for (const auto& [name, value] : object.members()) {
            if (rules::device_mode.holds(name)) {
                read_mode(name, value, modes);
            } else {
                skip(name);
                problems_.add(place_of(pointer_token(name)),
                              fmt::format("a mode is {}; hami-core is the driver's own",
                                          rules::device_mode.description));
            }
        }
    });
    if (object.is_object()) field = std::move(modes);
}

void FieldReader::integer(std::string_view key, std::int64_t& field, const IntegerRule& rule) {
    const base::JsonView value = member(key);
    if (value.is_absent()) return;
    const auto found = value.as_int();
    if (value.kind() != base::JsonKind::number) {
        problems_.add(place_of(key), wrong_kind(value, base::JsonKind::number));
    } else if (!found || *found < rule.min || *found > rule.max) {
        problems_.add(place_of(key),
                      fmt::format("must be a whole number from {} to {}, found {}", rule.min,
                                  rule.max, value.to_json().substr(0, 40)));
    } else {
        field = *found;
    }
}

void FieldReader::boolean(std::string_view key, bool& field) {
    const base::JsonView value = member(key);
    if (value.is_absent() || !expect(value, base::JsonKind::boolean, place_of(key))) return;
    field = value.as_bool().value_or(field);
}

void FieldReader::labels(std::string_view key,
                         std::set<std::pair<std::string, std::string>>& field) {
    const base::JsonView object = member(key);
    if (object.is_absent() || !expect(object, base::JsonKind::object, place_of(key))) return;
    std::set<std::pair<std::string, std::string>> labels;
    for (const auto& [name, value] : object.members()) {
        const std::string place = fmt::format("{}/{}", place_of(key), pointer_token(name));
        if (!rules::label_name.holds(name)) {
            problems_.add(place, fmt::format("the key must be {}, found {}",
                                             rules::label_name.description, shown(name)));
        }
        if (!value.is_array()) {
            if (auto found = checked(value, place, rules::label_value))
                labels.emplace(name, std::move(*found));
            continue;
        }
        if (!expect(value, base::JsonKind::array, place)) continue;
        if (value.size() == 0) problems_.add(place, "must name at least one value");
        for (std::size_t i = 0; i < value.size(); ++i) {
            auto found = checked(value.at(i), fmt::format("{}/{}", place, i), rules::label_value);
            if (found) labels.emplace(name, std::move(*found));
        }
    }
    field = std::move(labels);
}

void FieldReader::sizes(std::string_view key, std::vector<std::int64_t>& field) {
    const base::JsonView list = member(key);
    if (list.is_absent() ||
        !expect(list, base::JsonKind::array, place_of(key), rules::max_memory_sizes))
        return;
    std::vector<std::int64_t> values;
    for (std::size_t i = 0; i < list.size(); ++i) {
        const std::string place = fmt::format("{}/{}", place_of(key), i);
        const auto bytes = memory_size(list.at(i));
        if (!bytes) {
            problems_.add(place, bytes.error().message);
        } else if (contains(values, *bytes)) {
            problems_.add(place, fmt::format("{} bytes are listed twice", *bytes));
        } else {
            values.push_back(*bytes);
        }
    }
    std::sort(values.begin(), values.end());
    field = std::move(values);
}

void FieldReader::read_workload(base::JsonView value, const std::string& place,
                                std::vector<WorkloadKind>& workloads) {
    WorkloadKind workload;
    frames_.push_back({value, place, {}});
    text("apiGroup", workload.api_group, rules::api_group_or_core);
    text("kind", workload.kind, rules::kind_name);
    texts("paths", workload.pod_template_paths, rules::pod_template_path);
    report_unknown();
    frames_.pop_back();
    if (value["kind"].is_absent()) problems_.add(place, "kind is missing");
    const base::JsonView paths = value["paths"];
    if (paths.is_absent() || (paths.is_array() && paths.size() == 0)) {
        problems_.add(place, "paths must name at least one JSON pointer to a pod template");
    } else if (paths.size() > rules::max_workload_paths) {
        problems_.add(place,
                      fmt::format("at most {} paths are allowed", rules::max_workload_paths));
    }
    const auto same_kind = [&](const WorkloadKind& other) {
        return other.api_group == workload.api_group && other.kind == workload.kind;
    };
    if (!workload.kind.empty() && std::any_of(workloads.begin(), workloads.end(), same_kind)) {
        problems_.add(place, fmt::format("kind {} is listed twice; put all its paths in one entry",
                                         shown(workload.kind)));
    }
    workloads.push_back(std::move(workload));
}

void FieldReader::workloads(std::string_view key, std::vector<WorkloadKind>& field) {
    const base::JsonView list = member(key);
    if (list.is_absent() ||
        !expect(list, base::JsonKind::array, place_of(key), rules::max_workloads))
        return;
    std::vector<WorkloadKind> workloads;
    for (std::size_t i = 0; i < list.size(); ++i) {
        const std::string place = fmt::format("{}/{}", place_of(key), i);
        if (expect(list.at(i), base::JsonKind::object, place))
            read_workload(list.at(i), place, workloads);
    }
    field = std::move(workloads);
}

}  // namespace drawbridge::translate
