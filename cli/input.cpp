#include "cli/input.hpp"

#include "base/atomic_file.hpp"
#include "translate/cluster_facts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>

namespace drawbridge::cli {

namespace {

namespace fs = std::filesystem;

constexpr std::size_t max_bytes = 64U << 20U;

base::Result<std::string> read_standard_input() {
    std::string text;
    char block[65536];
    while (const std::size_t count = std::fread(block, 1, sizeof block, stdin)) {
        text.append(block, count);
        if (text.size() > max_bytes) {
            return base::fail(base::ErrorKind::invalid_input,
                              "standard input is longer than 64 MiB", "-");
        }
    }
    if (std::ferror(stdin) != 0) {
        return base::fail(base::ErrorKind::unavailable, "standard input cannot be read", "-");
    }
    return text;
}

bool is_manifest(const fs::path& path) {
    const auto extension = path.extension();
    return extension == ".yaml" || extension == ".yml" || extension == ".json";
}

/// Adds everything with the name of a manifest but folders: a link to nowhere is a manifest that is
/// missing. Links to folders are not followed. An error names the folder that cannot be read.
base::Result<void> add_manifests(const fs::path& top, bool recursive,
                                 std::vector<std::string>& found) {
    std::vector<fs::path> folders = {top};
    while (!folders.empty()) {
        const fs::path folder = std::move(folders.back());
        folders.pop_back();
        std::error_code error;
        for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
             entry.increment(error)) {
            std::error_code unknown;
            if (!entry->is_directory(unknown)) {
                if (is_manifest(entry->path())) found.push_back(entry->path().string());
            } else if (recursive && !entry->is_symlink(unknown)) {
                folders.push_back(entry->path());
            }
        }
        if (error) {
            return base::fail(base::ErrorKind::not_found, error.message(), folder.string());
        }
    }
    return {};
}

base::Result<std::vector<std::string>> list_folder(const std::string& folder, bool recursive) {
    std::vector<std::string> found;
    if (auto listed = add_manifests(folder, recursive, found); !listed) {
        return tl::unexpected(listed.error());
    }
    std::ranges::sort(found);
    if (found.empty()) {
        return base::fail(base::ErrorKind::not_found,
                          recursive ? "no .yaml, .yml or .json file is below the folder"
                                    : "no .yaml, .yml or .json file is in the folder (-R looks "
                                      "into the folders below it too)",
                          folder);
    }
    return found;
}

}  // namespace

base::Result<std::string> read_text(const std::string& name) {
    if (name == "-") return read_standard_input();
    auto text = base::read_file(name, max_bytes);
    if (!text && text.error().path.empty()) text.error().path = name;
    return text;
}

base::Result<std::vector<InputFile>> read_inputs(const std::vector<std::string>& places,
                                                 bool recursive) {
    std::vector<InputFile> files;
    for (const std::string& place : places) {
        std::vector<std::string> names = {place};
        std::error_code error;
        const bool folder = place != "-" && fs::is_directory(place, error);
        if (folder) {
            auto found = list_folder(place, recursive);
            if (!found) return tl::unexpected(found.error());
            names = std::move(*found);
        }
        for (std::string& name : names) {
            auto text = folder ? base::read_regular_file(name, max_bytes) : read_text(name);
            if (!text) return tl::unexpected(text.error());
            files.push_back({std::move(name), std::move(*text)});
        }
    }
    return files;
}

base::Error at_file(base::Error error, const std::string& file) {
    error.path = error.path.empty() || error.path == file ? file : file + ":" + error.path;
    return error;
}

base::Result<translate::Settings> read_settings(const std::string& name) {
    if (name.empty()) return translate::Settings{};
    const auto text = read_text(name);
    if (!text) return tl::unexpected(text.error());
    auto settings = translate::read_settings_text(*text);
    if (settings) return settings;
    base::Error error = std::move(settings).error();
    // Several problems of a file stand in lines, each with its own place.
    if (error.message.starts_with(error.path + ": ")) error.path.clear();
    return tl::unexpected(at_file(std::move(error), name));
}

}  // namespace drawbridge::cli
