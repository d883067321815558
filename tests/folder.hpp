#pragma once
// A folder of its own for a test.

#include <filesystem>
#include <stdexcept>
#include <stdlib.h>
#include <string>
#include <system_error>

namespace drawbridge::test {

/// Removed with everything in it at the end of the test. Throws where there can be none.
class Folder {
public:
    Folder() {
        std::string name = (std::filesystem::temp_directory_path() / "drawbridge-XXXXXX").string();
        if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temporary folder");
        path_ = name;
    }
    Folder(const Folder&) = delete;
    Folder& operator=(const Folder&) = delete;
    ~Folder() {
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
    }

    [[nodiscard]] const std::filesystem::path& path() const { return path_; }
    /// The path of what has that name in it.
    [[nodiscard]] std::string operator/(const std::string& name) const { return path_ / name; }

private:
    std::filesystem::path path_;
};

}  // namespace drawbridge::test
