#include "server/template_watch.hpp"

namespace drawbridge::server {

kube::client::WatchTarget template_target() {
    return {.path = "/apis/resource.k8s.io/v1/resourceclaimtemplates",
            .selection = "labelSelector=app.kubernetes.io%2Fmanaged-by%3Ddrawbridge"};
}

void TemplateWatch::put(base::JsonView object) {
    const base::JsonView metadata = object["metadata"];
    const std::string_view name_space = metadata["namespace"].string_or("");
    const std::string_view name = metadata["name"].string_or("");
    const auto spec = kube::claim_spec_from_json(object.find("/spec/spec/devices"));
    // One that is being deleted is as good as gone.
    if (spec && metadata["deletionTimestamp"].is_absent()) {
        cache_.confirm(name_space, name, content_digest(*spec));
    } else {
        cache_.erase(name_space, name);
    }
}

void TemplateWatch::erase(base::JsonView object) {
    const base::JsonView metadata = object["metadata"];
    cache_.erase(metadata["namespace"].string_or(""), metadata["name"].string_or(""));
}

}  // namespace drawbridge::server
