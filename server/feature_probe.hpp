#pragma once
// What this API server can do: its version, and whether it keeps every field our templates need.

#include "base/json.hpp"
#include "base/result.hpp"
#include "kube/claim_model.hpp"
#include "kube/client/rest_client.hpp"
#include "translate/translate.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>

#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace drawbridge::server {

/// The oldest minor among the last few answers: during an upgrade one address stands for API
/// servers of two minors, and the older one must understand what is written (design.md decision 6).
class MinorWindow {
public:
    void add(int minor);
    /// Of what was added; 0 where nothing was.
    [[nodiscard]] int oldest() const;
    /// Whether the answers differ, so that the next should come soon.
    [[nodiscard]] bool differs() const;

private:
    std::deque<int> minors_;
};

/// What is known; never taken back by a probe that fails.
struct Findings {
    int minor = 0;
    translate::Features features = translate::Features::gate_off;
};

/// Asks again and again: after a failure soon, else every ten minutes, and soon after `ask_soon`.
class FeatureProbe {
public:
    /// The outcome of one probe: what is known now, and in words why, or why nothing is.
    using Report = std::function<void(const std::optional<Findings>&, const std::string& text)>;

    FeatureProbe(boost::asio::any_io_executor executor, kube::client::RestClient& client,
                 std::string name_space, translate::Target target, Report report);

    /// Runs until the client is stopped.
    [[nodiscard]] boost::asio::awaitable<void> run(std::function<double()> random);
    /// A write was answered in a way that a change of the server would explain; also ends a wait
    /// for `stop`.
    void ask_soon();
    void retarget(const translate::Target& target) { target_ = target; }

private:
    struct Outcome {
        std::optional<Findings> findings;  ///< none: nothing new was learned
        std::string text;
        bool answered = false;  ///< the API server itself answered
    };
    boost::asio::awaitable<Outcome> probe();
    boost::asio::awaitable<Outcome> try_template(int minor);
    boost::asio::awaitable<base::Result<base::JsonDocument>> send(kube::ClaimSpec spec);
    [[nodiscard]] Outcome refused(int minor, const base::Error& error) const;
    [[nodiscard]] std::chrono::milliseconds take(Outcome outcome, double random);

    boost::asio::any_io_executor executor_;
    kube::client::RestClient& client_;
    std::string name_space_;
    translate::Target target_;
    Report report_;
    MinorWindow minors_;
    std::optional<Findings> known_;
    std::string known_text_;
    int failures_ = 0;
    std::shared_ptr<kube::client::Event> wake_;
};

}  // namespace drawbridge::server
