#pragma once
// What this process knows of the cluster, swapped as a whole under its readers.

#include "translate/translate.hpp"

#include <atomic>
#include <memory>
#include <utility>

namespace drawbridge::server {

/// Holds the current snapshot; any thread may read or replace it.
class ClusterHolder {
public:
    explicit ClusterHolder(translate::Cluster cluster)
        : current_(std::make_shared<const translate::Cluster>(std::move(cluster))) {}

    [[nodiscard]] std::shared_ptr<const translate::Cluster> current() const {
        return current_.load();
    }
    void replace(translate::Cluster cluster) {
        current_.store(std::make_shared<const translate::Cluster>(std::move(cluster)));
    }

private:
    std::atomic<std::shared_ptr<const translate::Cluster>> current_;
};

}  // namespace drawbridge::server
