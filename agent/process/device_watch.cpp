#include "agent/process/device_watch.hpp"

#include "agent/json_reader.hpp"
#include "agent/prepare/inventory_keep.hpp"
#include "base/json.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <utility>

namespace drawbridge::agent {
namespace {

using base::Result;

constexpr std::size_t max_file = 1U << 20U;
constexpr mode_t file_mode = 0600;

std::string text_of(const base::Error& error, std::string_view file) {
    const std::string place = error.path.empty() ? "" : fmt::format("{}: ", error.path);
    return fmt::format("{}: {}{}", file, place, error.message);
}

}  // namespace

std::unique_ptr<DeviceSource> make_source(const SourceOptions& from, const PathOptions& paths) {
    if (!from.devices.empty()) return make_file_source(from.devices);
    DriverPlaces places = driver_places(from.host_root, {from.driver_root, from.driver_root_host});
    places.cdi_folders = {paths.cdi, paths.static_cdi};
    return make_nvml_source(std::move(places));
}

Result<void> DeviceWatch::add_settings(NodeSettings& settings, const std::string& file) {
    const auto text = parts_.files.read(file, max_file);
    const auto read = text ? add_node_settings(settings, *text, parts_.node)
                           : Result<void>(tl::unexpected(text.error()));
    if (read) return read;
    return base::fail(read.error().kind, text_of(read.error(), file));
}

/// A folder is what a ConfigMap is mounted as: a file for each of its keys, beside hidden ones of
/// the kubelet's; none where the ConfigMap is not there.
Result<NodeSettings> DeviceWatch::read_settings() {
    std::error_code failure;
    std::vector<std::string> files;
    if (!std::filesystem::is_directory(parts_.settings, failure)) {
        if (!parts_.settings.empty()) files = {parts_.settings};
    } else if (auto names = parts_.files.list(parts_.settings)) {
        std::erase_if(*names, [](const std::string& name) { return name.starts_with('.'); });
        for (const std::string& name : *names)
            files.push_back(fmt::format("{}/{}", parts_.settings, name));
    } else {
        return tl::unexpected(names.error());
    }
    NodeSettings settings;
    for (const std::string& file : files) {
        if (auto added = add_settings(settings, file); !added) return tl::unexpected(added.error());
    }
    return settings;
}

PublishedSizes DeviceWatch::remembered() {
    PublishedSizes sizes;
    const auto text = parts_.files.read(parts_.sizes, max_file);
    const auto document = base::parse_json(text.value_or("{}"));
    if (!document) return sizes;
    JsonReader reader;
    const Spot root{document->root()};
    for (const base::JsonMember& member : root.view.members())
        sizes.emplace(member.key, reader.whole(root[member.key], {1, std::int64_t{1} << 50}));
    return reader.ok() ? sizes : PublishedSizes();
}

void DeviceWatch::remember(const PublishedSizes& sizes) {
    PublishedSizes all = *sizes_;
    for (const auto& [uuid, bytes] : sizes)
        all[uuid] = bytes;
    if (all != *sizes_) is_kept_ = false;
    sizes_ = std::move(all);
    if (is_kept_) return;
    base::JsonWriter out;
    out.begin_object();
    for (const auto& [uuid, bytes] : *sizes_)
        out.key(uuid).integer(bytes);
    out.end_object();
    const auto written =
        parts_.files.write(parts_.sizes, out.take() + "\n", WriteHow::durable, file_mode);
    if (!written) trouble_ = text_of(written.error(), "published sizes");
    is_kept_ = written.has_value();
}

Result<Inventory> DeviceWatch::look() {
    trouble_.clear();
    if (!sizes_) sizes_ = remembered();
    auto settings = read_settings();
    if (settings) {
        settings_ = *std::move(settings);
    } else {
        trouble_ = settings.error().message;
        if (!settings_) return tl::unexpected(settings.error());
    }
    auto devices = parts_.source.read();
    if (!devices) {
        trouble_ = text_of(devices.error(), parts_.source.name());
        if (!last_) return tl::unexpected(devices.error());
        return *last_;
    }
    const auto stored = parts_.flow.stored();
    const ClaimRecords records = stored ? stored->records : ClaimRecords();
    auto all = with_lost(*std::move(devices), last_.value_or(Inventory()), records);
    const auto sizes = with_committed(*sizes_, *settings_, all, records);
    auto made = Inventory::make(std::move(all), *settings_, sizes);
    if (!made) return made;
    remember(made->sizes());
    last_ = *made;
    return made;
}

}  // namespace drawbridge::agent
