#pragma once
// The builds of the preload library that lie on the node, each in a folder named after its content
// (node-agent.md 6, 11.2).

#include "agent/files.hpp"
#include "base/result.hpp"

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace drawbridge::agent {

/// A build as it lies on the host; empty: there is none, and nothing of it is mounted.
struct LibraryFiles {
    std::string library = {};  ///< `libdrawbridge.so`
    std::string preload = {};  ///< what becomes /etc/ld.so.preload
    std::string front = {};    ///< what stands in the place of libcuda.so.1; empty: nothing does

    [[nodiscard]] bool operator==(const LibraryFiles&) const = default;
};

/// What builds are made of.
struct LibraryBytes {
    std::string library = {};
    std::string front = {};  ///< empty: there is none
};

/// Where containers find the library.
[[nodiscard]] std::string library_path_inside();

/// Whether these bytes are a shared library that programs of this machine can load. A file that is
/// not would have every program in every container print a message. `invalid_input` with the
/// reason.
[[nodiscard]] base::Result<void> check_library(std::string_view bytes);

/// Reads the library from `path`, and `libdrawbridge-libcuda.so` beside it where that is there, and
/// checks both.
[[nodiscard]] base::Result<LibraryBytes> read_library(Files& files, const std::string& path);

/// A file that containers have mapped is never written again: another build is another folder. The
/// claims' records say which builds are in use. A build with the front and one without it are two,
/// so that a claim keeps what it was given.
class LibraryStore {
public:
    LibraryStore(Files& files, std::string folder) : files_(files), folder_(std::move(folder)) {}

    /// Names the builds that new claims get; none until then. Before the first other call.
    void offer(LibraryBytes bytes);
    /// Name of the build without the front, or with it; empty: there is none.
    [[nodiscard]] const std::string& current(bool with_front = false) const {
        return with_front ? fronted_ : current_;
    }
    /// Makes sure that a build is whole on disk, which only the current ones can be made.
    [[nodiscard]] base::Result<void> ensure(std::string_view build);
    [[nodiscard]] bool has(std::string_view build) const;
    /// Where a build lies; nothing for no build.
    [[nodiscard]] LibraryFiles files(std::string_view build) const;
    /// Names of all builds, whole or not.
    [[nodiscard]] std::vector<std::string> list() const;
    [[nodiscard]] base::Result<void> remove(std::string_view build);

private:
    [[nodiscard]] std::string path(std::string_view build) const;
    [[nodiscard]] bool lies_there(std::string_view build,
                                  std::initializer_list<std::string_view> wanted) const;

    Files& files_;
    std::string folder_;
    std::string current_;
    std::string fronted_;
    LibraryBytes bytes_;  ///< of the current builds
};

}  // namespace drawbridge::agent
