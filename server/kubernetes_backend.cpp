#include "server/kubernetes_backend.hpp"

#include "kube/client/credentials.hpp"
#include "kube/client/http_transport.hpp"
#include "kube/client/rest_client.hpp"
#include "kube/client/watcher.hpp"
#include "server/feature_probe.hpp"
#include "server/fleet_watch.hpp"
#include "server/kubernetes_template_store.hpp"
#include "server/template_watch.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/strand.hpp>
#include <fmt/format.h>

#include <exception>
#include <mutex>
#include <optional>
#include <random>
#include <utility>

namespace drawbridge::server {

namespace asio = boost::asio;
namespace client = drawbridge::kube::client;
using base::ErrorKind;
using base::Result;

std::string_view name(TemplateWrite result) {
    switch (result) {
        case TemplateWrite::created:
            return "created";
        case TemplateWrite::exists:
            return "exists";
        case TemplateWrite::conflict:
            return "conflict";
        case TemplateWrite::refused:
            return "refused";
        case TemplateWrite::failed:
            return "failed";
        case TemplateWrite::timed_out:
            break;
    }
    return "timed_out";
}

namespace {

/// What other threads ask.
class Status {
public:
    void set_probe(bool known, const std::string& text) {
        const std::lock_guard lock(mutex_);
        feature_text_ = text;
        probe_gap_ = known ? "" : "no answer from the API server yet: " + text;
    }
    void set_slices(const std::string& gap) {
        const std::lock_guard lock(mutex_);
        slices_gap_ = gap.empty() ? "" : "the ResourceSlices have not been listed yet: " + gap;
    }
    [[nodiscard]] std::vector<std::string> gaps() const {
        const std::lock_guard lock(mutex_);
        std::vector<std::string> out;
        for (const std::string& gap : {probe_gap_, slices_gap_}) {
            if (!gap.empty()) out.push_back(gap);
        }
        return out;
    }
    [[nodiscard]] std::string feature_text() const {
        const std::lock_guard lock(mutex_);
        return feature_text_;
    }

private:
    mutable std::mutex mutex_;
    std::string feature_text_ = "not probed yet";
    std::string probe_gap_ = "no answer from the API server yet: not asked yet";
    std::string slices_gap_ = "the ResourceSlices have not been listed yet: not asked yet";
};

/// A sink and the watcher that feeds it, for as long as the watcher runs.
template <class Sink>
struct Follower {
    Sink sink;
    client::Watcher watcher;

    Follower(const asio::any_io_executor& strand, client::RestClient& rest,
             client::WatchTarget target, Sink made, client::WatchHealth health)
        : sink(std::move(made)),
          watcher(strand, rest, std::move(target), sink, std::move(health)) {}
    Follower(const Follower&) = delete;
    Follower& operator=(const Follower&) = delete;
};

}  // namespace

/// Everything on one strand but `status` and the store's own entrances.
struct KubernetesBackend::Parts : std::enable_shared_from_this<Parts> {
    Parts(asio::any_io_executor on, client::Connection connection, std::string probed,
          const translate::Target& aim, ClusterHolder& held, BackendHooks hooked)
        : strand(std::move(on)),
          target(aim),
          cluster(held),
          hooks(std::move(hooked)),
          warnings(std::move(connection.warnings)),
          described(fmt::format("{} at {}", connection.described, connection.endpoint.text())),
          rest(strand, client::make_http_transport(strand, connection.endpoint),
               std::move(connection.access)),
          store(strand, rest, {hooks.template_write, [this] { probe.ask_soon(); }}),
          probe(strand, rest, std::move(probed), target,
                [this](const std::optional<Findings>& found, const std::string& text) {
                    take(found, text);
                }),
          templates(
              strand, rest, template_target(), TemplateWatch(store.cache()),
              [this](const auto& error) { note("template_watch", template_trouble, error); }) {}

    void start();
    void stop();
    void follow_fleet();
    void retarget(const translate::Target& aim);

    void take(const std::optional<Findings>& found, const std::string& text);
    void take_sizes(const std::vector<std::int64_t>& sizes);
    void slices_health(const std::optional<base::Error>& error);
    void note(std::string_view what, std::string& trouble, const std::optional<base::Error>& error);
    void tell(std::string_view level, std::string_view what, std::string text) const {
        if (hooks.event) hooks.event({level, what, std::move(text)});
    }

    /// Spawns a coroutine of ours that lives as long as all of this.
    void spawn(std::string_view what, asio::awaitable<void> work, std::shared_ptr<const void> keep);
    std::function<double()> random_source() {
        return [this] { return std::uniform_real_distribution<double>(0.0, 1.0)(random); };
    }

    asio::any_io_executor strand;
    translate::Target target;
    ClusterHolder& cluster;
    BackendHooks hooks;
    std::vector<std::string> warnings;
    std::string described;
    Status status;
    std::mt19937_64 random{std::random_device{}()};

