#pragma once
// The folders with the two files of each share.

#include "agent/files.hpp"
#include "agent/share/share_pages.hpp"
#include "base/result.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace drawbridge::agent {

class ShareFolders {
public:
    ShareFolders(Files& files, std::string folder) : files_(files), folder_(std::move(folder)) {}

    /// Makes what is missing of a share's folder. Files that are there stay where they are, since a
    /// container may be running on them: a ledger is never touched, limits are changed in place. A
    /// folder of an earlier boot is removed before.
    [[nodiscard]] base::Result<void> create(const std::string& name, const ShareLimits& limits);
    /// Changes limits under a running container, where they are others, are damaged or an earlier
    /// change was left half done; says whether they were. Under the claim's lock: there is one
    /// writer. `unavailable`: limits in another version of the layout.
    [[nodiscard]] base::Result<bool> change(const std::string& name, const ShareLimits& limits);
    [[nodiscard]] base::Result<void> remove(const std::string& name);
    /// Names of all folders.
    [[nodiscard]] base::Result<std::vector<std::string>> list() const;
    /// Of its limits' file; nothing where that is missing.
    [[nodiscard]] std::optional<FileStamp> limits_stamp(const std::string& name) const;
    [[nodiscard]] base::Result<ReadLimits> limits(const std::string& name) const;
    [[nodiscard]] const std::string& folder() const { return folder_; }

    /// Path of a file of a share.
    [[nodiscard]] std::string path(const std::string& name, std::string_view file) const;

private:
    base::Result<void> write_limits(const std::string& name, const ShareLimits& limits);
    base::Result<void> patch(const std::string& file, std::uint64_t generation, std::size_t offset,
                             std::string_view bytes);

    Files& files_;
    std::string folder_;
};

}  // namespace drawbridge::agent
