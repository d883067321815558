#include "agent/prepare/prepare_flow.hpp"

#include "agent/claim/limit_rules.hpp"
#include "agent/prepare/device_metadata.hpp"
#include "agent/prepare/prepare.hpp"
#include "base/hash.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace drawbridge::agent {
namespace {

using base::ErrorKind;
using base::fail;
using base::Result;

constexpr std::size_t max_cdi = 4U << 20U;
constexpr mode_t cdi_mode = 0644;
constexpr std::size_t digest_chars = 32;

std::string digest_of(std::string_view text) {
    return base::base32_lower(base::sha256(text), digest_chars);
}

}  // namespace

/// One call of prepare.
struct PrepareFlow::Work {
    const ClaimName& claim;
    const ClaimLookup& lookup;
    std::shared_ptr<const NodeView> view;
};

std::vector<PreparedShare> answer_of(const ClaimRecord& record) {
    std::vector<PreparedShare> answer;
    for (std::size_t i = 0; i < record.shares.size(); ++i) {
        const Share& share = record.shares[i];
        answer.push_back({.request = share.request,
                          .pool = share.pool,
                          .device = share.device,
                          .cdi_id = cdi_id(share_name(record.claim.uid, i)),
                          .share_id = share.share_id});
    }
    return answer;
}

PrepareFlow::PrepareFlow(Files& files, const base::Clock& clock, FlowPaths paths, StepHook hook)
    : files_(files),
      clock_(clock),
      paths_(std::move(paths)),
      hook_(std::move(hook)),
      records_(files, paths_.claims),
      folders_(files, paths_.shares),
      libraries_(files, paths_.libraries),
      locks_(paths_.lock),
      view_(std::make_shared<const NodeView>()),
      cdi_watch_(files.watch(paths_.cdi)) {}

Result<void> PrepareFlow::offer_library(LibraryBytes library) {
    libraries_.offer(std::move(library));
    return libraries_.ensure(libraries_.current());
}

void PrepareFlow::set_view(NodeView view) {
    auto next = std::make_shared<const NodeView>(std::move(view));
    const std::lock_guard lock(mutex_);
    view_.swap(next);
}

std::shared_ptr<const NodeView> PrepareFlow::view() const {
    const std::lock_guard lock(mutex_);
    return view_;
}

std::int64_t PrepareFlow::now() const {
    return std::chrono::duration_cast<std::chrono::seconds>(clock_.now().time_since_epoch())
        .count();
}

std::int64_t PrepareFlow::now_asking() {
    const auto now = std::chrono::nanoseconds(clock_.steady().time_since_epoch()).count();
    std::int64_t before = asked_;
    while (!asked_.compare_exchange_weak(before, std::max<std::int64_t>(before + 1, now))) {
    }
    return std::max<std::int64_t>(before + 1, now);
}

std::string PrepareFlow::cdi_path(std::string_view uid) const {
    return fmt::format("{}/{}", paths_.cdi, cdi_file_name(uid));
}

// ------------------------------------------------------------------------------------- prepare

Result<PrepareFlow::Answer> PrepareFlow::prepare(const ClaimName& claim,
                                                 const ClaimLookup& lookup) {
    if (!is_claim_uid(claim.uid)) return fail(ErrorKind::invalid_input, "that is no claim's UID");
    const auto held = locks_.hold_claim(claim.uid, lock_patience);
    if (!held) return tl::unexpected(held.error());
    auto record = records_.load(claim.uid);
    if (!record) return tl::unexpected(record.error());
    const Work work{claim, lookup, view()};
    if (lookup.facts && lookup.facts->claim.uid != claim.uid) {
        return fail(ErrorKind::conflict,
                    fmt::format("the claim was replaced: {}/{} has UID {} now", claim.name_space,
                                claim.name, lookup.facts->claim.uid));
    }
    const ClaimRecord* found = *record ? &**record : nullptr;
    if (found != nullptr && found->state != ClaimState::unprepared)
        return prepare_again(work, *std::move(*record));
    if (auto checked = check_tombstone(work, found); !checked)
        return tl::unexpected(checked.error());
    return prepare_new(work);
}

/// When the claim was unprepared in this boot, by this instance or another one; 0: never.
std::int64_t PrepareFlow::ended(const Work& work, const ClaimRecord* record) const {
    const bool is_told = record != nullptr && record->boot_id == work.view->boot_id;
    const std::lock_guard lock(mutex_);
    const auto buried = buried_.find(work.claim.uid);
    return std::max(is_told ? record->ended_ns : 0, buried == buried_.end() ? 0 : buried->second);
}

/// A call that was under way while the claim was unprepared must not bring it back: the kubelet
/// has done with it. One that asked the API server later goes by what that says.
Result<void> PrepareFlow::check_tombstone(const Work& work, const ClaimRecord* record) const {
    const bool late = work.lookup.asked <= ended(work, record);
    if (late || (record != nullptr && !work.lookup.facts))
        return fail(ErrorKind::conflict, "the claim was unprepared while it was asked for");
    return {};
}

