#include "server/server_process.hpp"

#include "base/atomic_file.hpp"
#include "base/log.hpp"
#include "base/version.hpp"
#include "translate/cluster_facts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <utility>

namespace drawbridge::server {
namespace {

namespace asio = boost::asio;
using base::Level;
using boost::system::error_code;
using Steady = std::chrono::steady_clock;

constexpr std::chrono::seconds file_interval{1};
constexpr std::chrono::milliseconds drain_interval{20};  // to see that the last connection ended
constexpr std::size_t max_fleet = 64U << 20U;
constexpr int oldest_sharing_minor = 35;

certs::Time wall_now() {
    return std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now());
}

/// Before an API server has answered: claims of the current form, and no sizes, so that only what
/// needs no cluster can be told.
translate::Cluster unknown_cluster() {
    translate::Cluster cluster;
    cluster.sizes_state = translate::SizesState::not_listed;
    return cluster;
}

Level level_of(std::string_view name) {
    return base::level_from_name(name).value_or(Level::error);
}

asio::ip::tcp::endpoint endpoint_of(const Address& address) {
    return {asio::ip::make_address(address.host), address.port};
}

}  // namespace

ServerProcess::ServerProcess(ServeOptions options)
    : options_(std::move(options)),
      cluster_(unknown_cluster()),
      settings_watch_(options_.settings, settings_, metrics_,
                      [this](const translate::Settings& settings) { settings_changed(settings); }),
      cert_keeper_(options_.tls, identity_, metrics_),
      memory_store_([this] { metrics_.count_template_write(TemplateWrite::created); }),
      drain_(options_.drain) {}

ServerProcess::~ServerProcess() {
    admin_.reset();
    listener_.reset();
    if (backend_) backend_->stop();
    backend_io_.stop();
    if (backend_thread_.joinable()) backend_thread_.join();
}

TemplateStore& ServerProcess::store() {
    return backend_ ? backend_->store() : memory_store_;
}

base::Result<void> ServerProcess::start() {
    base::set_log_level(options_.log_level);
    settings_watch_.poll();
    auto done =
        options_.cluster.store == StoreKind::kubernetes ? connect_cluster() : read_cluster();
    if (!done) return done;
    done = cert_keeper_.start(wall_now());
    if (!done) return done;
    ReviewParts parts{.settings = settings_,
                      .cluster = cluster_,
                      .store = store(),
                      .metrics = metrics_,
                      .inflight = inflight_,
                      .cluster_gaps = {},
                      .max_in_flight = options_.capacity.max_in_flight};
    if (backend_) parts.cluster_gaps = [this] { return backend_->not_ready(); };
    endpoint_ = std::make_unique<MutateEndpoint>(std::move(parts));
    return open_ports();
}

/// The cluster as the options tell it, for the memory store.
base::Result<void> ServerProcess::read_cluster() {
    const ClusterOptions& told = options_.cluster;
    translate::Cluster cluster;
    if (!told.kubernetes_version.empty()) {
        const auto minor = translate::parse_kubernetes_version(told.kubernetes_version);
        if (!minor) return tl::unexpected(minor.error());
        cluster.minor = *minor;
        if (*minor < oldest_sharing_minor) cluster.features = translate::Features::too_old;
    }
    base::Result<std::vector<std::int64_t>> sizes;
    if (!told.device_memory.empty()) sizes = translate::parse_memory_sizes(told.device_memory);
    if (!told.fleet.empty()) {
        const auto text = base::read_file(told.fleet, max_fleet);
        if (!text) return tl::unexpected(text.error());
        const auto settings = settings_.current();
        sizes = translate::read_fleet(*text, settings ? settings->target : translate::Target{});
    }
    if (!sizes) return tl::unexpected(sizes.error());
    cluster.memory_sizes = std::move(*sizes);
    cluster_.replace(std::move(cluster));
    return {};
}

base::Result<void> ServerProcess::connect_cluster() {
    BackendHooks hooks;
    hooks.template_write = [this](TemplateWrite result) { metrics_.count_template_write(result); };
    hooks.event = [](const BackendEvent& event) {
        base::log_event(level_of(event.level), event.what, {{"reason", event.text}});
    };
    BackendOptions options;
    options.kubeconfig = options_.cluster.kubeconfig;
    const auto settings = settings_.current();
    auto backend = KubernetesBackend::create(backend_io_.get_executor(), options,
                                             settings ? settings->target : translate::Target{},
                                             cluster_, std::move(hooks));
    if (!backend) return tl::unexpected(backend.error());
    backend_ = std::move(*backend);
    for (const std::string& warning : backend_->warnings()) {
        base::log_event(Level::warn, "credentials", {{"reason", warning}});
    }
    backend_->start();
    backend_thread_ = std::thread([this] { backend_io_.run(); });
    return {};
}

