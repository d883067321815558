#include "agent/share_folders.hpp"

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
    const auto found = limits(name);
    const bool current = found && found->boot_id == wanted.boot_id;
    // The ledger first: where limits of this boot are, its ledger is there too.
    const std::string ledger = path(name, DRAWBRIDGE_LEDGER_FILE);
    if (!current || !files_.read(ledger, DRAWBRIDGE_LEDGER_SIZE)) {
        auto written = files_.write(ledger, fresh_ledger(), WriteHow::atomic, ledger_mode);
        if (!written) return written;
    }
    if (current) {
        auto changed = change(name, wanted);
        if (!changed) return tl::unexpected(changed.error());
        return {};
    }
    return files_.write(path(name, DRAWBRIDGE_LIMITS_FILE), limits_page(wanted, 2),
                        WriteHow::atomic, limits_mode);
}

Result<bool> ShareFolders::change(const std::string& name, const ShareLimits& wanted) {
    const std::string file = path(name, DRAWBRIDGE_LIMITS_FILE);
    const auto page = files_.read(file, DRAWBRIDGE_LIMITS_SIZE);
    if (!page) return tl::unexpected(page.error());
    const auto found = read_limits(*page);
    if (!found) return tl::unexpected(found.error());
    if (found->boot_id != wanted.boot_id)
        return base::fail(base::ErrorKind::conflict, "limits of another boot", file);
    const auto [offset, size] = guarded_fields();
    // Odd: somebody ended between the writes below, and readers take nothing until it is even.
    const std::uint64_t writing = found->generation | 1U;
    const std::string fresh = limits_page(wanted, writing + 1);
    const std::string fields = fresh.substr(offset, size);
    if (found->generation % 2 == 0 && page->compare(offset, size, fields) == 0) return false;
    const std::pair<std::size_t, std::string> patches[] = {
        {generation_offset(), generation_bytes(writing)},
        {offset, fields},
        {generation_offset(), generation_bytes(writing + 1)}};
    for (const auto& [at, bytes] : patches) {
        if (auto written = files_.patch(file, at, bytes); !written)
            return tl::unexpected(written.error());
    }
    return true;
}

Result<void> ShareFolders::remove(const std::string& name) {
    return files_.remove(fmt::format("{}/{}", folder_, name));
}

Result<std::vector<std::string>> ShareFolders::list() const {
    return files_.list(folder_);
}

Result<ReadLimits> ShareFolders::limits(const std::string& name) const {
    const auto file = files_.read(path(name, DRAWBRIDGE_LIMITS_FILE), DRAWBRIDGE_LIMITS_SIZE);
    if (!file) return tl::unexpected(file.error());
    return read_limits(*file);
}

Result<LedgerUse> ShareFolders::use(const std::string& name, std::int64_t physical_bytes) const {
    const auto file = files_.read(path(name, DRAWBRIDGE_LEDGER_FILE), DRAWBRIDGE_LEDGER_SIZE);
    if (!file) return tl::unexpected(file.error());
    return read_ledger(*file, physical_bytes);
}

}  // namespace drawbridge::agent
