#include "agent/cdi/toolkit_files.hpp"

#include "agent/cdi/driver_files.hpp"
#include "agent/cdi/driver_places.hpp"
#include "base/atomic_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <system_error>

namespace drawbridge::agent {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t max_file = 1U << 20U;

/// The paths of the CDI files in a folder that are not ours, in the order of their names.
std::set<std::string> foreign_files(const std::string& folder) {
    std::set<std::string> paths;
    std::error_code failure;
    for (const auto& entry : fs::directory_iterator(folder, failure)) {
        const std::string name = entry.path().filename().string();
        const bool is_cdi = name.ends_with(".json") || name.ends_with(".yaml");
        if (is_cdi && !claim_of_cdi_file(name)) paths.insert(entry.path().string());
    }
    return paths;
}

base::Result<std::optional<CdiSpec>> read_spec(const std::string& path) {
    const auto text = base::read_regular_file(path, max_file);
    if (!text) return std::nullopt;
    return read_toolkit_spec(*text);
}

}  // namespace

void ToolkitFiles::read_changed() {
    std::vector<std::pair<std::string, File>> now;
    for (const std::string& folder : folders_) {
        for (const std::string& path : foreign_files(folder)) {
            std::error_code failure;
            File file{.time = fs::last_write_time(path, failure)};
            if (!failure) file.size = fs::file_size(path, failure);
            if (failure) continue;
            const auto known =
                std::ranges::find(files_, path, [](const auto& f) { return f.first; });
            const bool is_same = known != files_.end() && known->second.time == file.time &&
                                 known->second.size == file.size;
            file.spec = is_same ? std::move(known->second.spec) : read_spec(path);
            now.emplace_back(path, std::move(file));
        }
    }
    files_ = std::move(now);
}

/// Why containers cannot be given the edits; empty: they can.
std::string ToolkitFiles::unfit(const DriverEdits& edits, std::string_view version,
                                const std::vector<Device>& devices) const {
    OwnNodes own;
    for (const Device& device : devices) {
        for (const DeviceNode& node : device.device_nodes)
            own[device.uuid].insert(node.path);
        for (std::string& node : graphics_nodes(device.place.pci_bus_id, host_root_))
            own[device.uuid].insert(std::move(node));
    }
    if (std::string reason = misfit(edits, version, own); !reason.empty()) return reason;
    for (const std::string& file : needed_files(edits, devices))
        if (!in_root(host_root_, file)) return fmt::format("it names {}, which is not there", file);
    return {};
}

ToolkitAnswer ToolkitFiles::look(std::string_view version, const std::vector<Device>& devices) {
    read_changed();
    ToolkitAnswer answer;
    for (const auto& [path, file] : files_) {
        if (file.spec && !*file.spec) continue;
        DriverEdits edits;
        if (file.spec) edits = toolkit_edits(**file.spec, devices);
        const std::string reason =
            file.spec ? unfit(edits, version, devices)
                      : fmt::format("{}: {}", file.spec.error().path, file.spec.error().message);
        if (reason.empty()) {
            answer.edits = std::move(edits);
            return answer;
        }
        answer.remarks.push_back(
            fmt::format("{} is not used: {}. Make it anew: nvidia-ctk cdi generate --output={}",
                        path, reason, path));
    }
    return answer;
}

}  // namespace drawbridge::agent
