#include "translate/cluster_facts.hpp"

#include "kube/fleet.hpp"
#include "kube/json_patch.hpp"
#include "kube/manifest.hpp"
#include "kube/quantity.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace drawbridge::translate {

namespace {

using base::ErrorKind;
using base::fail;

constexpr base::JsonLimits file_limits{64U << 20U, 128, 10'000'000};

/// A number at the start of `text`, which it is taken from.
bool take_number(std::string_view& text, int& number) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc() || number < 0) return false;
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    return true;
}

base::Result<void> put_slice(base::JsonView object, const Target& target, kube::Fleet& fleet) {
    if (object["kind"].string_or("") != "ResourceSlice") return {};
    if (object["spec"]["driver"].string_or("") != target.driver) return {};
    auto facts = kube::read_slice(object, target.memory_capacity);
    if (!facts) return tl::unexpected(facts.error());
    fleet.put(object["metadata"]["name"].string_or(""), std::move(*facts));
    return {};
}

base::Result<void> put_document(const kube::Manifest& manifest, const Target& target,
                                kube::Fleet& fleet) {
    const auto document = base::parse_json(manifest.json, file_limits);
    if (!document) return tl::unexpected(document.error());
    const base::JsonView root = document->root();
    const base::JsonView items = root["items"];
    if (!root["kind"].string_or("").ends_with("List")) return put_slice(root, target, fleet);
    for (std::size_t index = 0; index < items.size(); ++index) {
        auto put = put_slice(items.at(index), target, fleet);
        if (put) continue;
        put.error().path = (kube::PointerPath() / "items" / index).text() + put.error().path;
        return put;
    }
    return {};
}

}  // namespace

base::Result<int> parse_kubernetes_version(std::string_view text) {
    std::string_view rest = text;
    if (rest.starts_with('v')) rest.remove_prefix(1);
    int major = 0;
    int minor = 0;
    bool good = take_number(rest, major) && rest.starts_with('.');
    if (good) rest.remove_prefix(1);
    good = good && take_number(rest, minor);
    if (good && !rest.empty())
        good = rest.front() == '.' || rest.front() == '+' || rest.front() == '-';
    if (!good || major != 1) {
        return fail(ErrorKind::invalid_input,
                    fmt::format("\"{}\" is no Kubernetes version; write 1.36 or v1.36.3", text));
    }
    return minor;
}

base::Result<std::vector<std::int64_t>> parse_memory_sizes(std::string_view text) {
    constexpr std::int64_t mib = 1 << 20;
    std::vector<std::int64_t> sizes;
    for (std::string_view rest = text;;) {
        const auto comma = rest.find(',');
        const std::string_view item = rest.substr(0, comma);
        const auto quantity = kube::parse_quantity(item);
        const auto bytes = quantity ? quantity->whole() : std::nullopt;
        if (!bytes || *bytes < mib || *bytes % mib != 0) {
            return fail(ErrorKind::invalid_input,
                        fmt::format("\"{}\" is no memory size of a device; write whole MiB, for "
                                    "example 24Gi or 81251Mi",
                                    item));
        }
        sizes.push_back(*bytes);
        if (comma == std::string_view::npos) break;
        rest.remove_prefix(comma + 1);
    }
    std::ranges::sort(sizes);
    sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
    return sizes;
}

base::Result<std::vector<std::int64_t>> read_fleet(std::string_view text, const Target& target) {
    const auto manifests = kube::read_manifests(text, file_limits);
    if (!manifests) return tl::unexpected(manifests.error());
    kube::Fleet fleet;
    for (const kube::Manifest& manifest : *manifests) {
        if (auto put = put_document(manifest, target, fleet); !put) {
            return tl::unexpected(put.error());
        }
    }
    if (!fleet.has_driver(target.driver)) {
        return fail(ErrorKind::not_found,
                    fmt::format("no ResourceSlice of driver {} is in it", target.driver));
    }
    auto sizes = fleet.memory_sizes(target.driver);
    if (sizes.empty()) {
        return fail(ErrorKind::not_found,
                    fmt::format("the ResourceSlices of driver {} tell no memory size: no pool of "
                                "theirs is complete (resourceSliceCount), or no device has the "
                                "capacity {}",
                                target.driver, target.memory_capacity));
    }
    return sizes;
}

base::Result<Settings> read_settings_text(std::string_view text) {
    const auto manifests = kube::read_manifests(text);
    if (!manifests) return tl::unexpected(manifests.error());
    if (manifests->size() != 1) {
        return fail(
            ErrorKind::invalid_input,
            fmt::format("settings are one document, and {} are in the file", manifests->size()));
    }
    const auto document = base::parse_json(manifests->front().json);
    if (!document) return tl::unexpected(document.error());
    return read_settings(document->root());
}

}  // namespace drawbridge::translate
