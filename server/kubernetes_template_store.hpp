#pragma once
// Templates in a real cluster: written once, compared where they exist, remembered.

#include "kube/client/event.hpp"
#include "kube/client/rest_client.hpp"
#include "server/kubernetes_backend.hpp"
#include "server/template_cache.hpp"
#include "server/template_store.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace drawbridge::server {

/// A template that the cache holds costs no call. Any other is written: 201 is success, 409 is
/// compared with what is there. Calls for one template at one time are one call. A dry run only
/// reads, so that it foretells a conflict.
class KubernetesTemplateStore final : public TemplateStore {
public:
    struct Hooks {
        std::function<void(TemplateWrite)> write;
        std::function<void()> refused;  ///< 404 or 422: the server may have changed
    };

    /// `strand` is that of the client.
    KubernetesTemplateStore(boost::asio::any_io_executor strand, kube::client::RestClient& client,
                            Hooks hooks)
        : strand_(std::move(strand)), client_(client), hooks_(std::move(hooks)) {}

    boost::asio::awaitable<base::Result<void>> ensure(
        StoreCall call, const std::vector<kube::ClaimTemplate>& templates) override;
    boost::asio::awaitable<base::Result<bool>> exists(StoreCall call, std::string name) override;
    [[nodiscard]] std::size_t size() const override { return cache_.size(); }

    [[nodiscard]] TemplateCache& cache() { return cache_; }

private:
    /// One template on its way, and all who wait for it.
    struct Flight {
        explicit Flight(const boost::asio::any_io_executor& strand) : done(strand) {}
        kube::client::Event done;
        base::Result<void> result;
    };
    /// What one template needs; kept alive by the coroutine that works on it.
    struct Task {
        StoreCall call;
        kube::ClaimTemplate wanted;
        ContentDigest digest;
    };

    // All of these on the strand.
    boost::asio::awaitable<base::Result<void>> provide(Task task);
    boost::asio::awaitable<base::Result<void>> perform(const Task& task);
    boost::asio::awaitable<base::Result<void>> write(const Task& task);
    boost::asio::awaitable<base::Result<void>> compare(const Task& task);
    boost::asio::awaitable<base::Result<bool>> look(StoreCall call, std::string name);
    void count(const Task& task, TemplateWrite result);
    base::Result<void> explain(const Task& task, base::Error error);

    boost::asio::any_io_executor strand_;
    kube::client::RestClient& client_;
    Hooks hooks_;
    TemplateCache cache_;
    std::map<std::string, std::shared_ptr<Flight>> flights_;
};

}  // namespace drawbridge::server
