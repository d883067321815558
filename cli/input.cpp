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

/// Everything with the name of a manifest but folders: a link to nowhere is a manifest that is
/// missing.
template <class Iterator>
std::vector<std::string> manifests_below(const fs::path& folder, std::error_code& error) {
    std::vector<std::string> found;
    for (Iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
        std::error_code unknown;
        if (is_manifest(entry->path()) && !entry->is_directory(unknown)) {
            found.push_back(entry->path().string());
        }
    }
    std::ranges::sort(found);
    return found;
}

base::Result<std::vector<std::string>> list_folder(const std::string& folder, bool recursive) {
    std::error_code error;
    auto found = recursive ? manifests_below<fs::recursive_directory_iterator>(folder, error)
                           : manifests_below<fs::directory_iterator>(folder, error);
    if (error) return base::fail(base::ErrorKind::not_found, error.message(), folder);
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
