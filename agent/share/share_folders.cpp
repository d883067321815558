#include "agent/share/share_folders.hpp"

#include "preload/abi.h"

#include <fmt/format.h>

#include <string_view>
#include <utility>

namespace drawbridge::agent {
using base::Result;

namespace {

constexpr mode_t limits_mode = 0644;
constexpr mode_t ledger_mode = 0666;  // every user of a container writes it

}  // namespace

std::string ShareFolders::path(const std::string& name, std::string_view file) const {
    return fmt::format("{}/{}/{}", folder_, name, file);
}

Result<void> ShareFolders::create(const std::string& name, const ShareLimits& wanted) {
    const auto is_missing = [this](const std::string& file, std::size_t size) {
        const auto found = files_.read(file, size);
        return !found && found.error().kind == base::ErrorKind::not_found;
    };
    // The ledger first: where limits are, it is there too. Whatever may be wrong with one that is
    // there: processes may count in it, and what they hold would be forgotten.
    const std::string ledger = path(name, DRAWBRIDGE_LEDGER_FILE);
    if (is_missing(ledger, DRAWBRIDGE_LEDGER_SIZE)) {
        auto written = files_.write(ledger, fresh_ledger(), WriteHow::atomic, ledger_mode);
        if (!written) return written;
    }
    if (is_missing(path(name, DRAWBRIDGE_LIMITS_FILE), DRAWBRIDGE_LIMITS_SIZE))
        return write_limits(name, wanted);
    auto changed = change(name, wanted);
    if (!changed) return tl::unexpected(changed.error());
    return {};
}

Result<void> ShareFolders::write_limits(const std::string& name, const ShareLimits& wanted) {
    return files_.write(path(name, DRAWBRIDGE_LIMITS_FILE), limits_page(wanted, 2),
                        WriteHow::atomic, limits_mode);
}

/// Writes bytes into limits. Their generation is odd meanwhile, and readers take nothing then.
Result<void> ShareFolders::patch(const std::string& file, std::uint64_t generation,
                                 std::size_t offset, std::string_view bytes) {
    const std::uint64_t writing = generation | 1U;
    const std::pair<std::size_t, std::string> patches[] = {
        {generation_offset(), generation_bytes(writing)},
        {offset, std::string(bytes)},
        {generation_offset(), generation_bytes(writing + 1)}};
    for (const auto& [at, part] : patches) {
        if (auto written = files_.patch(file, at, part); !written) return written;
    }
    return {};
}

Result<bool> ShareFolders::change(const std::string& name, const ShareLimits& wanted) {
    const std::string file = path(name, DRAWBRIDGE_LIMITS_FILE);
    const auto page = files_.read(file, DRAWBRIDGE_LIMITS_SIZE);
    if (!page && page.error().kind == base::ErrorKind::not_found)
        return tl::unexpected(page.error());
    if (!page || page->size() != DRAWBRIDGE_LIMITS_SIZE) {
        // What has another size cannot be mended under who has it mapped.
        if (auto written = write_limits(name, wanted); !written)
            return tl::unexpected(written.error());
        return true;
    }
    const auto found = read_limits(*page);
    if (!found && found.error().kind == base::ErrorKind::unavailable)
        return tl::unexpected(found.error());
    const std::uint64_t generation = generation_of(*page);
    std::string fresh = limits_page(wanted, generation & ~std::uint64_t{1});
    if (found) keep_measured(fresh, *page);
    const auto [offset, size] = guarded_fields();
    const bool same = page->compare(offset, size, fresh, offset, size) == 0;
    // Odd: somebody ended between the writes.
    if (found && same && generation % 2 == 0) return false;
    fresh.replace(generation_offset(), sizeof generation, generation_bytes(generation | 1U));
    auto written = found ? patch(file, generation, offset, fresh.substr(offset, size))
                         : patch(file, generation, 0, fresh);
    if (!written) return tl::unexpected(written.error());
    return true;
}

Result<void> ShareFolders::remove(const std::string& name) {
    return files_.remove(fmt::format("{}/{}", folder_, name));
}

Result<std::vector<std::string>> ShareFolders::list() const {
    return files_.list(folder_);
}

std::optional<FileStamp> ShareFolders::limits_stamp(const std::string& name) const {
    return files_.stamp(path(name, DRAWBRIDGE_LIMITS_FILE));
}

Result<ReadLimits> ShareFolders::limits(const std::string& name) const {
    const auto file = files_.read(path(name, DRAWBRIDGE_LIMITS_FILE), DRAWBRIDGE_LIMITS_SIZE);
    if (!file) return tl::unexpected(file.error());
    return read_limits(*file);
}

}  // namespace drawbridge::agent
