#pragma once
// Performs prepare and unprepare of one claim, step by step on disk (docs/life_of_a_prepare.md).

#include "agent/cdi/enforcement.hpp"
#include "agent/cdi/library_store.hpp"
#include "agent/claim/claim_facts.hpp"
#include "agent/claim/claim_locks.hpp"
#include "agent/claim/claim_record.hpp"
#include "agent/claim/record_store.hpp"
#include "agent/device/inventory.hpp"
#include "agent/files.hpp"
#include "agent/share/share_folders.hpp"
#include "base/clock.hpp"
#include "base/result.hpp"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace drawbridge::agent {

/// Where the agent keeps what.
struct FlowPaths {
    std::string claims = {};     ///< folder of the records
    std::string shares = {};     ///< folder of the share folders
    std::string libraries = {};  ///< folder of the preload library's builds
    std::string cdi = {};        ///< folder of the CDI files
    std::string lock = {};       ///< lock file
};

/// What is prepared against; swapped as a whole when devices or settings change.
struct NodeView {
    std::string pool = {};  ///< the node's name
    std::string boot_id = {};
    Inventory inventory = {};
    ContainerView container = {};
    /// Nothing: not known yet, and shares keep the limits that they have.
    std::optional<ShareRules> rules = std::nullopt;

    [[nodiscard]] bool operator==(const NodeView&) const = default;
};

/// What the API server says of a claim, and when it was asked.
struct ClaimLookup {
    base::Result<ClaimFacts> facts;
    std::int64_t asked = 0;  ///< `PrepareFlow::now_asking` before the question
};

/// A share whose limits were changed under its containers.
struct ChangedShare {
    std::string name = {};
    Amounts amounts = {};
};

/// A device as the kubelet is told of it.
struct PreparedShare {
    std::string request = {};
    std::string pool = {};
    std::string device = {};
    std::string cdi_id = {};
    std::string share_id = {};

    [[nodiscard]] bool operator==(const PreparedShare&) const = default;
};

/// Called with the name of each step before it is done, so that tests can stop there.
using StepHook = std::function<void(std::string_view)>;

/// Any thread; calls block on the disk and on the claim's lock. The state is in the files alone:
/// another instance of the agent may work on the same ones.
class PrepareFlow {
public:
    PrepareFlow(Files& files, const base::Clock& clock, FlowPaths paths, StepHook hook = {});

    /// Makes these bytes of the preload library what new claims get, and lays them on disk, the
    /// front when a claim gets it; where that fails, it is tried again at each prepare. Before the
    /// first other call.
    [[nodiscard]] base::Result<void> offer_library(LibraryBytes library);

    void set_view(NodeView view);
    [[nodiscard]] std::shared_ptr<const NodeView> view() const;

    /// A number for a lookup that begins now: what is unprepared later than that is known to have
    /// been, by whichever instance. Nanoseconds of the steady clock, each number once.
    [[nodiscard]] std::int64_t now_asking();

    /// Prepares a claim, or answers as before. The stored answer is given without the API server's
    /// word only where nothing has to be decided: prepared, in this boot.
    [[nodiscard]] base::Result<std::vector<PreparedShare>> prepare(const ClaimName& claim,
                                                                   const ClaimLookup& lookup);
    /// Takes back all that was made for a claim, whatever is there of it. Needs no device and no
    /// API server; a disk that is full does not stop it.
    [[nodiscard]] base::Result<void> unprepare(std::string_view uid);

    /// `unprepare`, if the claim's record is still what it was; whether it was.
    [[nodiscard]] base::Result<bool> unprepare_if(const ClaimRecord& seen);

    /// Makes missing CDI files of claims of this boot again, and what else a crash has kept from
    /// being made of them; says how many. Where nothing has changed since all was well, it asks for
    /// no claim's files.
    [[nodiscard]] std::size_t restore_cdi_files();
    /// Removes share folders and CDI files that belong to no record, builds of the preload library
    /// that no record names, and tombstones that have served their time; says how many.
    [[nodiscard]] std::size_t sweep();
    /// Holds the shares of this boot to the administrator's rules, and ends changes of limits that
    /// were left half done. Where no record and no rule has changed since all were held to them, it
    /// reads those limits alone that somebody has written.
    [[nodiscard]] std::vector<ChangedShare> hold_to_limits();
    [[nodiscard]] std::int64_t count_cdi_files() const;
    /// All claims with files on this node.
    [[nodiscard]] base::Result<StoredClaims> stored() const { return records_.load_all(); }
    /// What is kept of one claim; nothing where it is unknown.
    [[nodiscard]] base::Result<std::optional<ClaimRecord>> record(std::string_view uid) const {
        return records_.load(uid);
    }
    /// Stores a record found by other means in place of one that cannot be read; its files are made
    /// at the next prepare.
    [[nodiscard]] base::Result<void> rebuild(ClaimRecord record);