    client::RestClient rest;
    KubernetesTemplateStore store;
    FeatureProbe probe;
    std::string probe_text;
    Follower<TemplateWatch> templates;
    std::string template_trouble;  ///< what was said last; empty: all is well
    std::shared_ptr<Follower<FleetWatch>> fleet;
    std::string fleet_trouble;
    bool slices_answered = false;
};

void KubernetesBackend::Parts::spawn(std::string_view what, asio::awaitable<void> work,
                                     std::shared_ptr<const void> keep) {
    auto ended = [self = shared_from_this(), what,
                  keep = std::move(keep)](const std::exception_ptr& failure) {
        if (!failure) return;
        try {
            std::rethrow_exception(failure);
        } catch (const std::exception& error) {
            self->tell("error", what,
                       fmt::format("ended by an internal failure: {}", error.what()));
        }
    };
    asio::co_spawn(strand, std::move(work), std::move(ended));
}

void KubernetesBackend::Parts::start() {
    tell("info", "credentials", "using the " + described);
    spawn("feature_probe", probe.run(random_source()), nullptr);
    spawn("template_watch", templates.watcher.run(random_source()), nullptr);
    follow_fleet();
}

void KubernetesBackend::Parts::stop() {
    rest.stop();
    probe.ask_soon();
    templates.watcher.cancel();
    if (fleet) fleet->watcher.cancel();
}

void KubernetesBackend::Parts::follow_fleet() {
    if (fleet) fleet->watcher.cancel();
    FleetWatch sink(
        target, [this](const auto& sizes) { take_sizes(sizes); },
        [this](const std::string& bad) { tell("warn", "fleet_watch", bad); });
    fleet = std::make_shared<Follower<FleetWatch>>(
        strand, rest, slice_target(target.driver), std::move(sink),
        [this](const auto& error) { slices_health(error); });
    spawn("fleet_watch", fleet->watcher.run(random_source()), fleet);
}

void KubernetesBackend::Parts::retarget(const translate::Target& aim) {
    const bool other_slices =
        aim.driver != target.driver || aim.memory_capacity != target.memory_capacity;
    target = aim;
    probe.retarget(aim);
    if (!other_slices || rest.stopping().is_set()) return;
    translate::Cluster next = *cluster.current();
    next.sizes_state = translate::SizesState::not_listed;
    next.memory_sizes.clear();
    cluster.replace(std::move(next));
    follow_fleet();
}

void KubernetesBackend::Parts::take(const std::optional<Findings>& found, const std::string& text) {
    if (found) {
        translate::Cluster next = *cluster.current();
        next.minor = found->minor;
        next.features = found->features;
        cluster.replace(std::move(next));
    }
    status.set_probe(found.has_value(), text);
    if (std::exchange(probe_text, text) == text) return;
    const bool good = found && found->features == translate::Features::complete;
    tell(good ? "info" : "warn", "feature_probe", text);
}

void KubernetesBackend::Parts::take_sizes(const std::vector<std::int64_t>& sizes) {
    translate::Cluster next = *cluster.current();
    next.sizes_state = translate::SizesState::listed;
    next.memory_sizes = sizes;
    cluster.replace(std::move(next));
    tell("info", "fleet_watch",
         fmt::format("{} memory sizes of driver {}", sizes.size(), target.driver));
}

void KubernetesBackend::Parts::slices_health(const std::optional<base::Error>& error) {
    note("fleet_watch", fleet_trouble, error);
    const bool no_answer =
        error && (error->kind == ErrorKind::unavailable || error->kind == ErrorKind::timed_out);
    // A refusal is an answer too: percentages will fail with the reason, all else works.
    if (!no_answer) slices_answered = true;
    status.set_slices(slices_answered ? "" : error->message);
}

/// Logs the first failure, each other one than before, and the end of trouble.
void KubernetesBackend::Parts::note(std::string_view what, std::string& trouble,
                                    const std::optional<base::Error>& error) {
    const std::string text = error ? error->message : "";
    if (std::exchange(trouble, text) == text) return;
    tell(error ? "warn" : "info", what, error ? text : "in step with the API server again");
}

Result<std::unique_ptr<KubernetesBackend>> KubernetesBackend::create(
    const asio::any_io_executor& executor, const BackendOptions& options,
    const translate::Target& target, ClusterHolder& cluster, BackendHooks hooks) {
    const asio::any_io_executor strand = asio::make_strand(executor);
    auto sources = client::ConnectionSources::from_environment();
    sources.kubeconfig = options.kubeconfig;
    sources.context = options.context;
    auto connection = client::find_connection(strand, sources);
    if (!connection) return tl::unexpected(connection.error());
    std::string probed = options.name_space.empty() ? connection->name_space : options.name_space;
    if (probed.empty()) probed = "default";
    // Hopeful, so that nothing is denied for what is only not known yet; until the first answer
    // not_ready() keeps every translation from being used.
    cluster.replace({.minor = 36,
                     .features = translate::Features::complete,
                     .sizes_state = translate::SizesState::not_listed,
                     .memory_sizes = {}});
    auto parts = std::make_shared<Parts>(strand, std::move(*connection), std::move(probed), target,
                                         cluster, std::move(hooks));
    return std::unique_ptr<KubernetesBackend>(new KubernetesBackend(std::move(parts)));
}

KubernetesBackend::KubernetesBackend(std::shared_ptr<Parts> parts) : parts_(std::move(parts)) {}

// Nothing of ours runs any more, so this thread may do what else is done on the strand.
KubernetesBackend::~KubernetesBackend() {
    parts_->stop();
}

void KubernetesBackend::start() {
    asio::post(parts_->strand, [parts = parts_] { parts->start(); });
}

void KubernetesBackend::stop() {
    asio::post(parts_->strand, [parts = parts_] { parts->stop(); });
}

void KubernetesBackend::retarget(const translate::Target& target) {
    asio::post(parts_->strand, [parts = parts_, target] { parts->retarget(target); });
}

TemplateStore& KubernetesBackend::store() {
    return parts_->store;
}

std::vector<std::string> KubernetesBackend::not_ready() const {
    return parts_->status.gaps();
}

std::string KubernetesBackend::feature_text() const {
    return parts_->status.feature_text();
}

const std::vector<std::string>& KubernetesBackend::warnings() const {
    return parts_->warnings;
}

}  // namespace drawbridge::server
