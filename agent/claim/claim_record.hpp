#pragma once
// What the agent keeps of a claim on disk, and its form there.

#include "agent/claim/claim_facts.hpp"
#include "base/result.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace drawbridge::agent {

/// started: it counts in all sums, and its files are being made or are there. Which of both is told
/// by its CDI file, which is made last: the claim is prepared where that is the one the record
/// names. unprepared: a tombstone, so that a call that comes late is known (node-agent.md 3).
enum class ClaimState { started, unprepared };

/// A part of a device that was given to a claim, and what the container is told of it.
struct Share {
    std::string request = {};
    std::string subrequest = {};  ///< of a request with alternatives: the one that was chosen
    std::string pool = {};
    std::string device = {};
    std::string uuid = {};  ///< of the GPU: what the share is tied to
    std::string share_id = {};
    Amounts amounts = {};
    bool admin = false;  ///< sees the device, has no limits and takes nothing
    ShareConfig config = {};

    [[nodiscard]] bool operator==(const Share&) const = default;
};

struct ClaimRecord {
    ClaimName claim = {};
    std::string pod_claim = {};          ///< name of the pod's entry; empty: it is of no template
    std::vector<std::string> pods = {};  ///< names of those that it was reserved for
    ClaimState state = ClaimState::started;
    std::string boot_id = {};     ///< in which its files were made; empty: not known
    std::string cdi_digest = {};  ///< of the CDI file that its containers get; empty: of none
    std::string library = {};     ///< build of the preload library that it names; empty: none
    std::vector<Share> shares = {};
    std::int64_t time = 0;  ///< Unix seconds of the last change of state
    /// Of a tombstone: when the claim ended, in nanoseconds of the steady clock, which all
    /// processes of a boot have in common; 0: not known.
    std::int64_t ended_ns = 0;
    /// Fields of a later version, as JSON texts, which are written back as they came.
    std::vector<std::pair<std::string, std::string>> unknown = {};

    [[nodiscard]] bool operator==(const ClaimRecord&) const = default;
};

/// `<claim UID>-<n>`: name of a share's folder and of its CDI device. Two shares of one device in
/// one claim differ in it.
[[nodiscard]] std::string share_name(std::string_view claim_uid, std::size_t index);

/// Whether a text can be the UID of a claim and so part of a file name: an API server makes UUIDs.
[[nodiscard]] bool is_claim_uid(std::string_view text);

/// The file: one line of JSON with version and checksum, and nothing behind its line end.
[[nodiscard]] std::string encode_record(const ClaimRecord& record);

/// Reads it back. `invalid_input`: not whole, or changed; `unavailable`: of a later version that
/// this agent cannot read.
[[nodiscard]] base::Result<ClaimRecord> decode_record(std::string_view text);

}  // namespace drawbridge::agent
