#include "translate/claim_shape.hpp"

#include <algorithm>

namespace drawbridge::translate {

namespace {

bool is_cap(std::int64_t cores) {
    return cores > 0 && cores < 100;
}

}  // namespace

bool can_share(const ClaimShape& left, const ClaimShape& right) {
    const bool capped =
        (left.cores == 0 && is_cap(right.cores)) || (right.cores == 0 && is_cap(left.cores));
    return left.count == right.count && left.priority == right.priority && !capped;
}

ClaimShape peak(const ClaimShape& left, const ClaimShape& right) {
    ClaimShape result = left;
    result.cores = std::max(left.cores, right.cores);
    result.memory.all = left.memory.all || right.memory.all;
    result.memory.mib = std::max(left.memory.mib, right.memory.mib);
    result.memory.percent =
        result.memory.all ? 0 : std::max(left.memory.percent, right.memory.percent);
    return result;
}

std::int64_t memory_on(const MemoryDemand& memory, std::int64_t size) {
    if (memory.all) return std::max(memory.mib, size);
    return std::max(memory.mib, size * memory.percent / 100);
}

Growth growth(const ClaimShape& shape, const ClaimShape& other,
              const std::vector<std::int64_t>& sizes) {
    // Without a fleet any size tells; the greatest that a figure may have keeps `all` above every
    // figure.
    static const std::vector<std::int64_t> unknown = {std::int64_t{1} << 31U};
    const ClaimShape grown = peak(shape, other);
    Growth result{0, grown.cores - shape.cores, 0};
    if (grown.memory.all) result.least_card = grown.memory.mib - shape.memory.mib;
    for (const std::int64_t size : sizes.empty() ? unknown : sizes) {
        result.memory += memory_on(grown.memory, size) - memory_on(shape.memory, size);
    }
    return result;
}

}  // namespace drawbridge::translate
