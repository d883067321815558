#pragma once
// What a claim's status says of the devices that were prepared for it (KEP-4817): pure content of
// the call, and what its answer means.

#include "agent/api/outbox.hpp"
#include "agent/claim/claim_record.hpp"
#include "base/json.hpp"
#include "base/result.hpp"

#include <string>
#include <string_view>

namespace drawbridge::agent {

/// Key of the notice of a claim.
[[nodiscard]] std::string status_key(std::string_view claim_uid);

/// The call that makes `status.devices` of a claim ours: one entry for each share, keyed by driver,
/// pool, device and share ID, with condition `Ready` and the share's GPU and limits as data. A
/// server-side apply, so that entries of other drivers stay; bound to the claim's UID. The same
/// text for the same record.
[[nodiscard]] Notice status_notice(const ClaimRecord& record);

/// kept: it is in the claim. dropped: the server has no such field (gate
/// DRAResourceClaimDeviceStatus). gone: the claim, its allocation or the right to write are.
/// failed: to be tried again.
enum class StatusEnd { kept, dropped, gone, failed };

/// What an answer to `status_notice` means, after that many failures before it.
[[nodiscard]] StatusEnd status_end(const base::Result<base::JsonDocument>& answer, int failures);

}  // namespace drawbridge::agent
