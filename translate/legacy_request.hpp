#pragma once
// What the five legacy resource names of one container ask for, as HAMi reads them
// (legacy-requests.md 1.3, 1.4).

#include "translate/claim_shape.hpp"
#include "translate/diagnostic.hpp"
#include "translate/pod_view.hpp"
#include "translate/settings.hpp"

#include <string_view>
#include <vector>

namespace drawbridge::translate {

/// One container's request. A shape with count 0 means no device, only names to strip.
struct LegacyRequest {
    ClaimShape shape;
    bool only_count = false;     ///< nothing but the count was written
    bool count_unclear = false;  ///< devices are asked for in a way that was refused
};

/// The legacy names that stand in a container, in limits and in requests.
struct LegacyEntries {
    std::vector<std::string_view> limits;
    std::vector<std::string_view> requests;
    [[nodiscard]] bool empty() const { return limits.empty() && requests.empty(); }
};

/// The resource by which a shape is a share of a card; the count for whole cards.
[[nodiscard]] const std::string& sharing_resource(const ClaimShape& shape,
                                                  const ResourceNames& names);

/// All configured names, none empty.
[[nodiscard]] std::vector<std::string_view> legacy_names(const ResourceNames& names);
[[nodiscard]] LegacyEntries find_legacy(base::JsonView container,
                                        const std::vector<std::string_view>& names);

/// Reads and checks a container's demand. What is wrong goes to `diagnostics`; then the result
/// means nothing.
[[nodiscard]] LegacyRequest read_legacy_request(const ContainerView& container,
                                                const Settings& settings, Diagnostics& diagnostics);

}  // namespace drawbridge::translate
