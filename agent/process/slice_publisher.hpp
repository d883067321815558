#pragma once
// Keeps the node's ResourceSlices as they should be (node-agent.md 7).

#include "agent/api/publish_plan.hpp"
#include "agent/device/inventory.hpp"
#include "agent/process/cluster_api.hpp"
#include "kube/client/event.hpp"
#include "kube/client/watcher.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace drawbridge::agent {

/// How the last try to publish went.
struct PublishState {
    bool published = false;  ///< the API server has what it should have
    std::int64_t generation = 0;
    std::size_t devices = 0;
    std::string trouble = {};  ///< why not, or what is missing; empty: nothing
};

struct PublisherHooks {
    std::function<void(const PublishState&)> state;
    /// After each try that had something to write; success or not.
    std::function<void(bool)> wrote;
    /// Whether a node with that many legacy devices may be served (node-agent.md 13).
    std::function<bool(std::int64_t)> accepts_legacy;
};

/// Everything on the strand.
class SlicePublisher final : private kube::client::WatchSink {
public:
    SlicePublisher(boost::asio::any_io_executor strand, ClusterApi& api, std::string node,
                   PublisherHooks hooks);

    /// Publishes and watches until the client is stopped. `random` gives numbers in [0, 1).
    [[nodiscard]] boost::asio::awaitable<void> run(std::function<double()> random);
    [[nodiscard]] boost::asio::awaitable<void> watch(std::function<double()> random);

    /// What is to be published from now on. Nothing is before the first call.
    void offer(Inventory inventory);
    /// Looks at everything again, soon.
    void check();

private:
    void list_begun() override;
    void put(base::JsonView object) override;
    void list_complete() override;
    void erase(base::JsonView object) override;

    boost::asio::awaitable<base::Result<void>> publish();
    boost::asio::awaitable<base::Result<void>> learn_node();
    boost::asio::awaitable<base::Result<bool>> write_all();
    boost::asio::awaitable<base::Result<bool>> rehearse(const std::vector<SliceWrite>& writes);
    bool take_dropped(const std::vector<std::string>& dropped);
    void look_at_watch();
    void count_contest();
    [[nodiscard]] std::chrono::milliseconds pause(double random) const;
    void wake();
    void tell(const base::Result<void>& done);

    boost::asio::any_io_executor strand_;
    ClusterApi& api_;
    std::string node_;
    PublisherHooks hooks_;
    kube::client::Watcher watcher_;
    std::shared_ptr<kube::client::Event> wake_;
    std::optional<Inventory> inventory_;
    NodeIdentity identity_;
    SliceFeatures features_;
    std::map<std::string, SeenSlice> watched_;
    bool listed_ = false;
    bool missed_ = false;   ///< the watch told of something while we were publishing
    bool refused_ = false;  ///< a device plugin hands out the same GPUs
    bool offered_ = false;  ///< something else than before, since the last round
    bool wrote_ = false;    ///< in this round
    int contests_ = 0;      ///< rounds of late that wrote the same as the one before
    std::chrono::steady_clock::time_point contested_at_;  ///< the last of them
    PublishState state_;
};

}  // namespace drawbridge::agent
