#pragma once
// Files read whole within a limit, and written so that a reader sees the old or the new content.

#include "base/result.hpp"

#include <cstddef>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <utility>

namespace drawbridge::base {

/// What of a write waits for the disk. to_disk: all of it. content: what is in the new file, so
/// that a power cut leaves the old file or the new one. none: for files that a power cut may take.
enum class Sync { to_disk, content, none };

/// How the name of a file begins that is not whole yet. A process that is killed leaves it.
inline constexpr std::string_view temporary_prefix = ".drawbridge-";

/// Replaces the file at `path`: a new file in the same folder, synced, renamed, the folder synced.
/// `mode` are its permissions, whatever the umask. On failure the old file stays and no other is
/// left behind. Blocks.
[[nodiscard]] Result<void> write_file_atomically(const std::string& path, std::string_view text,
                                                 mode_t mode = 0644, Sync sync = Sync::to_disk);

/// A file that has been written and synced beside the place that it is for. Until it is put there
/// nobody sees it; without that it is removed. Blocks.
class StagedFile {
public:
    [[nodiscard]] static Result<StagedFile> create(std::string path, std::string_view text,
                                                   mode_t mode, Sync sync = Sync::content);
    StagedFile(StagedFile&& other) noexcept;
    StagedFile& operator=(StagedFile&&) = delete;
    ~StagedFile();

    /// Replaces what lies at the path; does not wait for the disk.
    [[nodiscard]] Result<void> commit();

private:
    StagedFile(std::string path, std::string temporary)
        : path_(std::move(path)), temporary_(std::move(temporary)) {}

    std::string path_;
    std::string temporary_;  ///< empty once it is there
};

/// The content of a file of any kind but a folder. More than `max_bytes` (also from a pipe) is
/// refused with `invalid_input`. Blocks.
[[nodiscard]] Result<std::string> read_file(const std::string& path, std::size_t max_bytes);

/// The same of a regular file alone, for what is looked at again and again: a pipe in its place
/// would hold the reader for ever.
[[nodiscard]] Result<std::string> read_regular_file(const std::string& path, std::size_t max_bytes);

}  // namespace drawbridge::base
