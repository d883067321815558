#include "agent/files.hpp"

#include "agent/folder_watch.hpp"
#include "base/atomic_file.hpp"
#include "base/descriptor.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <dirent.h>
#include <fcntl.h>
#include <memory>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>

namespace drawbridge::agent {
namespace {

using base::ErrorKind;
using base::Result;

tl::unexpected<base::Error> failure(std::string_view action, const std::string& path) {
    const int code = errno;
    const ErrorKind kind =
        code == ENOENT || code == ENOTDIR ? ErrorKind::not_found : ErrorKind::internal;
    return base::fail(
        kind, fmt::format("cannot {} {}: {}", action, path, std::generic_category().message(code)),
        path);
}

std::string folder_of(const std::string& path) {
    const std::size_t slash = path.rfind('/');
    return slash == std::string::npos || slash == 0 ? "/" : path.substr(0, slash);
}

/// A tenant's user may reach a file in the folder whose name it knows, and no more.
constexpr mode_t folder_mode = 0711;

base::Sync sync_of(WriteHow how) {
    switch (how) {
        case WriteHow::durable:
            return base::Sync::to_disk;
        case WriteHow::whole:
            return base::Sync::content;
        case WriteHow::atomic:
            break;
    }
    return base::Sync::none;
}

Result<void> make_folder(const std::string& path) {
    if (::mkdir(path.c_str(), folder_mode) != 0 && errno != EEXIST)
        return failure("make the folder", path);
    return {};
}

bool write_all(int file, std::size_t offset, std::string_view bytes) {
    auto at = static_cast<off_t>(offset);
    while (!bytes.empty()) {
        const ssize_t written = ::pwrite(file, bytes.data(), bytes.size(), at);
        if (written < 0 && errno == EINTR) continue;
        if (written <= 0) return false;
        bytes.remove_prefix(static_cast<std::size_t>(written));
        at += written;
    }
    return true;
}

class StagedOnDisk final : public Staged {
public:
    explicit StagedOnDisk(base::StagedFile file) : file_(std::move(file)) {}
    Result<void> commit() override { return file_.commit(); }

private:
    base::StagedFile file_;
};

struct CloseFolder {
    void operator()(DIR* folder) const { ::closedir(folder); }
};
using FolderPtr = std::unique_ptr<DIR, CloseFolder>;

}  // namespace

Result<void> DiskFiles::write(const std::string& path, std::string_view text, WriteHow how,
                              mode_t mode) {
    auto written = base::write_file_atomically(path, text, mode, sync_of(how));
    if (written || written.error().kind != ErrorKind::not_found) return written;
    if (auto made = make_folder(folder_of(path)); !made) return made;
    return base::write_file_atomically(path, text, mode, sync_of(how));
}

Result<std::unique_ptr<Staged>> DiskFiles::stage(const std::string& path, std::string_view text,
                                                 mode_t mode) {
    if (auto made = make_folder(folder_of(path)); !made) return tl::unexpected(made.error());
    auto staged = base::StagedFile::create(path, text, mode);
    if (!staged) return tl::unexpected(staged.error());
    return std::make_unique<StagedOnDisk>(*std::move(staged));
}

Result<void> DiskFiles::patch(const std::string& path, std::size_t offset, std::string_view bytes) {
    const base::Descriptor file(::open(path.c_str(), O_WRONLY | O_NOFOLLOW | O_CLOEXEC));
    if (file.get() < 0) return failure("open", path);
    struct stat facts {};
    if (::fstat(file.get(), &facts) != 0) return failure("look at", path);
    if (facts.st_size < static_cast<off_t>(offset + bytes.size()))
        return base::fail(ErrorKind::internal, "the file is shorter than it should be", path);
    if (!write_all(file.get(), offset, bytes)) return failure("write", path);
    return {};
}

Result<std::string> DiskFiles::read(const std::string& path, std::size_t max_bytes) {
    return base::read_regular_file(path, max_bytes);
}

std::unique_ptr<FolderWatch> DiskFiles::watch(const std::string& folder) {
    return std::make_unique<InotifyFolderWatch>(folder);
}

std::optional<FileStamp> DiskFiles::stamp(const std::string& path) {
    struct stat found {};
    if (::stat(path.c_str(), &found) != 0) return std::nullopt;
    const auto ns = [](const timespec& time) { return time.tv_sec * 1'000'000'000 + time.tv_nsec; };
    return FileStamp{.device = found.st_dev,
                     .inode = found.st_ino,
                     .size = found.st_size,
                     .modified_ns = ns(found.st_mtim),
                     .changed_ns = ns(found.st_ctim)};
}

Result<void> DiskFiles::remove(const std::string& path) {
    if (::unlink(path.c_str()) == 0 || errno == ENOENT) return {};
    if (errno != EISDIR && errno != EPERM) return failure("remove", path);
    auto names = list(path);
    if (!names) return tl::unexpected(names.error());
    for (const std::string& name : *names) {
        const std::string inside = fmt::format("{}/{}", path, name);
        if (::unlink(inside.c_str()) != 0 && errno != ENOENT) return failure("remove", inside);
    }
    if (::rmdir(path.c_str()) != 0 && errno != ENOENT) return failure("remove", path);
    return {};
}

Result<std::vector<std::string>> DiskFiles::list(const std::string& path) {
    std::vector<std::string> names;
    const FolderPtr folder(::opendir(path.c_str()));
    if (!folder) {
        if (errno == ENOENT) return names;
        return failure("read the folder", path);
    }
    while (true) {
        errno = 0;
        const dirent* entry = ::readdir(folder.get());
        if (entry == nullptr) break;
        const std::string_view name = static_cast<const char*>(entry->d_name);
        if (name != "." && name != "..") names.emplace_back(name);
    }
    if (errno != 0) return failure("read the folder", path);
    std::ranges::sort(names);
    return names;
}

}  // namespace drawbridge::agent
