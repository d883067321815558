#pragma once
// Tells which files of a folder have changed, by inotify: whoever keeps what he has read of many
// files reads again those alone.

#include "agent/files.hpp"
#include "base/descriptor.hpp"

#include <cstdint>
#include <optional>
#include <set>
#include <string>

namespace drawbridge::agent {

/// Where the kernel cannot watch, anything may have changed, always.
class InotifyFolderWatch final : public FolderWatch {
public:
    explicit InotifyFolderWatch(std::string folder);

    [[nodiscard]] std::optional<std::set<std::string>> changed() override;

private:
    void take_event(std::uint32_t mask, const char* name, std::set<std::string>& names);

    std::string folder_;
    base::Descriptor inotify_;
    int watch_ = -1;
    bool complete_ = false;  ///< all changes since the last call are told
};

}  // namespace drawbridge::agent
