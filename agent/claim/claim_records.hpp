#pragma once
// Many records at once.

#include "agent/claim/claim_record.hpp"

#include <boost/iterator/indirect_iterator.hpp>

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

    ClaimRecords() = default;
    ClaimRecords(std::initializer_list<ClaimRecord> records) {
        for (const ClaimRecord& record : records)
            add(std::make_shared<const ClaimRecord>(record));
    }

    void add(Shared record) { records_.push_back(std::move(record)); }
    [[nodiscard]] std::size_t size() const { return records_.size(); }
    [[nodiscard]] auto begin() const { return boost::make_indirect_iterator(records_.begin()); }
    [[nodiscard]] auto end() const { return boost::make_indirect_iterator(records_.end()); }

private:
    std::vector<Shared> records_;
};

}  // namespace drawbridge::agent
