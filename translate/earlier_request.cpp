#include "translate/earlier_request.hpp"

#include "translate/notes.hpp"
#include "translate/original.hpp"

#include <fmt/format.h>

namespace drawbridge::translate {

EarlierRequest::EarlierRequest(const PodView& pod, const std::vector<OwnEntry>& entries)
    : pod_(pod), entries_(entries) {
    if (entries.empty()) return;
    original_ = read_original(pod.pod);
    if (!original_) return;
    auto text = base::parse_json(restore_request(pod, original_->root()));
    if (!text) return;
    text_ = std::move(*text);
    restored_ = read_pod(text_->root()).containers;
    if (restored_.size() != pod.containers.size()) restored_.clear();
}

bool EarlierRequest::is_known(std::size_t index) const {
    if (index >= restored_.size()) return false;
    const ContainerView& container = pod_.containers[index];
    if (own_entry_of(container, entries_) == nullptr) return false;
    return original_->root()["containers"][container.name].is_object();
}

const ContainerView& EarlierRequest::container(std::size_t index) const {
    return is_known(index) ? restored_[index] : pod_.containers[index];
}

void EarlierRequest::note_kept(std::size_t index, const LegacyEntries& now,
                               Diagnostics& diagnostics) const {
    if (!is_known(index) || now.empty()) return;
    const ContainerView& container = pod_.containers[index];
    if (same_as_original(container, now, original_->root())) return;
    report(diagnostics, Code::claim_kept,
           {container.path / "resources", container.name, "resources", {}},
           fmt::format("{} keeps the claim made for the figures in annotation {}; others that came "
                       "later are dropped",
                       quoted_container(container), original_annotation));
}

}  // namespace drawbridge::translate
