#include "agent/cdi/library_store.hpp"

#include "base/hash.hpp"
#include "preload/abi.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <elf.h>

namespace drawbridge::agent {
namespace {

using base::ErrorKind;
using base::fail;
using base::Result;

constexpr std::string_view library_name = "libdrawbridge.so";
constexpr std::string_view preload_name = "ld.so.preload";
constexpr std::size_t name_chars = 32;
constexpr std::size_t max_library = 16U << 20U;
constexpr mode_t library_mode = 0755;
constexpr mode_t preload_mode = 0644;

#if defined(__x86_64__)
constexpr Elf64_Half machine = EM_X86_64;
#elif defined(__aarch64__)
constexpr Elf64_Half machine = EM_AARCH64;
#else
#error "a machine that the preload library is not made for"
#endif

std::string preload_text() {
    return library_path_inside() + "\n";
}

bool is_build_name(std::string_view name) {
    return name.size() == name_chars && std::ranges::all_of(name, [](char c) {
               return (c >= 'a' && c <= 'z') || (c >= '2' && c <= '7');
           });
}

}  // namespace

std::string library_path_inside() {
    return fmt::format("{}/lib/{}", DRAWBRIDGE_ROOT, library_name);
}

Result<void> check_library(std::string_view bytes) {
    Elf64_Ehdr header{};
    if (bytes.size() < sizeof header || !bytes.starts_with(std::string_view(ELFMAG, SELFMAG)))
        return fail(ErrorKind::invalid_input, "it is no ELF file");
    std::memcpy(&header, bytes.data(), sizeof header);
    const bool whole =
        header.e_shoff <= bytes.size() &&
        header.e_shnum * std::size_t{header.e_shentsize} <= bytes.size() - header.e_shoff;
    if (!whole) return fail(ErrorKind::invalid_input, "it is cut off");
    if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_machine != machine)
        return fail(ErrorKind::invalid_input, "it is for another kind of machine");
    if (header.e_type != ET_DYN) return fail(ErrorKind::invalid_input, "it is no shared library");
    return {};
}

Result<std::string> read_library(Files& files, const std::string& path) {
    auto bytes = files.read(path, max_library);
    if (!bytes) return bytes;
    if (auto checked = check_library(*bytes); !checked) {
        return fail(ErrorKind::invalid_input, fmt::format("{} cannot be given to containers: {}",
                                                          path, checked.error().message));
    }
    return bytes;
}

void LibraryStore::offer(std::string library) {
    library_ = std::move(library);
    current_ = base::base32_lower(base::sha256(preload_text() + library_), name_chars);
}

std::string LibraryStore::path(std::string_view build) const {
    return fmt::format("{}/{}", folder_, build);
}

LibraryFiles LibraryStore::files(std::string_view build) const {
    if (build.empty()) return {};
    return {.library = fmt::format("{}/{}", path(build), library_name),
            .preload = fmt::format("{}/{}", path(build), preload_name)};
}

bool LibraryStore::has(std::string_view build) const {
    if (build.empty()) return true;
    const auto names = files_.list(path(build)).value_or(std::vector<std::string>());
    return std::ranges::count(names, library_name) == 1 &&
           std::ranges::count(names, preload_name) == 1;
}

/// What is there was renamed into place whole, and its name says what is in it.
Result<void> LibraryStore::ensure(std::string_view build) {
    if (has(build)) return {};
    if (build != current_) {
        return fail(ErrorKind::internal,
                    fmt::format("build {} of the preload library is not there any more", build));
    }
    const LibraryFiles to = files(build);
    auto written = files_.write(to.preload, preload_text(), WriteHow::durable, preload_mode);
    if (!written) return written;
    return files_.write(to.library, library_, WriteHow::durable, library_mode);
}

std::vector<std::string> LibraryStore::list() const {
    auto names = files_.list(folder_).value_or(std::vector<std::string>());
    std::erase_if(names, [](const std::string& name) { return !is_build_name(name); });
    return names;
}

Result<void> LibraryStore::remove(std::string_view build) {
    return files_.remove(path(build));
}

}  // namespace drawbridge::agent
