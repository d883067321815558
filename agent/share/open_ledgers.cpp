#include "agent/share/open_ledgers.hpp"

#include <algorithm>
#include <utility>

namespace drawbridge::agent {

base::Result<std::shared_ptr<const LedgerFile>> OpenLedgers::open(const std::string& share) {
    const std::lock_guard lock(mutex_);
    if (const auto found = kept_.find(share); found != kept_.end()) {
        if (found->second->is_there()) return found->second;
        kept_.erase(found);
    }
    auto opened = LedgerFile::open(folders_.path(share, DRAWBRIDGE_LEDGER_FILE));
    if (!opened) return tl::unexpected(opened.error());
    auto ledger = std::make_shared<const LedgerFile>(*std::move(opened));
    if (kept_.size() < most_kept) kept_.emplace(share, ledger);
    return ledger;
}

void OpenLedgers::keep_only(const std::vector<std::string>& shares) {
    const std::lock_guard lock(mutex_);
    std::erase_if(kept_, [&](const auto& entry) {
        return std::ranges::find(shares, entry.first) == shares.end();
    });
}

}  // namespace drawbridge::agent
