#pragma once
// Many records at once.

#include "agent/claim/claim_record.hpp"

#include <cstddef>
#include <initializer_list>
#include <memory>
#include <utility>
#include <vector>

namespace drawbridge::agent {

/// A list of records that others may have too: to copy it copies none of them. Iterates over
/// `const ClaimRecord&`.
class ClaimRecords {
public:
    using Shared = std::shared_ptr<const ClaimRecord>;

    class Iterator {
    public:
        using value_type = ClaimRecord;
        using difference_type = std::ptrdiff_t;

        Iterator() = default;
        explicit Iterator(std::vector<Shared>::const_iterator at) : at_(at) {}
        const ClaimRecord& operator*() const { return **at_; }
        const ClaimRecord* operator->() const { return at_->get(); }
        Iterator& operator++() {
            ++at_;
            return *this;
        }
        Iterator operator++(int) { return Iterator(at_++); }
        [[nodiscard]] bool operator==(const Iterator&) const = default;

    private:
        std::vector<Shared>::const_iterator at_;
    };

    ClaimRecords() = default;
    ClaimRecords(std::initializer_list<ClaimRecord> records) {
        for (const ClaimRecord& record : records)
            add(std::make_shared<const ClaimRecord>(record));
    }

    void add(Shared record) { records_.push_back(std::move(record)); }
    /// Whether these are the very same records: none has been read anew.
    [[nodiscard]] bool are_those(const ClaimRecords& other) const {
        return records_ == other.records_;
    }
    [[nodiscard]] Iterator begin() const { return Iterator(records_.begin()); }
    [[nodiscard]] Iterator end() const { return Iterator(records_.end()); }

private:
    std::vector<Shared> records_;
};

}  // namespace drawbridge::agent
