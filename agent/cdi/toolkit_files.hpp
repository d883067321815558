#pragma once
// Finds the CDI specification of NVIDIA's container toolkit on the node. Reads folders and files;
// blocks.

#include "agent/cdi/toolkit_spec.hpp"

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace drawbridge::agent {

/// What was found of the toolkit's.
struct ToolkitAnswer {
    std::optional<DriverEdits> edits = std::nullopt;
    /// Why a specification that is there is not used, with what to do; for people.
    std::vector<std::string> remarks = {};
};

/// One thread at a time. A file is read again when it has changed.
class ToolkitFiles {
public:
    /// The first of the folders that has one that can be used wins. `host_root` is the host's root
    /// as this process sees it; empty: `/`.
    ToolkitFiles(std::vector<std::string> folders, std::string host_root)
        : folders_(std::move(folders)), host_root_(std::move(host_root)) {}

    /// The driver by a specification that brings that version and gives each card what is its own,
    /// and of which everything that it names is there: with less no container would start.
    [[nodiscard]] ToolkitAnswer look(std::string_view version, const std::vector<Device>& devices);

private:
    struct File {
        std::filesystem::file_time_type time = {};
        std::uintmax_t size = 0;
        base::Result<std::optional<CdiSpec>> spec = std::nullopt;
    };

    void read_changed();
    [[nodiscard]] std::string unfit(const DriverEdits& edits, std::string_view version,
                                    const std::vector<Device>& devices) const;

    std::vector<std::string> folders_;
    std::string host_root_;
    std::vector<std::pair<std::string, File>> files_;  ///< by path, in the order of the folders
};

}  // namespace drawbridge::agent
