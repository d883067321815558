#include "agent/process/instance_lock.hpp"

#include "base/atomic_file.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace drawbridge::agent {
namespace {

enum class Attempt { held, taken, failed };

/// Opens and locks. A file that its holder removed meanwhile is no lock any more.
Attempt attempt(const std::string& path, int& file) {
    constexpr int most_tries = 16;
    for (int i = 0; i < most_tries; ++i) {
        file = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (file < 0) return Attempt::failed;
        if (::flock(file, LOCK_EX | LOCK_NB) != 0) {
            const Attempt end = errno == EWOULDBLOCK ? Attempt::taken : Attempt::failed;
            ::close(file);
            return end;
        }
        struct stat found {};
        if (::fstat(file, &found) == 0 && found.st_nlink > 0) return Attempt::held;
        ::close(file);
    }
    return Attempt::failed;
}

}  // namespace

base::Result<std::optional<InstanceLock>> InstanceLock::try_hold(std::string path) {
    int file = -1;
    switch (attempt(path, file)) {
        case Attempt::held:
            return std::optional(InstanceLock(std::move(path), file));
        case Attempt::taken:
            return std::optional<InstanceLock>();
        case Attempt::failed:
            break;
    }
    return base::fail(base::ErrorKind::internal,
                      fmt::format("cannot lock: {}", std::strerror(errno)), path);
}

InstanceLock::InstanceLock(InstanceLock&& other) noexcept
    : path_(std::move(other.path_)), file_(std::exchange(other.file_, -1)) {}

InstanceLock::~InstanceLock() {
    if (file_ < 0) return;
    ::unlink(path_.c_str());
    ::close(file_);
}

base::Result<void> InstanceLock::tell(std::string_view run) const {
    const auto size = static_cast<ssize_t>(run.size());
    if (::ftruncate(file_, 0) == 0 && ::pwrite(file_, run.data(), run.size(), 0) == size) return {};
    return base::fail(base::ErrorKind::internal,
                      fmt::format("cannot write: {}", std::strerror(errno)), path_);
}

std::vector<RunningInstance> running_instances(const std::string& folder) {
    constexpr std::size_t longest_run = 64;
    std::vector<RunningInstance> held;
    std::error_code failure;
    for (const auto& entry : std::filesystem::directory_iterator(folder, failure)) {
        auto lock = InstanceLock::try_hold(entry.path().string());
        if (!lock || *lock) continue;
        const auto run = base::read_file(entry.path().string(), longest_run);
        held.push_back({.name = entry.path().filename().string(), .run = run.value_or("")});
    }
    return held;
}

}  // namespace drawbridge::agent
