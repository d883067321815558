#pragma once
// Tells which files of a folder have changed, by inotify: whoever keeps what he has read of many
// files reads again those alone.

#include "agent/files.hpp"
#include "base/descriptor.hpp"

#include <optional>
#include <set>
#include <string>
#include <utility>

namespace drawbridge::agent {

/// Where the kernel cannot watch, anything may have changed, always.
class InotifyFolderWatch final : public FolderWatch {
public:
    explicit InotifyFolderWatch(std::string folder) : folder_(std::move(folder)) {}

    [[nodiscard]] std::optional<std::set<std::string>> changed() override;

private:
    bool follow_path();
    bool take_events(std::set<std::string>& names);

    std::string folder_;
    base::Descriptor inotify_;
    int watch_ = -1;
};

}  // namespace drawbridge::agent
