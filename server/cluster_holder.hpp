#pragma once
// What this process knows of the cluster, swapped as a whole under its readers.

#include "server/snapshot.hpp"
#include "translate/translate.hpp"

#include <memory>
#include <utility>

namespace drawbridge::server {

/// Holds the current snapshot; any thread may read or replace it.
class ClusterHolder {
public:
    explicit ClusterHolder(translate::Cluster cluster)
        : snapshot_(std::make_shared<const translate::Cluster>(std::move(cluster))) {}

    [[nodiscard]] std::shared_ptr<const translate::Cluster> current() const {
        return snapshot_.current();
    }
    void replace(translate::Cluster cluster) {
        snapshot_.replace(std::make_shared<const translate::Cluster>(std::move(cluster)));
    }

private:
    Snapshot<const translate::Cluster> snapshot_;
};

}  // namespace drawbridge::server
