#include "agent/record_store.hpp"

#include <fmt/format.h>

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

Result<StoredClaims> RecordStore::load_all() const {
    const auto names = files_.list(folder_);
    if (!names) return tl::unexpected(names.error());
    StoredClaims stored;
    for (std::string_view name : *names) {
        if (!name.ends_with(suffix)) continue;
        name.remove_suffix(suffix.size());
        if (!is_claim_uid(name)) continue;
        auto record = load(name);
        if (record && *record) {
            stored.records.push_back(*std::move(*record));
        } else if (!record) {
            stored.unreadable.emplace_back(name);
        }
    }
    return stored;
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
