#pragma once
// Keeps a copy of a collection current: lists it, watches it, and starts again where that is
// needed.

#include "base/json.hpp"
#include "base/result.hpp"
#include "kube/client/rest_client.hpp"
#include "kube/client/watch_lines.hpp"
#include "kube/client/watch_state.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace drawbridge::kube::client {

/// Who keeps the copy. Called on the strand of the client, in order.
class WatchSink {
public:
    virtual ~WatchSink() = default;
    /// A new list begins; what it does not hold when it is complete is gone. A list may begin again
    /// before that.
    virtual void list_begun() = 0;
    /// An object of the list, or one that was added or changed.
    virtual void put(base::JsonView object) = 0;
    virtual void list_complete() = 0;
    virtual void erase(base::JsonView object) = 0;
};

struct WatchTarget {
    std::string path;  ///< of the collection
    std::string
        selection;  ///< query parts that select, already encoded: `labelSelector=...`; empty: all
    int page_size = 100;
    std::size_t max_page = 32U << 20U;  ///< bytes
    std::size_t max_event = 8U << 20U;  ///< bytes
    std::chrono::seconds stream_time =
        std::chrono::seconds(300);  ///< after which the server ends a watch
};

/// Told of each failure, and with nothing when all is well again.
using WatchHealth = std::function<void(const std::optional<base::Error>&)>;

class Watcher {
public:
    Watcher(boost::asio::any_io_executor executor, RestClient& client, WatchTarget target,
            WatchSink& sink, WatchHealth health);

    /// Runs until the client is stopped or `cancel` is called. `random` gives numbers in [0, 1).
    [[nodiscard]] boost::asio::awaitable<void> run(std::function<double()> random);
    /// Ends `run`; the sink hears nothing more.
    void cancel();

private:
    boost::asio::awaitable<WatchEvent> act(const WatchAction& action, double random);
    boost::asio::awaitable<WatchEvent> list(const std::string& continue_token);
    boost::asio::awaitable<WatchEvent> watch(const std::string& resource_version, double random);
    boost::asio::awaitable<WatchEvent> read();
    WatchEvent take_page(base::JsonView list);
    WatchEvent take_line(std::string line);
    WatchEvent report(WatchStep step, const base::Error& error);
    WatchEvent drop_stream(WatchStep step);
    [[nodiscard]] bool is_over() const { return cancelled_ || client_.stopping().is_set(); }

    RestClient& client_;
    WatchTarget target_;
    WatchSink& sink_;
    WatchHealth health_;
    std::unique_ptr<ApiStream> stream_;
    LineCutter lines_;
    std::chrono::steady_clock::time_point opened_;
    std::chrono::steady_clock::time_point cut_at_;
    std::shared_ptr<Event> wake_;  ///< ends a wait
    bool cancelled_ = false;
    bool sick_ = true;  ///< nothing good has come since the last failure
};

}  // namespace drawbridge::kube::client
