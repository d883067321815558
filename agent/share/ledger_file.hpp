#pragma once
// One opened ledger: read by copy, since a tenant who cuts a mapped file would end its reader.

#include "agent/share/ledger_copy.hpp"
#include "agent/share/process_table.hpp"
#include "base/result.hpp"

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace drawbridge::agent {

/// Holds the file open. Closing it lets go of the locks that were taken through it.
class LedgerFile {
public:
    /// `not_found`, or `internal` where it is no regular file of the right size.
    [[nodiscard]] static base::Result<LedgerFile> open(const std::string& path);
    LedgerFile(LedgerFile&& other) noexcept;
    LedgerFile& operator=(LedgerFile&&) = delete;
    ~LedgerFile();

    [[nodiscard]] base::Result<LedgerCopy> read() const;
    /// Whether it still has its name and size: what was removed is not what lies there now.
    [[nodiscard]] bool is_there() const;
    /// Whether another open file has the slot's byte locked: its owner lives. True where the file
    /// system has no such locks.
    [[nodiscard]] bool is_held(std::size_t slot) const;
    /// Empties a slot whose owner is still `owner`, under the slot's lock; whether it did.
    [[nodiscard]] bool clear(std::size_t slot, const SlotOwner& owner) const;

private:
    LedgerFile(int file, std::string path) : file_(file), path_(std::move(path)) {}
    [[nodiscard]] base::Result<std::string> part(std::size_t offset, std::size_t size) const;
    [[nodiscard]] bool write(std::size_t offset, std::size_t size) const;

    int file_;
    std::string path_;
};

/// Frees the slots of `copy` whose owners are gone, and gives their places. `processes` is asked
/// once, after it is known which slots nobody holds, and only if there are any: a table from before
/// would lack who came meanwhile.
[[nodiscard]] std::vector<std::size_t> reap(const LedgerFile& file, const LedgerCopy& copy,
                                            const std::function<ProcessTable()>& processes);

}  // namespace drawbridge::agent
