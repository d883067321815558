#include "base/atomic_file.hpp"

#include "base/descriptor.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>
#include <utility>

namespace drawbridge::base {
namespace {

/// The failure of the system call that just set `errno`.
tl::unexpected<Error> system_failure(std::string_view action, const std::string& path) {
    const int code = errno;
    ErrorKind kind = ErrorKind::internal;
    if (code == ENOENT || code == ENOTDIR) kind = ErrorKind::not_found;
    if (code == EACCES || code == EPERM || code == EROFS) kind = ErrorKind::forbidden;
    return fail(
        kind, fmt::format("cannot {} {}: {}", action, path, std::generic_category().message(code)),
        path);
}

bool write_all(int file, std::string_view text) {
    while (!text.empty()) {
        const ssize_t written = ::write(file, text.data(), text.size());
        if (written < 0 && errno == EINTR) continue;
        if (written < 0) return false;
        text.remove_prefix(static_cast<std::size_t>(written));
    }
    return true;
}

/// Zeros at the end are not written where the file system can set room aside for them: no disk has
/// to take them. A hole would do, but for who maps the file and finds the disk full when it writes.
bool write_content(int file, std::string_view text) {
    static constexpr std::array<char, 4096> zeros{};
    std::size_t used = text.size();
    while (used >= zeros.size() &&
           std::memcmp(text.data() + used - zeros.size(), zeros.data(), zeros.size()) == 0)
        used -= zeros.size();
    const bool has_room =
        used < text.size() && ::fallocate(file, 0, 0, static_cast<off_t>(text.size())) == 0;
    return write_all(file, has_room ? text.substr(0, used) : text);
}

std::string folder_of(const std::string& path) {
    const std::size_t slash = path.rfind('/');
    if (slash == std::string::npos) return ".";
    return slash == 0 ? "/" : path.substr(0, slash);
}

Result<std::string> read_opened(const Descriptor& file, const std::string& path,
                                std::size_t max_bytes) {
    if (file.get() < 0) return system_failure("open", path);
    struct stat about {};
    if (::fstat(file.get(), &about) != 0) return system_failure("look at", path);
    if (S_ISDIR(about.st_mode)) {
        return fail(ErrorKind::invalid_input, fmt::format("{} is a folder", path), path);
    }
    // The size is a hint only: files grow, pipes and /proc have none. One byte more than allowed is
    // asked for, to tell a full file from a too long one.
    constexpr std::size_t step = 64U << 10U;
    const std::size_t limit = std::min(max_bytes, std::string().max_size() - 1) + 1;
    const std::size_t hint = about.st_size > 0 ? static_cast<std::size_t>(about.st_size) + 1 : step;
    std::string text(std::min(hint, limit), '\0');
    std::size_t used = 0;
    while (used < limit) {
        if (used == text.size()) text.resize(std::min(2 * used, limit));
        const ssize_t got = ::read(file.get(), text.data() + used, text.size() - used);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return system_failure("read", path);
        if (got == 0) {
            text.resize(used);
            return text;
        }
        used += static_cast<std::size_t>(got);
    }
    return fail(ErrorKind::invalid_input, fmt::format("{} has more than {} bytes", path, max_bytes),
                path);
}

}  // namespace

StagedFile::StagedFile(StagedFile&& other) noexcept
    : path_(std::move(other.path_)), temporary_(std::exchange(other.temporary_, {})) {}

StagedFile::~StagedFile() {
    if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

Result<StagedFile> StagedFile::create(std::string path, std::string_view text, mode_t mode,
                                      Sync sync) {
    const std::string folder = folder_of(path);
    std::string name = fmt::format("{}/{}XXXXXX", folder, temporary_prefix);
    const Descriptor file(::mkostemp(name.data(), O_CLOEXEC));
    if (file.get() < 0) return system_failure("create a file in", folder);
    StagedFile staged(std::move(path), std::move(name));
    if (!write_content(file.get(), text)) return system_failure("write", staged.path_);
    if (::fchmod(file.get(), mode) != 0)
        return system_failure("set the permissions of", staged.path_);
    if (sync != Sync::none && ::fsync(file.get()) != 0) return system_failure("sync", staged.path_);
    return staged;
}

Result<void> StagedFile::commit() {
    if (::rename(temporary_.c_str(), path_.c_str()) != 0) return system_failure("replace", path_);
    temporary_.clear();
    return {};
}

Result<void> write_file_atomically(const std::string& path, std::string_view text, mode_t mode,
                                   Sync sync) {
    auto staged = StagedFile::create(path, text, mode, sync);
    if (!staged) return tl::unexpected(staged.error());
    if (auto done = staged->commit(); !done || sync != Sync::to_disk) return done;
    const std::string folder = folder_of(path);
    const Descriptor directory(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (directory.get() < 0 || ::fsync(directory.get()) != 0) return system_failure("sync", folder);
    return {};
}

Result<std::string> read_file(const std::string& path, std::size_t max_bytes) {
    const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    return read_opened(file, path, max_bytes);
}

Result<std::string> read_regular_file(const std::string& path, std::size_t max_bytes) {
    const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    struct stat about {};
    if (file.get() >= 0 && ::fstat(file.get(), &about) == 0 && !S_ISREG(about.st_mode) &&
        !S_ISDIR(about.st_mode)) {
        return fail(ErrorKind::invalid_input, fmt::format("{} is no regular file", path), path);
    }
    return read_opened(file, path, max_bytes);
}

}  // namespace drawbridge::base
