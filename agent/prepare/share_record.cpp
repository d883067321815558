#include "agent/prepare/share_record.hpp"

#include <utility>

namespace drawbridge::agent {

std::optional<RecordedShare> find_share(const PrepareFlow& flow, std::string_view name) {
    const std::string_view uid = name.substr(0, name.rfind('-'));
    if (!is_claim_uid(uid)) return std::nullopt;
    auto record = flow.record(uid);
    if (!record || !*record) return std::nullopt;
    for (std::size_t i = 0; i < (**record).shares.size(); ++i) {
        if (share_name(uid, i) != name) continue;
        Share share = (**record).shares[i];
        return RecordedShare{*std::move(*record), std::move(share)};
    }
    return std::nullopt;
}

}  // namespace drawbridge::agent
