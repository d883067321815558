#pragma once
// Many records at once.

#include "agent/claim/claim_record.hpp"

#include <cstddef>
#include <initializer_list>
#include <memory>
#include <utility>
#include <vector>

namespace drawbridge::agent {

/// A list of records that others may have too: to copy it copies nothing. Iterates over
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

    ClaimRecords() : ClaimRecords(std::vector<Shared>()) {}
    ClaimRecords(std::initializer_list<ClaimRecord> records) : ClaimRecords(shared(records)) {}
    explicit ClaimRecords(std::vector<Shared> records)
        : records_(std::make_shared<const std::vector<Shared>>(std::move(records))) {}

    /// Whether these are the very same records: none has been read anew.
    [[nodiscard]] bool are_those(const ClaimRecords& other) const {
        return records_ == other.records_ || *records_ == *other.records_;
    }
    [[nodiscard]] Iterator begin() const { return Iterator(records_->begin()); }
    [[nodiscard]] Iterator end() const { return Iterator(records_->end()); }

private:
    static std::vector<Shared> shared(std::initializer_list<ClaimRecord> records) {
        std::vector<Shared> all;
        for (const ClaimRecord& record : records)
            all.push_back(std::make_shared<const ClaimRecord>(record));
        return all;
    }

    std::shared_ptr<const std::vector<Shared>> records_;
};

}  // namespace drawbridge::agent
