// The end of a claim: its files go, and a mark of it stays for a while.

#include "agent/prepare/prepare_flow.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>

namespace drawbridge::agent {

using base::ErrorKind;
using base::fail;
using base::Result;

Result<void> PrepareFlow::unprepare(std::string_view uid) {
    if (!is_claim_uid(uid)) return fail(ErrorKind::invalid_input, "that is no claim's UID");
    const auto held = locks_.hold_claim(uid, lock_patience);
    if (!held) return tl::unexpected(held.error());
    // A record that cannot be read is no reason to keep the claim's files.
    const auto record = records_.load(uid);
    return end_claim(uid, record && *record ? &**record : nullptr);
}

Result<bool> PrepareFlow::unprepare_if(const ClaimRecord& seen) {
    const auto held = locks_.hold_claim(seen.claim.uid, lock_patience);
    if (!held) return tl::unexpected(held.error());
    const auto record = records_.load(seen.claim.uid);
    if (!record) return tl::unexpected(record.error());
    if (!*record || !(**record == seen)) return false;
    auto ended = end_claim(seen.claim.uid, &**record);
    if (!ended) return tl::unexpected(ended.error());
    return true;
}

Result<void> PrepareFlow::end_claim(std::string_view uid, const ClaimRecord* record) {
    step("remove");
    if (auto removed = remove_files(uid); !removed) return removed;
    step("bury");
    return bury(uid, record);
}

Result<void> PrepareFlow::remove_files(std::string_view uid) {
    if (auto removed = files_.remove(cdi_path(uid)); !removed) return removed;
    const auto names = folders_.list();
    if (!names) return tl::unexpected(names.error());
    const std::string prefix = fmt::format("{}-", uid);
    for (const std::string& name : *names) {
        const std::string_view rest =
            std::string_view(name).substr(std::min(name.size(), prefix.size()));
        const bool is_number =
            !rest.empty() && std::ranges::all_of(rest, [](char c) { return c >= '0' && c <= '9'; });
        if (!name.starts_with(prefix) || !is_number) continue;
        if (auto removed = folders_.remove(name); !removed) return removed;
    }
    return {};
}

/// Leaves a tombstone on disk for a claim that was known, and in memory for any: a full disk must
/// not keep a pod from ending, and an unknown claim leaves no file.
Result<void> PrepareFlow::bury(std::string_view uid, const ClaimRecord* record) {
    const std::int64_t ended = now_asking();
    {
        const std::lock_guard lock(mutex_);
        buried_[std::string(uid)] = ended;
    }
    if (record == nullptr) return records_.erase(uid);
    ClaimRecord tombstone = *record;
    tombstone.state = ClaimState::unprepared;
    tombstone.cdi_digest.clear();
    tombstone.library.clear();
    tombstone.shares.clear();
    tombstone.time = now();
    tombstone.boot_id = view()->boot_id;
    tombstone.ended_ns = ended;
    if (records_.save(tombstone)) return {};
    return records_.erase(uid);
}

}  // namespace drawbridge::agent