base::Result<void> ServerProcess::open_ports() {
    admin_ = std::make_unique<http::OperatorServer>(
        [parts = operator_parts()](std::string_view method, std::string_view target,
                                   std::string_view body) {
            return answer_operator(parts, method, target, body);
        });
    auto done = admin_->start(endpoint_of(options_.operator_listen));
    if (!done) return done;
    session_parts_.reset(new SessionParts{*endpoint_, metrics_, options_.times});
    listener_ = std::make_unique<Listener>(
        *session_parts_, identity_,
        Listener::Limits{options_.capacity.threads, options_.capacity.max_connections});
    done = listener_->listen(endpoint_of(options_.listen));
    if (!done) return done;
    // From here on signals mean a drain: whoever reads the port file may send one.
    wait_for_signal();
    listener_->start();
    base::log_event(Level::info, "listening",
                    {{"version", base::version},
                     {"https", std::int64_t{listener_->port()}},
                     {"operator", std::int64_t{admin_->port()}}});
    if (options_.port_file.empty()) return {};
    return base::write_file_atomically(
        options_.port_file,
        fmt::format("{{\"https\":{},\"operator\":{}}}\n", listener_->port(), admin_->port()));
}

void ServerProcess::settings_changed(const translate::Settings& settings) {
    if (backend_) {
        backend_->retarget(settings.target);
    } else if (endpoint_ && !options_.cluster.fleet.empty()) {
        // Another driver or capacity name reads other sizes out of the same slices.
        if (const auto read = read_cluster(); !read) {
            base::log_event(Level::warn, "fleet", {{"reason", read.error().message}});
        }
    }
}

OperatorParts ServerProcess::operator_parts() {
    OperatorParts parts;
    parts.not_ready = [this] { return not_ready(); };
    parts.remarks = [this] { return remarks(); };
    parts.metrics = [this] {
        return metrics_.render(store().size(), cluster_.current()->features);
    };
    parts.inflight = [this] { return inflight_.to_json(Steady::now()); };
    parts.settings = [this] {
        const auto settings = settings_.current();
        return settings ? translate::settings_to_json(*settings) : std::string();
    };
    parts.templates = [this] {
        return backend_ ? std::nullopt : std::optional(memory_store_.to_json());
    };
    return parts;
}

std::vector<std::string> ServerProcess::not_ready() const {
    std::vector<std::string> reasons;
    if (leaving_) reasons.emplace_back("draining");
    if (cert_keeper_.lacks_client_authorities()) {
        reasons.emplace_back("no authorities of clients (--client-ca) could be read yet");
    } else if (!identity_.current()) {
        reasons.emplace_back("no usable certificate was found yet");
    } else if (metrics_.leaf_expiry <= wall_now().time_since_epoch().count()) {
        reasons.emplace_back("the certificate has expired");
    }
    if (!settings_.current()) reasons.emplace_back("no valid settings were read yet");
    if (backend_) {
        for (std::string& reason : backend_->not_ready())
            reasons.push_back(std::move(reason));
    }
    return reasons;
}

std::vector<std::string> ServerProcess::remarks() const {
    if (!backend_) {
        std::vector<std::string> told = {"templates are kept in memory"};
        if (cluster_.current()->features == translate::Features::too_old) {
            told.emplace_back("no pod is translated: Kubernetes before 1.35 cannot share devices");
        }
        return told;
    }
    std::string features = backend_->feature_text();
    if (features.empty()) return {};
    return {std::move(features)};
}

void ServerProcess::wait_for_signal() {
    error_code ignored;
    for (const int number : {SIGTERM, SIGINT, SIGHUP})
        signals_.add(number, ignored);
    auto on = [this](const error_code& error, int number) {
        if (!error) on_signal(number);
    };
    signals_.async_wait(std::move(on));
}

void ServerProcess::on_signal(int number) {
    if (number == SIGHUP) {
        settings_watch_.poll(true);
        cert_keeper_.poll(wall_now());
    } else {
        leaving_ = true;
        session_parts_->leaving = true;
        drain_.on_signal(Steady::now());
        if (drain_.phase() == DrainPhase::stopped) std::_Exit(EXIT_FAILURE);  // told twice
        base::log_event(Level::info, "draining",
                        {{"signal", std::int64_t{number}},
                         {"connections", static_cast<std::int64_t>(listener_->open())}});
        step_drain();
    }
    wait_for_signal();
}

void ServerProcess::look_after_files() {
    file_timer_.expires_after(file_interval);
    file_timer_.async_wait([this](const error_code& error) {
        if (error) return;
        settings_watch_.poll();
        cert_keeper_.poll(wall_now());
        look_after_files();
    });
}

void ServerProcess::step_drain() {
    const DrainPhase before = drain_.phase();
    const DrainPhase phase = drain_.step(Steady::now(), listener_->open());
    if (phase == DrainPhase::stopped) {
        io_.stop();
        return;
    }
    if (phase == DrainPhase::finishing && before == DrainPhase::leaving) listener_->finish();
    const auto soon = Steady::now() + drain_interval;
    drain_timer_.expires_at(phase == DrainPhase::finishing ? soon : drain_.next());
    drain_timer_.async_wait([this](const error_code& error) {
        if (!error) step_drain();
    });
}

int ServerProcess::run() {
    look_after_files();
    io_.run();
    const auto open = static_cast<std::int64_t>(listener_->open());
    base::log_event(Level::info, "stopped", {{"connections", open}});
    // What is still open hangs in its coroutine: there is nothing to wait for any more.
    if (open != 0 || !listener_->stop()) std::_Exit(EXIT_SUCCESS);
    return EXIT_SUCCESS;
}

}  // namespace drawbridge::server
