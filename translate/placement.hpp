#pragma once
// What the pod's annotations say of the devices that may serve it (legacy-requests.md 2.1).

#include "base/json.hpp"
#include "translate/diagnostic.hpp"
#include "translate/settings.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace drawbridge::translate {

/// Which devices may serve, in normal form: lists sorted, without duplicates, types in upper case.
struct Placement {
    std::vector<std::string> use_types;
    std::vector<std::string> nouse_types;
    std::vector<std::string> use_uuids;
    std::vector<std::string> nouse_uuids;
    bool one_numa_node = false;
    bool whole_card = false;           ///< policy `mutex`
    const ModeTarget* mode = nullptr;  ///< devices of another class; points into the settings

    [[nodiscard]] bool restricts() const {
        return one_numa_node || whole_card || mode != nullptr || !use_types.empty() ||
               !nouse_types.empty() || !use_uuids.empty() || !nouse_uuids.empty();
    }
};

/// All configured names, none empty.
[[nodiscard]] std::vector<std::string_view> annotation_names(const AnnotationNames& names);

/// Reads the annotations of a pod that asks for devices; reports what cannot be kept.
[[nodiscard]] Placement read_placement(base::JsonView pod, const Settings& settings,
                                       Diagnostics& diagnostics);

}  // namespace drawbridge::translate
