#include "agent/claim/record_store.hpp"

#include <fmt/format.h>

#include <utility>

namespace drawbridge::agent {
namespace {

using base::ErrorKind;
using base::Result;

constexpr std::string_view suffix = ".json";
constexpr std::size_t max_record = 1U << 20U;
constexpr mode_t record_mode = 0600;

}  // namespace

std::string RecordStore::path(std::string_view uid) const {
    return fmt::format("{}/{}{}", folder_, uid, suffix);
}

Result<std::optional<ClaimRecord>> RecordStore::load(std::string_view uid) const {
    const auto text = files_.read(path(uid), max_record);
    if (!text) {
        if (text.error().kind == ErrorKind::not_found) return std::nullopt;
        return tl::unexpected(text.error());
    }
    auto record = decode_record(*text);
    if (!record) {
        record.error().path = path(uid);
        return tl::unexpected(record.error());
    }
    if (record->claim.uid != uid)
        return base::fail(ErrorKind::invalid_input, "the record of another claim", path(uid));
    return std::optional(*std::move(record));
}

/// Notes whose records are to be read: those that have changed, or all.
Result<void> RecordStore::note_changes() const {
    auto changed = watch_->changed();
    if (!changed) {
        is_known_ = false;
        kept_.clear();
        all_ = {};
        stale_.clear();
    }
    if (!is_known_) {
        const auto names = files_.list(folder_);
        if (!names) return tl::unexpected(names.error());
        changed.emplace(names->begin(), names->end());
        is_known_ = true;
    }
    for (std::string_view name : *changed) {
        if (!name.ends_with(suffix)) continue;
        name.remove_suffix(suffix.size());
        if (is_claim_uid(name)) stale_.emplace(name);
    }
    return {};
}

Result<StoredClaims> RecordStore::load_all() const {
    const std::lock_guard lock(mutex_);
    if (auto noted = note_changes(); !noted) return tl::unexpected(noted.error());
    if (stale_.empty()) return StoredClaims{.records = all_};
    StoredClaims stored;
    for (const std::string& uid : std::exchange(stale_, {})) {
        kept_.erase(uid);
        auto record = load(uid);
        if (!record) {  // and so until it can be read
            stored.unreadable.push_back(uid);
            stale_.insert(uid);
        } else if (*record) {
            kept_.emplace(uid, std::make_shared<const ClaimRecord>(**std::move(record)));
        }
    }
    std::vector<ClaimRecords::Shared> all;
    for (const auto& [uid, record] : kept_)
        all.push_back(record);
    all_ = ClaimRecords(std::move(all));
    stored.records = all_;
    return stored;
}

Result<std::unique_ptr<Staged>> RecordStore::stage(const ClaimRecord& record) {
    return files_.stage(path(record.claim.uid), encode_record(record), record_mode);
}

Result<void> RecordStore::save(const ClaimRecord& record) {
    const bool ended = record.state == ClaimState::unprepared;
    return files_.write(path(record.claim.uid), encode_record(record),
                        ended ? WriteHow::durable : WriteHow::whole, record_mode);
}

Result<void> RecordStore::erase(std::string_view uid) {
    return files_.remove(path(uid));
}

Result<void> RecordStore::set_aside(std::string_view uid) {
    const auto text = files_.read(path(uid), max_record);
    if (!text) return tl::unexpected(text.error());
    return files_.write(fmt::format("{}/{}.damaged", folder_, uid), *text, WriteHow::durable,
                        record_mode);
}

}  // namespace drawbridge::agent
