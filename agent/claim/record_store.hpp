#pragma once
// The records of all claims on this node: a file for each, so that damage stays where it is and a
// write costs the same however many there are.

#include "agent/claim/claim_record.hpp"
#include "agent/claim/claim_records.hpp"
#include "agent/files.hpp"
#include "base/result.hpp"

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace drawbridge::agent {

/// What is on disk. `unreadable` are UIDs whose file is damaged or of a later version: what those
/// claims hold is not known.
struct StoredClaims {
    ClaimRecords records = {};  ///< in the order of their UIDs
    std::vector<std::string> unreadable = {};
};

/// Whoever changes a claim's record holds its lock (claim_locks.hpp). Any thread. What was read is
/// kept, and read again when its file has changed: the sums want all records at each prepare.
class RecordStore {
public:
    RecordStore(Files& files, std::string folder)
        : files_(files), folder_(std::move(folder)), watch_(files.watch(folder_)) {}

    [[nodiscard]] base::Result<StoredClaims> load_all() const;
    /// Nothing where the claim has no record; an error as `decode_record` gives it.
    [[nodiscard]] base::Result<std::optional<ClaimRecord>> load(std::string_view uid) const;
    /// That a claim has ended is on disk when it returns: what it held is given to others, and it
    /// must not hold it again. Of another record a power cut leaves this one or the one before: no
    /// container outlives it, and the next prepare goes on from either.
    [[nodiscard]] base::Result<void> save(const ClaimRecord& record);
    /// What `save` does for a claim that is prepared, up to where it is seen.
    [[nodiscard]] base::Result<std::unique_ptr<Staged>> stage(const ClaimRecord& record);
    [[nodiscard]] base::Result<void> erase(std::string_view uid);
    /// Keeps a damaged file under another name, for people.
    [[nodiscard]] base::Result<void> set_aside(std::string_view uid);

private:
    [[nodiscard]] std::string path(std::string_view uid) const;
    base::Result<void> note_changes() const;

    Files& files_;
    std::string folder_;
    mutable std::mutex mutex_;
    std::unique_ptr<FolderWatch> watch_;
    mutable std::map<std::string, ClaimRecords::Shared> kept_;  ///< by UID
    mutable ClaimRecords all_;                                  ///< that are in `kept_`
    mutable std::set<std::string> stale_;                       ///< UIDs: to be read
    mutable bool is_known_ = false;  ///< whether `kept_` and `stale_` are all that there is
};

}  // namespace drawbridge::agent
