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

/// Whether a file was written so long ago that it would have another stamp if it had been written
/// since.
bool PrepareFlow::is_old(const FileStamp& stamp) const {
    constexpr std::int64_t tick_ns = 1'000'000'000;
    const std::chrono::nanoseconds now = clock_.now().time_since_epoch();
    return stamp.changed_ns < now.count() - tick_ns;
}

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

bool PrepareFlow::has_libraries_of(const ClaimRecords& records) const {
    std::set<std::string_view> builds;
    for (const ClaimRecord& record : records)
        builds.insert(record.library);
    return std::ranges::all_of(builds, [&](std::string_view b) { return libraries_.has(b); });
}

std::size_t PrepareFlow::restore_cdi_files() {
    const std::lock_guard lock(upkeep_mutex_);
    const auto changed = cdi_watch_->changed();
    const auto stored = records_.load_all();
    if (!stored) return 0;
    const Settled now{view(), stored->records};
    const bool untouched = changed && changed->empty() && whole_.is_still(now);
    if (untouched && has_libraries_of(now.records)) return 0;
    whole_ = now;
    std::size_t restored = 0;
    for (const ClaimRecord& seen : now.records) {
        if (seen.state != ClaimState::started || seen.boot_id != now.view->boot_id) continue;
        if (is_current(seen, *now.view) && has_cdi_with_own_nodes(seen, *now.view)) continue;
        whole_ = {};
        if (restore_claim(seen, *now.view)) ++restored;
    }
    return restored;
}

/// Whether it had to be and could.
bool PrepareFlow::restore_claim(const ClaimRecord& seen, const NodeView& view) {
    const auto held = locks_.hold_claim(seen.claim.uid, lock_patience);
    if (!held) return false;
    auto record = records_.load(seen.claim.uid);
    if (!record || !*record || (**record).state != ClaimState::started) return false;
    if (is_current(**record, view) && has_cdi_with_own_nodes(**record, view)) return false;
    return redo(view, *std::move(*record)).has_value();
}

std::vector<ChangedShare> PrepareFlow::hold_to_limits() {
    std::vector<ChangedShare> changed;
    const std::lock_guard lock(upkeep_mutex_);
    const auto stored = records_.load_all();
    if (!stored) return changed;
    Settled now{view(), stored->records};
    if (!now.view->rules) return changed;
    if (!held_.is_still(now)) known_.clear();
    held_ = now;
    for (const ClaimRecord& record : now.records) {
        if (record.state != ClaimState::started || record.boot_id != now.view->boot_id) continue;
        if (!has_known_limits(record)) hold_claim_to_limits(record.claim.uid, changed);
    }
    return changed;
}

bool PrepareFlow::has_known_limits(const ClaimRecord& record) {
    for (std::size_t i = 0; i < record.shares.size(); ++i) {
        const std::string name = share_name(record.claim.uid, i);
        const auto known = known_.find(name);
        if (known == known_.end() || folders_.limits_stamp(name) != known->second) return false;
    }
    return true;
}

void PrepareFlow::hold_claim_to_limits(const std::string& uid, std::vector<ChangedShare>& changed) {
    const auto held = locks_.hold_claim(uid, lock_patience);
    if (!held) return;
    const auto record = records_.load(uid);
    const auto view = this->view();
    if (!record || !*record || (**record).state != ClaimState::started) return;
    if ((**record).boot_id != view->boot_id) return;
    for (std::size_t i = 0; i < (**record).shares.size(); ++i) {
        const std::string name = share_name(uid, i);
        const auto stamp = folders_.limits_stamp(name);
        const auto limits = limits_for(*view, **record, i);
        const auto was = limits ? folders_.change(name, *limits) : Result<bool>(false);
        if (was && *was) changed.push_back({name, limits->amounts});
        known_.erase(name);
        if (was && !*was && (!stamp || is_old(*stamp))) known_.emplace(name, stamp);
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
    const auto stored = records_.load_all();
    if (!stored) return swept;
    for (const ClaimRecord& record : stored->records) {
        if (record.state != ClaimState::unprepared) uids.erase(record.claim.uid);
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
