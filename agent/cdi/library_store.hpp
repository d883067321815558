#pragma once
// The builds of the preload library that lie on the node, each in a folder named after its content
// (node-agent.md 6, 11.2).

#include "agent/files.hpp"
#include "base/result.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace drawbridge::agent {

/// A build as it lies on the host; empty: there is none, and nothing of it is mounted.
struct LibraryFiles {
    std::string library = {};  ///< `libdrawbridge.so`
    std::string preload = {};  ///< what becomes /etc/ld.so.preload

    [[nodiscard]] bool operator==(const LibraryFiles&) const = default;
};

/// Where containers find the library.
[[nodiscard]] std::string library_path_inside();

/// Whether these bytes are a shared library that programs of this machine can load. A file that is
/// not would have every program in every container print a message. `invalid_input` with the
/// reason.
[[nodiscard]] base::Result<void> check_library(std::string_view bytes);

/// Reads a build from `path`, and checks it.
[[nodiscard]] base::Result<std::string> read_library(Files& files, const std::string& path);

/// A file that containers have mapped is never written again: another build is another folder. The
/// claims' records say which builds are in use.
class LibraryStore {
public:
    LibraryStore(Files& files, std::string folder) : files_(files), folder_(std::move(folder)) {}

    /// Names the build that new claims get; none until then. Before the first other call.
    void offer(std::string library);
    /// Name of that build; empty: none.
    [[nodiscard]] const std::string& current() const { return current_; }
    /// Makes sure that a build is whole on disk, which only the current one can be made.
    [[nodiscard]] base::Result<void> ensure(std::string_view build);
    [[nodiscard]] bool has(std::string_view build) const;
    /// Where a build lies; nothing for no build.
    [[nodiscard]] LibraryFiles files(std::string_view build) const;
    /// Names of all builds, whole or not.
    [[nodiscard]] std::vector<std::string> list() const;
    [[nodiscard]] base::Result<void> remove(std::string_view build);

private:
    [[nodiscard]] std::string path(std::string_view build) const;

    Files& files_;
    std::string folder_;
    std::string current_;
    std::string library_;  ///< the current build's bytes
};

}  // namespace drawbridge::agent
