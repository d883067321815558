// What PrepareFlow does between the kubelet's calls: it makes again what was lost, and removes what
// nobody needs.

#include "agent/cdi/enforcement.hpp"
#include "agent/prepare/prepare_flow.hpp"
#include "base/json.hpp"

#include <algorithm>
#include <set>
#include <utility>

namespace drawbridge::agent {
namespace {

using base::Result;

// A late call of the kubelet comes within its own time-out and one retry (node-agent.md 3).
constexpr std::int64_t tombstone_seconds = 600;

}  // namespace

/// Whether the claim's CDI file is there, and a container that starts now gets the nodes of its
/// cards by it: they are other ones once the driver was loaded anew with other cards.
bool PrepareFlow::has_cdi_with_own_nodes(const ClaimRecord& record, const NodeView& view) const {
    if (record.shares.empty()) return true;
    auto text = named_cdi(record);
    if (!text) return false;
    const auto document = base::parse_json(*std::move(text));
    const auto file = document ? read_cdi_spec(document->root()) : tl::unexpected(document.error());
    return !file || gives_own_nodes(*file, record.shares, view.inventory);
}

std::size_t PrepareFlow::restore_cdi_files() {
    const auto stored = records_.load_all();
    if (!stored) return 0;
    const auto view = this->view();
    std::size_t restored = 0;
    const auto is_whole = [&](const ClaimRecord& record) {
        return is_current(record, *view) && has_cdi_with_own_nodes(record, *view);
    };
    for (const ClaimRecord& seen : stored->records) {
        if (seen.state != ClaimState::started || seen.boot_id != view->boot_id) continue;
        if (is_whole(seen)) continue;
        const auto held = locks_.hold_claim(seen.claim.uid, lock_patience);
        if (!held) continue;
        auto record = records_.load(seen.claim.uid);
        if (!record || !*record || (**record).state != ClaimState::started) continue;
        if (is_whole(**record)) continue;
        if (redo(*view, *std::move(*record))) ++restored;
    }
    return restored;
}

std::vector<ChangedShare> PrepareFlow::hold_to_limits() {
    std::vector<ChangedShare> changed;
    const auto stored = records_.load_all();
    if (!stored || !view()->rules) return changed;
    for (const ClaimRecord& record : stored->records)
        hold_claim_to_limits(record.claim.uid, changed);
    return changed;
}

void PrepareFlow::hold_claim_to_limits(const std::string& uid, std::vector<ChangedShare>& changed) {
    const auto held = locks_.hold_claim(uid, lock_patience);
    if (!held) return;
    const auto record = records_.load(uid);
    const auto view = this->view();
    if (!record || !*record || (**record).state != ClaimState::started) return;
    if ((**record).boot_id != view->boot_id) return;
    for (std::size_t i = 0; i < (**record).shares.size(); ++i) {
        const auto limits = limits_for(*view, **record, i);
        if (!limits) continue;
        const std::string name = share_name(uid, i);
        const auto was = folders_.change(name, *limits);
        if (was && *was) changed.push_back({name, limits->amounts});
    }
}

std::size_t PrepareFlow::sweep_tombstones() {
    // A time that lies ahead was written before the clock was set back.
    const auto is_old = [now = now()](std::int64_t time) {
        return now - time >= tombstone_seconds || time > now;
    };
    {
        constexpr std::int64_t second_ns = 1'000'000'000;
        const std::int64_t recent = now_asking() - tombstone_seconds * second_ns;
        const std::lock_guard lock(mutex_);
        std::erase_if(buried_, [&](const auto& entry) { return entry.second <= recent; });
    }
    std::size_t swept = 0;
    const auto stored = records_.load_all();
    if (!stored) return 0;
    for (const ClaimRecord& seen : stored->records) {
        if (seen.state != ClaimState::unprepared || !is_old(seen.time)) continue;
        const auto held = locks_.hold_claim(seen.claim.uid, lock_patience);
        const auto record = records_.load(seen.claim.uid);
        if (!held || !record || !*record || (**record).state != ClaimState::unprepared) continue;
        if (records_.erase(seen.claim.uid)) ++swept;
    }
    return swept;
}

/// A record names its build before the files that need it are made, under the lock that is held
/// here: what no record names now is needed by nobody, whichever agent began.
std::size_t PrepareFlow::sweep_libraries() {
    auto builds = libraries_.list();
    std::erase(builds, libraries_.current(false));
    std::erase(builds, libraries_.current(true));
    if (builds.empty()) return 0;
    const auto held = locks_.hold_sums(lock_patience);
    const auto stored = records_.load_all();
    if (!held || !stored || !stored->unreadable.empty()) return 0;
    for (const ClaimRecord& record : stored->records)
        std::erase(builds, record.library);
    return static_cast<std::size_t>(std::ranges::count_if(
        builds, [&](const std::string& build) { return libraries_.remove(build).has_value(); }));
}

std::int64_t PrepareFlow::count_cdi_files() const {
    const auto names = files_.list(paths_.cdi);
    if (!names) return 0;
    return std::ranges::count_if(
        *names, [](const std::string& name) { return claim_of_cdi_file(name).has_value(); });
}

std::size_t PrepareFlow::sweep() {
    std::size_t swept = sweep_tombstones() + sweep_libraries();
    std::set<std::string> uids;
    for (const std::string& name : files_.list(paths_.cdi).value_or(std::vector<std::string>())) {
        if (auto uid = claim_of_cdi_file(name); uid && is_claim_uid(*uid)) uids.insert(*uid);
    }
    for (const std::string& name : folders_.list().value_or(std::vector<std::string>())) {
        const std::string uid = name.substr(0, name.rfind('-'));
        if (is_claim_uid(uid)) uids.insert(uid);
    }
    for (const std::string& uid : uids) {
        const auto held = locks_.hold_claim(uid, lock_patience);
        const auto record = records_.load(uid);
        const bool dead = record && (!*record || (**record).state == ClaimState::unprepared);
        if (held && dead && remove_files(uid)) ++swept;
    }
    return swept;
}

Result<void> PrepareFlow::rebuild(ClaimRecord record) {
    const auto held = locks_.hold_claim(record.claim.uid, lock_patience);
    if (!held) return tl::unexpected(held.error());
    if (records_.load(record.claim.uid)) return {};  // somebody was faster
    if (auto kept = records_.set_aside(record.claim.uid); !kept) return kept;
    return records_.save(record);
}

}  // namespace drawbridge::agent
