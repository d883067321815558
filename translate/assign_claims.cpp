#include "translate/assign_claims.hpp"

#include <algorithm>

namespace drawbridge::translate {

namespace {

/// The claim that grows least to serve the shape too, among those whose owner is of a kind.
ClaimAssignment* cheapest(std::vector<ClaimAssignment>& claims, ContainerKind owner_kind,
                          const std::vector<ContainerView>& containers, const ClaimShape& shape,
                          const std::vector<std::int64_t>& sizes) {
    ClaimAssignment* best = nullptr;
    Growth least;
    for (ClaimAssignment& claim : claims) {
        if (containers[claim.owner].kind != owner_kind || !can_share(claim.shape, shape)) continue;
        const Growth cost = growth(claim.shape, shape, sizes);
        if (best != nullptr && cost >= least) continue;
        best = &claim;
        least = cost;
    }
    return best;
}

}  // namespace

std::vector<ClaimAssignment> assign_claims(const std::vector<ContainerView>& containers,
                                           const std::vector<std::optional<ClaimShape>>& shapes,
                                           const std::vector<std::int64_t>& sizes) {
    std::vector<ClaimAssignment> claims;
    std::vector<std::size_t> inits;
    for (std::size_t index = 0; index < containers.size(); ++index) {
        if (!shapes[index]) continue;
        if (containers[index].kind == ContainerKind::init) {
            inits.push_back(index);
        } else {
            claims.push_back({*shapes[index], index, {index}});
        }
    }
    // The greatest compute first: a claim that has grown to a whole card can serve those with and
    // without a figure.
    std::ranges::stable_sort(
        inits, [&](auto left, auto right) { return shapes[left]->cores > shapes[right]->cores; });
    for (const std::size_t index : inits) {
        const ClaimShape& shape = *shapes[index];
        ClaimAssignment* home = cheapest(claims, ContainerKind::main, containers, shape, sizes);
        if (home == nullptr) home = cheapest(claims, ContainerKind::init, containers, shape, sizes);
        if (home == nullptr) {
            claims.push_back({shape, index, {index}});
            continue;
        }
        home->shape = peak(home->shape, shape);
        home->containers.push_back(index);
        if (containers[home->owner].kind == ContainerKind::init) {
            home->owner = std::min(home->owner, index);
        }
    }
    for (ClaimAssignment& claim : claims)
        std::ranges::sort(claim.containers);
    std::ranges::sort(claims, {}, &ClaimAssignment::owner);
    return claims;
}

}  // namespace drawbridge::translate
