#pragma once
// The disk as the agent uses it: a seam, so that tests can let every step of it fail.

#include "base/result.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <vector>

namespace drawbridge::agent {

/// durable: replaced as a whole, and still there after a power cut once the call has ended.
/// whole: a power cut leaves what was there before or what is there now, and not a part of it.
/// atomic: replaced as a whole, but not waited for; for what a reboot makes worthless.
enum class WriteHow { durable, whole, atomic };

/// What becomes of the files in a folder. One thread at a time.
class FolderWatch {
public:
    virtual ~FolderWatch() = default;
    /// Names in the folder that may have come, changed or gone since the last call, whoever did it:
    /// each change that was made before this call is told by it. Nothing at the first call, and
    /// where anything may have changed.
    [[nodiscard]] virtual std::optional<std::set<std::string>> changed() = 0;
};

/// A file that is written and synced, and that nobody sees yet. It is gone with this.
class Staged {
public:
    virtual ~Staged() = default;
    /// Puts it where it belongs, without waiting for the disk.
    [[nodiscard]] virtual base::Result<void> commit() = 0;
};

/// Another one for each file that was ever at a path, and for each content, but for what changes
/// twice within a tick of the file system's clock (milliseconds).
struct FileStamp {
    std::uint64_t device = 0;
    std::uint64_t inode = 0;
    std::int64_t size = 0;
    std::int64_t modified_ns = 0;
    std::int64_t changed_ns = 0;

    [[nodiscard]] bool operator==(const FileStamp&) const = default;
};

/// All of it blocks. Paths are absolute.
class Files {
public:
    virtual ~Files() = default;
    /// Writes a file; its folder is made where it is missing (mode 0711).
    [[nodiscard]] virtual base::Result<void> write(const std::string& path, std::string_view text,
                                                   WriteHow how, mode_t mode) = 0;
    /// `write` of kind `whole` in two steps: all that waits for the disk comes before the second.
    [[nodiscard]] virtual base::Result<std::unique_ptr<Staged>> stage(const std::string& path,
                                                                      std::string_view text,
                                                                      mode_t mode) = 0;
    /// Overwrites bytes inside a file that others have mapped. They see them, and those of the next
    /// call behind them.
    [[nodiscard]] virtual base::Result<void> patch(const std::string& path, std::size_t offset,
                                                   std::string_view bytes) = 0;
    /// The content of a file, of at most `max_bytes`; `not_found` where there is none. A pipe or a
    /// device is refused: it would hold the reader.
    [[nodiscard]] virtual base::Result<std::string> read(const std::string& path,
                                                         std::size_t max_bytes) = 0;
    /// Nothing where there is none.
    [[nodiscard]] virtual std::optional<FileStamp> stamp(const std::string& path) = 0;
    /// Watches a folder, which may come later. The files outlive the watch.
    [[nodiscard]] virtual std::unique_ptr<FolderWatch> watch(const std::string& folder) = 0;
    /// Removes a file, or a folder with the files in it. What is not there is removed already.
    [[nodiscard]] virtual base::Result<void> remove(const std::string& path) = 0;
    /// The names in a folder, sorted; none where it is missing.
    [[nodiscard]] virtual base::Result<std::vector<std::string>> list(const std::string& path) = 0;
};

/// The file system.
class DiskFiles final : public Files {
public:
    [[nodiscard]] base::Result<void> write(const std::string& path, std::string_view text,
                                           WriteHow how, mode_t mode) override;
    [[nodiscard]] base::Result<std::unique_ptr<Staged>> stage(const std::string& path,
                                                              std::string_view text,
                                                              mode_t mode) override;
    [[nodiscard]] base::Result<void> patch(const std::string& path, std::size_t offset,
                                           std::string_view bytes) override;
    [[nodiscard]] base::Result<std::string> read(const std::string& path,
                                                 std::size_t max_bytes) override;
    [[nodiscard]] std::optional<FileStamp> stamp(const std::string& path) override;
    [[nodiscard]] std::unique_ptr<FolderWatch> watch(const std::string& folder) override;
    [[nodiscard]] base::Result<void> remove(const std::string& path) override;
    [[nodiscard]] base::Result<std::vector<std::string>> list(const std::string& path) override;
};

}  // namespace drawbridge::agent
