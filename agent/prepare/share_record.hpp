#pragma once
// From a share's folder to the claim that it is of.

#include "agent/claim/claim_record.hpp"
#include "agent/prepare/prepare_flow.hpp"

#include <optional>
#include <string_view>

namespace drawbridge::agent {

/// A share with the record of its claim.
struct RecordedShare {
    ClaimRecord record = {};
    Share share = {};
};

/// Reads the record of the claim whose share has that name; nothing where there is none, or it has
/// no such share. Any thread; blocks on the disk.
[[nodiscard]] std::optional<RecordedShare> find_share(const PrepareFlow& flow,
                                                      std::string_view name);

}  // namespace drawbridge::agent