    [[nodiscard]] const ShareFolders& folders() const { return folders_; }
    [[nodiscard]] const FlowPaths& paths() const { return paths_; }

private:
    /// The kubelet waits 45 s for an answer and comes again after that.
    static constexpr std::chrono::seconds lock_patience{20};

    using Answer = std::vector<PreparedShare>;
    struct Work;
    /// A claim that counts, and the text of the CDI file that its record names.
    struct Begun {
        ClaimRecord record;
        std::string cdi;
    };

    base::Result<Answer> prepare_again(const Work& work, ClaimRecord record);
    base::Result<Answer> prepare_new(const Work& work);
    base::Result<Begun> begin(const Work& work);
    base::Result<Begun> plan(const Work& work);
    base::Result<Begun> begin_again(const NodeView& view, ClaimRecord record);
    base::Result<Answer> finish(const NodeView& view, const Begun& begun);
    base::Result<Begun> renew(const NodeView& view, ClaimRecord record);
    [[nodiscard]] base::Result<std::string> build_for(const NodeView& view) const;
    base::Result<void> retire_folders(const NodeView& view, const ClaimRecord& record);
    base::Result<Answer> redo(const NodeView& view, ClaimRecord record);
    base::Result<void> make_files(const NodeView& view, const ClaimRecord& record);
    [[nodiscard]] static std::optional<ShareLimits> limits_for(const NodeView& view,
                                                               const ClaimRecord& record,
                                                               std::size_t index);
    void hold_claim_to_limits(const std::string& uid, std::vector<ChangedShare>& changed);
    [[nodiscard]] bool is_old(const FileStamp& stamp) const;
    [[nodiscard]] bool has_known_limits(const ClaimRecord& record);
    [[nodiscard]] bool has_libraries_of(const ClaimRecords& records) const;
    bool restore_claim(const ClaimRecord& seen, const NodeView& view);
    base::Result<void> make_metadata(const NodeView& view, const ClaimRecord& record);
    base::Result<void> check_tombstone(const Work& work, const ClaimRecord* record) const;
    [[nodiscard]] std::int64_t ended(const Work& work, const ClaimRecord* record) const;
    [[nodiscard]] std::string cdi_text(const ClaimRecord& record, const NodeView& view) const;
    [[nodiscard]] Begun named(const NodeView& view, ClaimRecord record) const;
    base::Result<Begun> store(Begun begun);
    [[nodiscard]] bool is_current(const ClaimRecord& record, const NodeView& view) const;
    [[nodiscard]] bool has_cdi(const ClaimRecord& record) const;
    [[nodiscard]] std::optional<std::string> named_cdi(const ClaimRecord& record) const;
    [[nodiscard]] bool has_cdi_with_own_nodes(const ClaimRecord& record,
                                              const NodeView& view) const;
    base::Result<void> end_claim(std::string_view uid, const ClaimRecord* record);
    base::Result<void> remove_files(std::string_view uid);
    base::Result<void> bury(std::string_view uid, const ClaimRecord* record);
    std::size_t sweep_tombstones();
    std::size_t sweep_libraries();
    [[nodiscard]] std::string cdi_path(std::string_view uid) const;
    [[nodiscard]] std::int64_t now() const;
    void step(std::string_view name) const {
        if (hook_) hook_(name);
    }

    Files& files_;
    const base::Clock& clock_;
    FlowPaths paths_;
    StepHook hook_;
    RecordStore records_;
    ShareFolders folders_;
    LibraryStore libraries_;
    ClaimLocks locks_;
    std::atomic<std::int64_t> asked_ = 0;
    mutable std::mutex mutex_;
    std::shared_ptr<const NodeView> view_;
    std::map<std::string, std::int64_t, std::less<>> buried_;  ///< when they ended, by UID

    /// What was there when all was found well.
    struct Settled {
        std::shared_ptr<const NodeView> view;  ///< null: it never was
        ClaimRecords records;
        [[nodiscard]] bool is_still(const Settled& now) const {
            return view == now.view && records.are_those(now.records);
        }
    };
    std::mutex upkeep_mutex_;  ///< for what follows
    std::unique_ptr<FolderWatch> cdi_watch_;
    Settled whole_;  ///< all CDI files
    Settled held_;   ///< all limits
    /// Limits that were right when they were read, by share; nothing: there are to be none.
    std::map<std::string, std::optional<FileStamp>> known_;
};

/// The answer that a record stands for.
[[nodiscard]] std::vector<PreparedShare> answer_of(const ClaimRecord& record);

}  // namespace drawbridge::agent