Result<PrepareFlow::Answer> PrepareFlow::prepare_again(const Work& work, ClaimRecord record) {
    const NodeView& view = *work.view;
    const bool whole = is_current(record, view) && has_cdi(record);
    if (!work.lookup.facts) {
        if (whole) return answer_of(record);
        return tl::unexpected(work.lookup.facts.error());
    }
    if (!is_same_allocation(record.shares, *work.lookup.facts)) {
        return fail(ErrorKind::conflict,
                    "the claim's allocation is not the one that was prepared; it must be "
                    "unprepared first");
    }
    if (whole) return answer_of(record);
    return redo(view, std::move(record));
}

/// Whether the claim was begun in this boot, and the build that its files name is there.
bool PrepareFlow::is_current(const ClaimRecord& record, const NodeView& view) const {
    return record.state == ClaimState::started && record.boot_id == view.boot_id &&
           libraries_.has(record.library);
}

/// Makes the files of a claim that was begun before, with its stored shares; its containers keep
/// the build of the library that they were given in this boot.
Result<PrepareFlow::Answer> PrepareFlow::redo(const NodeView& view, ClaimRecord record) {
    if (auto checked = check_devices(record.shares, view.inventory); !checked)
        return tl::unexpected(checked.error());
    auto begun = is_current(record, view) ? begin_again(view, std::move(record))
                                          : renew(view, std::move(record));
    if (!begun) return tl::unexpected(begun.error());
    return finish(view, *begun);
}

/// The record names the CDI file before that is made: a file that it does not name is of a crash.
Result<PrepareFlow::Begun> PrepareFlow::begin_again(const NodeView& view, ClaimRecord record) {
    const std::string digest = record.cdi_digest;
    Begun begun = named(view, std::move(record));
    if (begun.record.cdi_digest == digest) return begun;
    return store(std::move(begun));
}

/// Begins a stored claim anew in this boot, with the current build. Whoever removes builds holds
/// the sums' lock, and finds the record behind it.
Result<PrepareFlow::Begun> PrepareFlow::renew(const NodeView& view, ClaimRecord record) {
    if (auto retired = retire_folders(view, record); !retired)
        return tl::unexpected(retired.error());
    const auto held = locks_.hold_sums(lock_patience);
    if (!held) return tl::unexpected(held.error());
    auto build = build_for(view);
    if (!build) return tl::unexpected(build.error());
    record.state = ClaimState::started;
    record.boot_id = view.boot_id;
    record.library = *std::move(build);
    return store(named(view, std::move(record)));
}

/// The build that a claim gets which begins now. A node that is to have the front gives out nothing
/// without it.
Result<std::string> PrepareFlow::build_for(const NodeView& view) const {
    const bool front = view.container.replace_libcuda;
    if (front && libraries_.current(front).empty()) {
        return fail(ErrorKind::unavailable,
                    "the node's settings have replaceLibcuda, and there is no "
                    "libdrawbridge-libcuda.so beside what --library names");
    }
    return libraries_.current(front);
}

/// Removes the folders of an earlier boot, before the record says that they are of this one: none
/// of its containers runs. Of a record that was rebuilt the boot is not known, and whole limits
/// tell it; whatever is not known to be of an earlier boot stays.
Result<void> PrepareFlow::retire_folders(const NodeView& view, const ClaimRecord& record) {
    if (record.boot_id == view.boot_id) return {};
    for (std::size_t i = 0; i < record.shares.size(); ++i) {
        const std::string name = share_name(record.claim.uid, i);
        if (record.boot_id.empty()) {
            const auto limits = folders_.limits(name);
            if (!limits || uuid_bytes(limits->boot_id) == uuid_bytes(view.boot_id)) continue;
        }
        step("retire");
        if (auto removed = folders_.remove(name); !removed) return removed;
    }
    return {};
}

Result<PrepareFlow::Answer> PrepareFlow::prepare_new(const Work& work) {
    if (!work.lookup.facts) return tl::unexpected(work.lookup.facts.error());
    const auto begun = begin(work);
    if (!begun) return tl::unexpected(begun.error());
    return finish(*work.view, *begun);
}

/// Checks and stores what the claim is given, so that it counts in all sums from here on. The disk
/// is waited for before the sums are locked: no claim waits for another's.
Result<PrepareFlow::Begun> PrepareFlow::begin(const Work& work) {
    auto begun = plan(work);
    if (!begun) return begun;
    step("begin");
    const auto staged = records_.stage(begun->record);
    if (!staged) return tl::unexpected(staged.error());
    const auto held = locks_.hold_sums(lock_patience);
    if (!held) return tl::unexpected(held.error());
    const auto stored = records_.load_all();
    if (!stored) return tl::unexpected(stored.error());
    if (!stored->unreadable.empty()) {
        return fail(ErrorKind::unavailable,
                    fmt::format("what claim {} holds is not known, since its record cannot be "
                                "read; it is being rebuilt",
                                stored->unreadable.front()));
    }
    const PrepareView beside{work.view->pool, work.view->inventory, stored->records};
    if (auto fits = plan_prepare(*work.lookup.facts, beside); !fits)
        return tl::unexpected(fits.error());
    auto build = build_for(*work.view);
    if (!build) return tl::unexpected(build.error());
    if (*build != begun->record.library) {  // another one has come meanwhile
        begun->record.library = *std::move(build);
        return store(named(*work.view, std::move(begun->record)));
    }
    if (auto seen = (*staged)->commit(); !seen) return tl::unexpected(seen.error());
    return begun;
}

