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
constexpr std::string_view front_name = "libdrawbridge-libcuda.so";
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

Result<std::string> read_checked(Files& files, const std::string& path) {
    auto bytes = files.read(path, max_library);
    if (!bytes) return bytes;
    if (auto checked = check_library(*bytes); !checked) {
        return fail(ErrorKind::invalid_input, fmt::format("{} cannot be given to containers: {}",
                                                          path, checked.error().message));
    }
    return bytes;
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

Result<LibraryBytes> read_library(Files& files, const std::string& path) {
    auto library = read_checked(files, path);
    if (!library) return tl::unexpected(library.error());
    auto front =
        read_checked(files, fmt::format("{}{}", path.substr(0, path.rfind('/') + 1), front_name));
    if (!front && front.error().kind != ErrorKind::not_found) return tl::unexpected(front.error());
    return LibraryBytes{*std::move(library), std::move(front).value_or(std::string())};
}

void LibraryStore::offer(LibraryBytes bytes) {
    bytes_ = std::move(bytes);
    const std::string text = preload_text() + bytes_.library;
    current_ = base::base32_lower(base::sha256(text), name_chars);
    fronted_.clear();
    if (!bytes_.front.empty())
        fronted_ = base::base32_lower(base::sha256(text + bytes_.front), name_chars);
}

std::string LibraryStore::path(std::string_view build) const {
    return fmt::format("{}/{}", folder_, build);
}

LibraryFiles LibraryStore::files(std::string_view build) const {
    if (build.empty()) return {};
    LibraryFiles files{.library = fmt::format("{}/{}", path(build), library_name),
                       .preload = fmt::format("{}/{}", path(build), preload_name)};
    if (build == fronted_ || lies_there(build, {front_name}))
        files.front = fmt::format("{}/{}", path(build), front_name);
    return files;
}

bool LibraryStore::lies_there(std::string_view build,
                              std::initializer_list<std::string_view> wanted) const {
    const auto names = files_.list(path(build)).value_or(std::vector<std::string>());
    return std::ranges::all_of(
        wanted, [&](std::string_view name) { return std::ranges::count(names, name) == 1; });
}

bool LibraryStore::has(std::string_view build) const {
    if (build.empty()) return true;
    if (build == fronted_) return lies_there(build, {library_name, preload_name, front_name});
    return lies_there(build, {library_name, preload_name});
}

/// What is there was renamed into place whole, and its name says what is in it. The library comes
/// last: a build of another agent that has it has its front too, if it is one with a front.
Result<void> LibraryStore::ensure(std::string_view build) {
    if (has(build)) return {};
    if (build != current_ && build != fronted_) {
        return fail(ErrorKind::internal,
                    fmt::format("build {} of the preload library is not there any more", build));
    }
    const LibraryFiles to = files(build);
    auto written = files_.write(to.preload, preload_text(), WriteHow::durable, preload_mode);
    if (!written) return written;
    if (build == fronted_) {
        written = files_.write(to.front, bytes_.front, WriteHow::durable, library_mode);
        if (!written) return written;
    }
    return files_.write(to.library, bytes_.library, WriteHow::durable, library_mode);
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
