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

/// A folder is what a ConfigMap is mounted as: a file for each of its keys, beside hidden ones of
/// the kubelet's; none where the ConfigMap is not there.
Result<DeviceWatch::Texts> DeviceWatch::read_texts() {
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
    Texts texts;
    for (std::string& file : files) {
        auto text = parts_.files.read(file, max_file);
        if (!text) return base::fail(text.error().kind, text_of(text.error(), file));
        texts.emplace_back(std::move(file), *std::move(text));
    }
    return texts;
}

Result<void> DeviceWatch::read_settings() {
    auto texts = read_texts();
    if (!texts) return tl::unexpected(texts.error());
    if (settings_ && *texts == texts_) return {};
    NodeSettings settings;
    for (const auto& [file, text] : *texts) {
        if (const auto read = add_node_settings(settings, text, parts_.node); !read)
            return base::fail(read.error().kind, text_of(read.error(), file));
    }
    settings_ = std::move(settings);
    texts_ = *std::move(texts);
    return {};
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

Result<Inventory> DeviceWatch::make(std::vector<Device> devices, const ClaimRecords& records) {
    auto all = with_lost(std::move(devices), last_.value_or(Inventory()), records);
    const auto sizes = with_committed(*sizes_, *settings_, all, records);
    auto made = Inventory::make(std::move(all), *settings_, sizes);
    if (made) remember(made->sizes());
    return made;
}

Result<Inventory> DeviceWatch::look() {
    trouble_.clear();
    if (!sizes_) sizes_ = remembered();
    if (const auto read = read_settings(); !read) {
        trouble_ = read.error().message;
        if (!settings_) return tl::unexpected(read.error());
    }
    auto devices = parts_.source.read();
    if (!devices) {
        trouble_ = text_of(devices.error(), parts_.source.name());
        if (!last_) return tl::unexpected(devices.error());
        return *last_;
    }
    const auto stored = parts_.flow.stored();
    const ClaimRecords records = stored ? stored->records : ClaimRecords();
    const bool same = seen_ && seen_->settings == *settings_ && seen_->devices == *devices &&
                      seen_->records.are_those(records);
    if (same && last_) return *last_;
    auto made = make(*devices, records);
    if (!made) return made;
    // What is lost is told by what was known: the second look at the same may differ, no later one.
    seen_.reset();
    if (last_ == *made && is_kept_) seen_ = {*settings_, *std::move(devices), records};
    last_ = *made;
    return made;
}

}  // namespace drawbridge::agent
