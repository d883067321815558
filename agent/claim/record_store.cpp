#include "agent/claim/record_store.hpp"

#include <fmt/format.h>

#include <algorithm>
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

Result<std::shared_ptr<const ClaimRecord>> RecordStore::look(std::string_view uid) const {
    // Before the file is read: what is written in between has another stamp the next time.
    const auto stamp = files_.stamp(path(uid));
    if (stamp) {
        const std::lock_guard lock(mutex_);
        const auto found = kept_.find(uid);
        if (found != kept_.end() && found->second.stamp == *stamp) return found->second.record;
    }
    auto loaded = load(uid);
    if (!loaded) return tl::unexpected(loaded.error());
    if (!*loaded) return nullptr;
    auto record = std::make_shared<const ClaimRecord>(**std::move(loaded));
    if (stamp && stamp->settled) {
        const std::lock_guard lock(mutex_);
        kept_.insert_or_assign(std::string(uid), Kept{*stamp, record});
    }
    return record;
}

void RecordStore::forget_others(const std::vector<std::string>& names) const {
    const std::lock_guard lock(mutex_);
    std::erase_if(kept_, [&](const auto& entry) {
        return !std::ranges::binary_search(names, fmt::format("{}{}", entry.first, suffix));
    });
}

Result<StoredClaims> RecordStore::load_all() const {
    const auto names = files_.list(folder_);
    if (!names) return tl::unexpected(names.error());
    forget_others(*names);
    StoredClaims stored;
    stored.records.reserve(names->size());
    for (std::string_view name : *names) {
        if (!name.ends_with(suffix)) continue;
        name.remove_suffix(suffix.size());
        if (!is_claim_uid(name)) continue;
        const auto record = look(name);
        if (record && *record) {
            stored.records.push_back(**record);
        } else if (!record) {
            stored.unreadable.emplace_back(name);
        }
    }
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