/// What the claim is given where nothing else is: whether that fits is known under the lock alone.
Result<PrepareFlow::Begun> PrepareFlow::plan(const Work& work) {
    const PrepareView view{work.view->pool, work.view->inventory, {}};
    auto shares = plan_prepare(*work.lookup.facts, view);
    if (!shares) return tl::unexpected(shares.error());
    auto build = build_for(*work.view);
    if (!build) return tl::unexpected(build.error());
    ClaimRecord record{.claim = work.claim,
                       .pod_claim = work.lookup.facts->pod_claim,
                       .pods = pods_of(*work.lookup.facts),
                       .state = ClaimState::started,
                       .boot_id = work.view->boot_id,
                       .library = *std::move(build),
                       .shares = *std::move(shares),
                       .time = now()};
    return named(*work.view, std::move(record));
}

/// The claim with the CDI file that it gets in this view. One without a device of ours (all results
/// of other drivers) has nothing to inject, and gets none.
PrepareFlow::Begun PrepareFlow::named(const NodeView& view, ClaimRecord record) const {
    Begun begun{.record = std::move(record), .cdi = {}};
    begun.record.cdi_digest.clear();
    if (begun.record.shares.empty()) return begun;
    begun.cdi = cdi_text(begun.record, view);
    begun.record.cdi_digest = digest_of(begun.cdi);
    return begun;
}

/// The one write of a prepare that is waited for: what the claim holds, and what its files will be.
Result<PrepareFlow::Begun> PrepareFlow::store(Begun begun) {
    begun.record.time = now();
    step("begin");
    if (auto saved = records_.save(begun.record); !saved) return tl::unexpected(saved.error());
    return begun;
}

Result<void> PrepareFlow::make_files(const NodeView& view, const ClaimRecord& record) {
    step("library");
    if (auto there = libraries_.ensure(record.library); !there) return there;
    for (std::size_t i = 0; i < record.shares.size(); ++i) {
        const auto limits = limits_for(view, record, i);
        if (!limits) continue;
        step("share");
        auto made = folders_.create(share_name(record.claim.uid, i), *limits);
        if (!made) return made;
    }
    return view.container.metadata ? make_metadata(view, record) : Result<void>();
}

Result<void> PrepareFlow::make_metadata(const NodeView& view, const ClaimRecord& record) {
    for (const MetadataFile& file : metadata_files(record, view.inventory)) {
        step("metadata");
        const std::string path =
            fmt::format("{}/{}/{}", paths_.shares, share_name(record.claim.uid, file.share),
                        metadata_file_name);
        auto written = files_.write(path, file.text, WriteHow::atomic, cdi_mode);
        if (!written) return written;
    }
    return {};
}

/// Nothing for a share without limits, and for one whose device is not known.
std::optional<ShareLimits> PrepareFlow::limits_for(const NodeView& view, const ClaimRecord& record,
                                                   std::size_t index) {
    Share share = record.shares[index];
    const Offer* offer = view.inventory.find_uuid(share.uuid);
    if (share.admin || offer == nullptr) return std::nullopt;
    share.amounts = held_to(share.amounts, view.rules.value_or(ShareRules()).limits, record);
    return limits_of(record.claim.uid, index, view.boot_id, share, offer->device);
}

std::string PrepareFlow::cdi_text(const ClaimRecord& record, const NodeView& view) const {
    ContainerView container = view.container;
    container.library = libraries_.files(record.library);
    CdiSpec spec = claim_spec(record.claim.uid, record.shares, view.inventory, container);
    if (container.metadata)
        add_metadata_mounts(spec, record, view.inventory, container.shares_folder);
    return cdi_json(spec);
}

/// Makes the files of a stored claim, its CDI file last: where that is, all of them are.
Result<PrepareFlow::Answer> PrepareFlow::finish(const NodeView& view, const Begun& begun) {
    const ClaimRecord& record = begun.record;
    if (auto made = make_files(view, record); !made) return tl::unexpected(made.error());
    if (!record.shares.empty()) {
        step("cdi");
        auto written =
            files_.write(cdi_path(record.claim.uid), begun.cdi, WriteHow::atomic, cdi_mode);
        if (!written) return tl::unexpected(written.error());
    }
    step("answer");
    return answer_of(record);
}

bool PrepareFlow::has_cdi(const ClaimRecord& record) const {
    return record.shares.empty() || named_cdi(record);
}

/// The text of the claim's CDI file; nothing where that is not the one that the record names.
std::optional<std::string> PrepareFlow::named_cdi(const ClaimRecord& record) const {
    auto text = files_.read(cdi_path(record.claim.uid), max_cdi);
    if (!text || digest_of(*text) != record.cdi_digest) return std::nullopt;
    return *std::move(text);
}

}  // namespace drawbridge::agent
