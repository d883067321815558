#include "agent/share_folders.hpp"

#include "preload/abi.h"

#include <fmt/format.h>

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
    if (current) return {};
    return files_.write(path(name, DRAWBRIDGE_LIMITS_FILE), limits_page(wanted, 2),
                        WriteHow::atomic, limits_mode);
}

Result<void> ShareFolders::change(const std::string& name, const ShareLimits& wanted) {
    const auto found = limits(name);
    if (!found) return tl::unexpected(found.error());
    // Readers take nothing while the generation is odd. It is even again with the last write.
    const std::uint64_t next = (found->generation | 1U) + 1;
    const std::string page = limits_page(wanted, next);
    std::string halfway = page;
    halfway[offsetof(drawbridge_limits, generation)] =
        static_cast<char>(static_cast<unsigned char>(found->generation | 1U));
    const std::string file = path(name, DRAWBRIDGE_LIMITS_FILE);
    auto written = files_.write(file, halfway, WriteHow::in_place, limits_mode);
    if (!written) return written;
    return files_.write(file, page, WriteHow::in_place, limits_mode);
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
