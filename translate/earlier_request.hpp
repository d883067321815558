#pragma once
// What a pod that carries our claims already asked for when it got them.

#include "base/json.hpp"
#include "translate/legacy_request.hpp"
#include "translate/pod_view.hpp"
#include "translate/scope.hpp"

#include <optional>
#include <vector>

namespace drawbridge::translate {

/// A namespace's LimitRange has defaults for legacy names too. The API server applies it again in
/// the round after our patch, which took the names away, and so puts its own figures where the
/// pod's were (seen on 1.36.3; dra.md 6.4). What counts is what the pod asked for at first, which
/// its annotation says; that is believed only where it comes to the very template that the pod's
/// claim names.
class EarlierRequest {
public:
    /// `pod` and `entries` must live as long as this.
    EarlierRequest(const PodView& pod, const std::vector<OwnEntry>& entries);
    EarlierRequest(const EarlierRequest&) = delete;
    EarlierRequest& operator=(const EarlierRequest&) = delete;

    /// The container whose request is to be read: as it was at first where it has a claim of ours
    /// and the annotation tells of it, else as it is.
    [[nodiscard]] const ContainerView& container(std::size_t index) const;
    /// Reports that a container of the former sort keeps its claim, if the figures that it has now
    /// (`now` are their names) are others.
    void note_kept(std::size_t index, const LegacyEntries& now, Diagnostics& diagnostics) const;

private:
    [[nodiscard]] bool is_known(std::size_t index) const;

    const PodView& pod_;
    const std::vector<OwnEntry>& entries_;
    std::optional<base::JsonDocument> original_;
    std::optional<base::JsonDocument> text_;  ///< the restored containers; views point into it
    std::vector<ContainerView> restored_;
};

}  // namespace drawbridge::translate
