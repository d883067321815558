#pragma once
// Looks at the devices and the settings again and again, and tells what the node offers now.

#include "agent/device/inventory.hpp"
#include "agent/files.hpp"
#include "agent/prepare/prepare_flow.hpp"
#include "agent/process/options.hpp"
#include "agent/source/device_source.hpp"
#include "base/result.hpp"

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace drawbridge::agent {

/// What shows the node's devices: a file, where one is given, or NVML.
[[nodiscard]] std::unique_ptr<DeviceSource> make_source(const SourceOptions& from,
                                                        const PathOptions& paths);

/// Where a node's offers come from and where what was published is remembered.
struct DeviceWatchParts {
    DeviceSource& source;
    Files& files;
    PrepareFlow& flow;
    std::string node;
    std::string settings;  ///< file, or a folder of them, which may be empty; empty: defaults
    std::string sizes;     ///< file that remembers published sizes
};

/// All calls from one thread at a time; they block.
class DeviceWatch {
public:
    explicit DeviceWatch(DeviceWatchParts parts) : parts_(std::move(parts)) {}

    /// Reads everything anew, and works out what of it has changed. What is wrong with a file keeps
    /// what was there before, and is told as trouble; an error means that nothing was ever known.
    [[nodiscard]] base::Result<Inventory> look();
    /// The administrator's rules as they were read last; nothing before they ever were.
    [[nodiscard]] std::optional<ShareRules> rules() const {
        if (!settings_) return std::nullopt;
        return settings_->rules;
    }
    /// Whether new claims get the front, as the settings were read last; not before they ever were.
    [[nodiscard]] bool replace_libcuda() const { return settings_ && settings_->replace_libcuda; }
    /// What is wrong; empty: nothing.
    [[nodiscard]] const std::string& trouble() const { return trouble_; }

private:
    using Texts = std::vector<std::pair<std::string, std::string>>;  ///< by file

    base::Result<void> read_settings();
    base::Result<Texts> read_texts();
    base::Result<Inventory> make(std::vector<Device> devices, const ClaimRecords& records);
    [[nodiscard]] PublishedSizes remembered();
    void remember(const PublishedSizes& sizes);

    DeviceWatchParts parts_;
    std::optional<Inventory> last_;
    std::optional<NodeSettings> settings_;
    Texts texts_;  ///< that `settings_` were read from
    std::optional<PublishedSizes> sizes_;
    bool is_kept_ = true;  ///< whether the file has `sizes_`
    std::string trouble_;

    /// What the last look went by, if that settled something: to look again at the same changes
    /// nothing.
    struct Seen {
        NodeSettings settings;
        std::vector<Device> devices;
        ClaimRecords records;
    };
    std::optional<Seen> seen_;
};

}  // namespace drawbridge::agent
