#pragma once
// The templates that this server wrote, as the cluster has them: feeds the cache and takes back
// what was deleted.

#include "kube/client/watcher.hpp"
#include "server/template_cache.hpp"

#include <string>

namespace drawbridge::server {

/// What is watched: templates of all namespaces with our label (design.md decision 18).
[[nodiscard]] kube::client::WatchTarget template_target();

class TemplateWatch final : public kube::client::WatchSink {
public:
    explicit TemplateWatch(TemplateCache& cache) : cache_(cache) {}

    void list_begun() override { cache_.list_begun(); }
    /// A template whose content is none of ours is forgotten, so that the next review compares it
    /// and says so.
    void put(base::JsonView object) override;
    void list_complete() override { cache_.list_complete(); }
    void erase(base::JsonView object) override;

private:
    TemplateCache& cache_;
};

}  // namespace drawbridge::server
