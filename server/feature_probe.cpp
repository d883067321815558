#include "server/feature_probe.hpp"

#include "kube/client/backoff.hpp"
#include "translate/feature_trial.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace drawbridge::server {

namespace asio = boost::asio;
using base::ErrorKind;
using kube::client::Event;
using std::chrono::steady_clock;
using translate::Features;

namespace {

constexpr int oldest_supported =
    35;  // 1.34 takes the objects and schedules them wrongly (dra.md 3.3)
constexpr std::chrono::seconds call_time(15);
constexpr std::chrono::minutes usual_pause(10);
constexpr std::chrono::minutes short_pause(1);  // while two minors answer
constexpr std::chrono::seconds least_pause(2);  // however often `ask_soon` is called

}  // namespace

void MinorWindow::add(int minor) {
    constexpr std::size_t looked_at = 3;
    minors_.push_back(minor);
    if (minors_.size() > looked_at) minors_.pop_front();
}

int MinorWindow::oldest() const {
    return minors_.empty() ? 0 : *std::ranges::min_element(minors_);
}

bool MinorWindow::differs() const {
    return std::ranges::any_of(minors_, [this](int minor) { return minor != minors_.front(); });
}

FeatureProbe::FeatureProbe(asio::any_io_executor executor, kube::client::RestClient& client,
                           std::string name_space, translate::Target target, Report report)
    : executor_(std::move(executor)),
      client_(client),
      name_space_(std::move(name_space)),
      target_(std::move(target)),
      report_(std::move(report)),
      wake_(std::make_shared<Event>(executor_)) {}

void FeatureProbe::ask_soon() {
    wake_->set();
}

asio::awaitable<void> FeatureProbe::run(std::function<double()> random) {
    while (true) {
        wake_ = std::make_shared<Event>(executor_);
        Outcome outcome = co_await probe();
        if (client_.stopping().is_set()) co_return;
        const auto pause = take(std::move(outcome), random());
        const auto asked = steady_clock::now();
        const auto wake = wake_;
        co_await wake->wait(asked + pause);
        // Many refused writes in a row are one reason, not many.
        if (pause > least_pause && co_await client_.stopping().wait(asked + least_pause)) co_return;
        if (client_.stopping().is_set()) co_return;
    }
}

/// Keeps what is known, tells it, and says when to ask again.
std::chrono::milliseconds FeatureProbe::take(Outcome outcome, double random) {
    if (outcome.findings) {
        known_ = outcome.findings;
        known_text_ = outcome.text;
    } else if (known_) {
        outcome.text = fmt::format("{} (the last probe failed: {})", known_text_, outcome.text);
    } else if (outcome.answered) {
        // The server is there and does not let us find out: never translate, and say why (design.md
        // decision 6).
        known_ = Findings{minors_.oldest(), Features::gate_off};
        known_text_ = outcome.text;
    }
    report_(known_, outcome.text);
    if (outcome.findings || outcome.answered) {
        failures_ = 0;
        return minors_.differs() ? short_pause : usual_pause;
    }
    return kube::client::backoff(++failures_, random);
}

asio::awaitable<FeatureProbe::Outcome> FeatureProbe::probe() {
    // Named, here and below: g++ 12 destroys a braced temporary inside a co_await twice.
    kube::client::ApiCall request{.target = "/version",
                                  .deadline = steady_clock::now() + call_time};
    const auto version = co_await client_.call_json(std::move(request));
    if (!version) co_return Outcome{std::nullopt, version.error().message, false};
    const auto minor = translate::read_minor(version->root());
    if (!minor) {
        co_return Outcome{std::nullopt, "GET /version: the answer names no Kubernetes 1.x version",
                          false};
    }
    minors_.add(*minor);
    const int oldest = minors_.oldest();
    if (oldest < oldest_supported) {
        co_return Outcome{
            Findings{oldest, Features::too_old},
            fmt::format(
                "Kubernetes 1.{} is too old: 1.{} is the first whose scheduler shares devices "
                "rightly",
                oldest, oldest_supported),
            true};
    }
    co_return co_await try_template(oldest);
}

asio::awaitable<base::Result<base::JsonDocument>> FeatureProbe::send(kube::ClaimSpec spec) {
    kube::client::ApiCall request{
        .method = "POST",
        .target =
            fmt::format("/apis/resource.k8s.io/v1/namespaces/{}/resourceclaimtemplates?dryRun=All",
                        name_space_),
        .body = translate::trial_json(spec),
        .deadline = steady_clock::now() + call_time};
    co_return co_await client_.call_json(std::move(request));
}

asio::awaitable<FeatureProbe::Outcome> FeatureProbe::try_template(int minor) {
    kube::ClaimSpec asked = translate::trial_spec(target_);
    auto answer = co_await send(asked);
    std::string also;
    if (!answer && answer.error().kind == ErrorKind::invalid_input) {
        // A server that drops distinctAttribute finds the constraint empty and refuses the whole
        // (seen on 1.36.3): what else it drops is told by the same template without constraint.
        asked.constraints.clear();
        auto bare = co_await send(asked);
        if (bare) {
            answer = std::move(bare);
            also = "distinctAttribute (DRAConsumableCapacity)";
        }
    }
    if (!answer) co_return refused(minor, answer.error());
    std::string dropped =
        translate::dropped_fields(asked, answer->root().find("/spec/spec/devices"));
    if (!also.empty()) dropped += (dropped.empty() ? "" : ", ") + also;
    if (dropped.empty()) {
        co_return Outcome{Findings{minor, Features::complete},
                          fmt::format("Kubernetes 1.{} keeps all fields of our templates", minor),
                          true};
    }
    co_return Outcome{Findings{minor, Features::gate_off},
                      fmt::format("Kubernetes 1.{} drops {}", minor, dropped), true};
}

FeatureProbe::Outcome FeatureProbe::refused(int minor, const base::Error& error) const {
    if (error.kind == ErrorKind::unavailable || error.kind == ErrorKind::timed_out) {
        return {std::nullopt, error.message, false};
    }
    std::string text =
        fmt::format("Kubernetes 1.{}: the trial of a template in namespace {} was refused: {}",
                    minor, name_space_, error.message);
    if (error.kind == ErrorKind::not_found) {
        return {Findings{minor, Features::gate_off},
                text + " (resource.k8s.io/v1 is not served, or the namespace does not exist)",
                true};
    }
    return {std::nullopt, std::move(text), true};
}

}  // namespace drawbridge::server
