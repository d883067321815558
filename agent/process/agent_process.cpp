#include "agent/process/agent_process.hpp"

#include "agent/process/address.hpp"
#include "agent/process/registration_service.hpp"
#include "base/atomic_file.hpp"
#include "base/log.hpp"
#include "base/version.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/post.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <random>
#include <utility>

namespace drawbridge::agent {
namespace {

namespace asio = boost::asio;
using base::Level;
using base::Result;
using boost::system::error_code;

constexpr std::chrono::seconds device_interval{5};
constexpr std::chrono::seconds health_interval{10};
constexpr std::chrono::seconds reconcile_interval{60};
// What a pod cannot start without every minute, all files every five, claims every ten.
constexpr unsigned file_rounds = 5;
constexpr unsigned claim_rounds = 10;
constexpr std::chrono::seconds finish_time{5};
constexpr std::size_t max_boot_id = 128;

std::function<double()> random_source() {
    return [engine = std::mt19937_64(std::random_device{}())]() mutable {
        return std::uniform_real_distribution<double>(0, 1)(engine);
    };
}

/// A coroutine that ends with an exception is a mistake of ours: it is told, and ends no process.
auto log_failure(const char* what) {
    return [what](const std::exception_ptr& failure) {
        if (!failure) return;
        try {
            std::rethrow_exception(failure);
        } catch (const std::exception& error) {
            base::log_event(Level::error, what, {{"reason", error.what()}});
        }
    };
}

}  // namespace

AgentProcess::AgentProcess(AgentOptions options)
    : options_(std::move(options)),
      plugin_folder_(plugin_folder(options_.paths.kubelet_root)),
      instances_folder_(instances_folder(options_.paths.kubelet_root)),
      run_(new_run()),
      sockets_(socket_paths(options_.paths.kubelet_root, options_.instance, run_)),
      health_(clock_, options_.node),
      self_health_(pool_.get_executor(), sockets_.service, sockets_.registration) {
    const FlowPaths paths{.claims = plugin_folder_ + "/claims",
                          .shares = plugin_folder_ + "/shares",
                          .libraries = plugin_folder_ + "/lib",
                          .cdi = options_.paths.cdi,
                          .lock = plugin_folder_ + "/lock"};
    flow_ = std::make_unique<PrepareFlow>(files_, clock_, paths, options_.step);
    keeper_ = std::make_unique<ShareKeeper>(files_, *flow_, clock_);
    checks_ =
        std::make_unique<NodeChecks>(NodeCheckParts{.files = files_,
                                                    .runtime_sockets = runtime_sockets(options_),
                                                    .cdi = options_.paths.cdi,
                                                    .cdi_folders = {options_.paths.static_cdi},
                                                    .instances = instances_folder_});
}

AgentProcess::~AgentProcess() {
    stop();
    end_looks(1);
}

/// A disk that is full must not keep pods from ending: installing is tried again at each prepare.
Result<void> AgentProcess::install_library() {
    if (options_.paths.library.empty()) return {};
    auto library = read_library(files_, options_.paths.library);
    if (!library) return tl::unexpected(library.error());
    if (auto laid = flow_->offer_library(*std::move(library)); !laid)
        base::log_event(Level::error, "library", {{"reason", laid.error().message}});
    return {};
}

Result<void> AgentProcess::connect() {
    auto api = ClusterApi::create(strand_, options_.kubeconfig);
    if (!api) return tl::unexpected(api.error());
    api_ = std::move(*api);
    for (const std::string& warning : api_->warnings())
        base::log_event(Level::warn, "credentials", {{"reason", warning}});
    PublisherHooks hooks;
    hooks.state = [this](const PublishState& state) { report_->set_publish(state); };
    hooks.wrote = [this](bool success) { metrics_.count_publish(success); };
    hooks.accepts_legacy = [this](std::int64_t count) {
        return count == 0 || options_.source.beside_device_plugin;
    };
    const std::string pod_resources = options_.paths.kubelet_root + "/pod-resources/kubelet.sock";
    reconciler_ = std::make_unique<Reconciler>(ReconcileParts{.strand = strand_,
                                                              .pool = pool_.get_executor(),
                                                              .api = *api_,
                                                              .flow = *flow_,
                                                              .pod_resources = pod_resources});
    courier_ = std::make_unique<Courier>(CourierParts{strand_, *api_, clock_, options_.node});
    claims_ = std::make_unique<ClaimReport>(
        ClaimReportParts{metrics_, *flow_, *courier_, pool_.get_executor(), options_.evict});
    report_ = std::make_unique<NodeReport>(
        ReportParts{.flow = *flow_,
                    .book = keeper_->book(),
                    .metrics = metrics_,
                    .checks = *checks_,
                    .node = options_.node,
                    .hami = options_.hami_metrics,
                    .pod_resources = pod_resources,
                    .orphans = [this] { return reconciler_->orphans(); },
                    .notices = [this](NoticeKind kind) { return courier_->counts(kind); }});
    publisher_ = std::make_unique<SlicePublisher>(strand_, *api_, options_.node, std::move(hooks));
    asio::co_spawn(strand_, courier_->run(random_source()), log_failure("courier"));
    return {};
}

Result<void> AgentProcess::open_operator_port() {
    const auto endpoint = parse_endpoint(options_.operator_listen);
    if (!endpoint) return tl::unexpected(endpoint.error());
    operator_ = std::make_unique<http::OperatorServer>(
        [this](std::string_view method, std::string_view target, std::string_view body) {
            return report_->answer(method, target, body);
        });
    if (auto started = operator_->start(*endpoint); !started) return started;
    if (options_.port_file.empty()) return {};
    return base::write_file_atomically(options_.port_file,
                                       fmt::format("{{\"operator\":{}}}\n", operator_->port()));
}

Result<void> AgentProcess::open_sockets() {
    auto methods = dra_methods({.strand = strand_,
                                .pool = pool_.get_executor(),
                                .api = *api_,
                                .flow = *flow_,
                                .ended = [this](const ClaimWork& work) { claims_->ended(work); },
                                .refusal = [this] { return checks_->refusal(); }});
    for (rpc::RpcMethod& method : health_.methods())
        methods.push_back(std::move(method));
    for (rpc::RpcMethod& method : self_health_.methods())
        methods.push_back(std::move(method));
    const auto told = [this](bool yes, const std::string& error) { registered(yes, error); };
    for (rpc::RpcMethod& method : registration_methods(sockets_.service, told))
        methods.push_back(std::move(method));
    // One server, and so one thread: two of gRPC's wake each other at every call.
    service_ = std::make_unique<rpc::RpcServer>(std::move(methods));
    return service_->listen({sockets_.service, sockets_.registration});
}

Result<void> AgentProcess::start() {
    base::set_log_level(options_.log_level);
    if (auto made = make_node_folders(options_.paths, flow_->paths()); !made) return made;
    if (auto installed = install_library(); !installed) return installed;
    source_ = make_source(options_.source, options_.paths);
    devices_ = std::make_unique<DeviceWatch>(
        DeviceWatchParts{*source_, files_, *flow_, options_.node, options_.source.settings,
                         plugin_folder_ + "/sizes.json"});
    const auto boot_id = base::read_file(options_.paths.boot_id, max_boot_id);
    if (!boot_id) return tl::unexpected(boot_id.error());
    flow_->set_view({.pool = options_.node,
                     .boot_id = boot_id->substr(0, boot_id->find('\n')),
                     .inventory = {},
                     .container = {.shares_folder = flow_->paths().shares,
                                   .library = {},
                                   .driver = {},
                                   .legacy_variables = options_.legacy_variables,
                                   .metadata = options_.device_metadata}});
    if (auto connected = connect(); !connected) return connected;
    wait_for_signal();  // before the first socket, which somebody has to remove
    if (auto opened = open_operator_port(); !opened) return opened;
    auto alone = take_instance();
    if (!alone) return tl::unexpected(alone.error());
    if (*alone) remove_temporaries(options_.paths.kubelet_root, flow_->paths());
    check_node();
    look_first();
    reconcile_files(true);
    if (!*alone) {
        wait_for_instance();
    } else if (auto opened = open_sockets(); !opened) {
        return opened;
    }
    base::log_event(Level::info, "started",
                    {{"version", base::version},
                     {"node", options_.node},
                     {"devices", source_->name()},
                     {"cluster", api_->described()},
                     {"socket", sockets_.service}});
    return {};
}

/// Whether this process is the only agent of its name: another one's sockets are left alone.
Result<bool> AgentProcess::take_instance() {
    auto lock = InstanceLock::try_hold(
        fmt::format("{}/{}", instances_folder_, instance_name(options_.instance)));
    if (!lock) return tl::unexpected(lock.error());
    if (!*lock) return false;
    if (auto told = (*lock)->tell(run_); !told) return tl::unexpected(told.error());
    instance_lock_.emplace(*std::move(*lock));
    return true;
}

void AgentProcess::wait_for_instance() {
    constexpr std::string_view trouble =
        "another agent runs on this node with the same instance name: stop one of them";
    report_->set_instance_trouble(std::string(trouble));
    base::log_event(Level::error, "instance", {{"reason", trouble}});
    asio::post(strand_, [this] { ask_for_instance(); });
}

void AgentProcess::ask_for_instance() {
    instance_timer_.expires_after(device_interval);
    instance_timer_.async_wait([this](const error_code& error) {
        if (error || stopper_.joinable()) return;  // that one has the service from here on
        if (!instance_lock_) {
            const auto alone = take_instance();
            if (!alone || !*alone) return ask_for_instance();
        }
        const auto opened = open_sockets();
        const std::string trouble = opened ? "" : opened.error().message;
        report_->set_instance_trouble(trouble);
        if (opened) return;
        base::log_event(Level::error, "instance", {{"reason", trouble}});
        ask_for_instance();
    });
}

/// Blocks. What is in the way of all shares takes the devices out of what is offered.
void AgentProcess::check_node() {
    for (const std::string& socket : remove_dead_sockets(options_.paths.kubelet_root))
        base::log_event(Level::info, "dead_socket", {{"socket", socket}});
    const std::string before = checks_->refusal();
    const auto known = checks_->remarks();
    checks_->look();
    for (const std::string& remark : checks_->remarks()) {
        if (std::ranges::find(known, remark) == known.end())
            base::log_event(Level::warn, "node_check", {{"reason", remark}});
    }
    const std::string now = checks_->refusal();
    if (now == before) return;
    base::log_event(now.empty() ? Level::info : Level::error, "container_runtime",
                    {{"reason", now}});
    courier_->tell({runtime_occurrence(now, options_.node)});
    offer();
}

void AgentProcess::registered(bool yes, const std::string& error) {
    base::log_event(yes ? Level::info : Level::error, "registration",
                    {{"registered", yes}, {"reason", error}});
    report_->set_registration(yes, error);
    if (!yes) return;
    asio::post(strand_, [this] { publish(); });
}

/// The kubelet knows us: what it now finds published it can also prepare.
void AgentProcess::publish() {
    reconcile_claims();
    if (std::exchange(publishing_, true)) return publisher_->check();
    asio::co_spawn(strand_, publisher_->run(random_source()), log_failure("publisher"));
    asio::co_spawn(strand_, publisher_->watch(random_source()), log_failure("slice_watch"));
}

/// Does it after each interval, where the timer is waited for.
void AgentProcess::every(asio::steady_timer& timer, std::chrono::seconds interval,
                         std::function<void()> work) {
    timer.expires_after(interval);
    timer.async_wait([this, &timer, interval, work = std::move(work)](const error_code& error) {
        if (error) return;
        work();
        every(timer, interval, work);
    });
}

void AgentProcess::reconcile_files(bool all) {
    if (all) hold_to_limits();
    const auto restored = static_cast<std::int64_t>(flow_->restore_cdi_files());
    const auto swept = static_cast<std::int64_t>(all ? flow_->sweep() : 0);
    if (restored + swept == 0) return;
    base::log_event(Level::info, "reconciled", {{"restored", restored}, {"swept", swept}});
}

/// On the strand, one round at a time.
void AgentProcess::reconcile_claims() {
    auto begin = [this] {
        if (std::exchange(reconciling_, true)) return;
        auto ended = [this](const std::exception_ptr& failure) {
            reconciling_ = false;
            log_failure("reconcile")(failure);
        };
        asio::co_spawn(strand_, reconciler_->round(), std::move(ended));
    };
    asio::post(strand_, std::move(begin));
}

void AgentProcess::reconcile() {
    ++rounds_;
    asio::post(pool_, [this, all = rounds_ % file_rounds == 0] {
        check_node();
        reconcile_files(all);
    });
    if (rounds_ % claim_rounds == 0) reconcile_claims();
}

void AgentProcess::wait_for_signal() {
    for (const int number : {SIGTERM, SIGINT}) {
        error_code ignored;
        signals_.add(number, ignored);
    }
    signals_.async_wait([this](const error_code& error, int number) {
        if (error) return;
        base::log_event(Level::info, "stopping", {{"signal", std::int64_t{number}}});
        report_->set_stopping();
        stopper_ = std::thread([this] {
            stop();
            io_.stop();
        });
    });
}

int AgentProcess::run() {
    tell_health();
    every(device_timer_, device_interval, [this] { look_at_devices(); });
    every(health_timer_, health_interval, [this] { tell_health(); });
    every(reconcile_timer_, reconcile_interval, [this] { reconcile(); });
    // Behind the first look: nobody else asks the source meanwhile.
    asio::post(device_pool_, [this] {
        keeper_->start({device_pool_.get_executor(), *source_,
                        [this](const auto&... news) { claims_->suspected(news...); }});
    });
    io_.run();
    if (stopper_.joinable()) stopper_.join();
    end_looks(0);
    keeper_->stop();
    base::log_event(Level::info, "stopped");
    return 0;
}

/// The kubelet does not find us any more, and what it has asked is finished.
void AgentProcess::stop() {
    if (service_) service_->stop(finish_time);
    service_.reset();
    pool_.join();
}

}  // namespace drawbridge::agent
