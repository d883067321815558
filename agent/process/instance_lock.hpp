#pragma once
// One agent an instance name: a second one by mistake would take the first one's sockets away.

#include "base/result.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace drawbridge::agent {

/// A lock on a file, for as long as this lives; the kernel lets go of it when the process ends.
class InstanceLock {
public:
    /// Tries once; nothing where another process has it. The file is made where it is missing.
    [[nodiscard]] static base::Result<std::optional<InstanceLock>> try_hold(std::string path);
    /// Tells others which run of the instance holds the lock.
    [[nodiscard]] base::Result<void> tell(std::string_view run) const;

    InstanceLock(InstanceLock&& other) noexcept;
    InstanceLock& operator=(InstanceLock&&) = delete;
    InstanceLock(const InstanceLock&) = delete;
    InstanceLock& operator=(const InstanceLock&) = delete;
    /// Removes the file.
    ~InstanceLock();

private:
    InstanceLock(std::string path, int file) : path_(std::move(path)), file_(file) {}

    std::string path_;
    int file_;
};

/// An agent that runs.
struct RunningInstance {
    std::string name = {};
    std::string run = {};  ///< as it told; empty before it did
};

/// The locks in a folder that some process holds. Files that nobody holds are removed.
[[nodiscard]] std::vector<RunningInstance> running_instances(const std::string& folder);

}  // namespace drawbridge::agent
