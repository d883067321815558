#include "agent/process/slice_publisher.hpp"

#include "base/log.hpp"
#include "kube/client/backoff.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace drawbridge::agent {
namespace {

namespace asio = boost::asio;
namespace client = kube::client;
using base::Level;
using base::Result;
using std::chrono::steady_clock;

// Taints came with 1.36 by default (node-agent.md 12).
constexpr int taints_minor = 36;
constexpr std::chrono::minutes check_time{5};
// One change seldom comes alone.
constexpr std::chrono::milliseconds calm_time{100};
// Another writer that has been quiet for as long has gone.
constexpr std::chrono::minutes contest_time{1};
// Of waits that are doubled: so that a fault of a device is told soon all the same.
constexpr int most_contests = 4;

client::WatchTarget target_of(std::string_view node) {
    return {.path = std::string(slices_path), .selection = slice_selection(node)};
}

}  // namespace

SlicePublisher::SlicePublisher(asio::any_io_executor strand, ClusterApi& api, std::string node,
                               PublisherHooks hooks)
    : strand_(strand),
      api_(api),
      node_(std::move(node)),
      hooks_(std::move(hooks)),
      watcher_(strand, api.rest(), target_of(node_), *this,
               [](const std::optional<base::Error>& error) {
                   if (error)
                       base::log_event(Level::warn, "slice_watch", {{"reason", error->message}});
               }),
      wake_(std::make_shared<client::Event>(strand)) {}

void SlicePublisher::wake() {
    const auto before = std::exchange(wake_, std::make_shared<client::Event>(strand_));
    before->set();
}

void SlicePublisher::offer(Inventory inventory) {
    if (inventory_ && *inventory_ == inventory) return;
    inventory_ = std::move(inventory);
    offered_ = true;
    wake();
}

void SlicePublisher::check() {
    wake();
}

asio::awaitable<void> SlicePublisher::watch(std::function<double()> random) {
    co_await watcher_.run(std::move(random));
}

asio::awaitable<void> SlicePublisher::run(std::function<double()> random) {
    int failures = 0;
    while (!api_.rest().stopping().is_set()) {
        const auto waiting = wake_;
        auto again = steady_clock::now() + check_time;
        if (inventory_) {
            state_.published = wrote_ = false;
            const bool is_new = std::exchange(offered_, false);
            const auto done = co_await publish();
            if (!is_new) count_contest();
            failures = done ? 0 : failures + 1;
            if (!done) again = steady_clock::now() + client::backoff(failures, random());
            tell(done);
            if (done && missed_) look_at_watch();
        }
        if (failures > 0) {
            co_await api_.rest().stopping().wait(again);
        } else {
            co_await waiting->wait(again);
            if (inventory_ && state_.published)
                co_await api_.rest().stopping().wait(steady_clock::now() + pause(random()));
        }
    }
    wake_->set();
}

/// Another writer takes back what we write: another agent that shows its devices otherwise, as an
/// older one does during an update, or a server that keeps something else.
void SlicePublisher::count_contest() {
    if (!wrote_) return;
    const auto now = steady_clock::now();
    contests_ = now - contested_at_ < contest_time ? contests_ + 1 : 1;
    contested_at_ = now;
}

/// How long to leave the slices alone: it must not drive us, nor we it.
std::chrono::milliseconds SlicePublisher::pause(double random) const {
    const bool is_contested = steady_clock::now() - contested_at_ < contest_time;
    if (!is_contested || contests_ < 2) return calm_time;
    return client::backoff(std::min(contests_, most_contests), random);
}

void SlicePublisher::tell(const Result<void>& done) {
    state_.published = done.has_value();
    state_.devices = features_.sharing ? inventory_->offers().size() : 0;
    state_.trouble.clear();
    if (!done) {
        state_.trouble = done.error().message;
    } else if (!features_.sharing) {
        state_.trouble =
            "the API server drops consumable capacity: turn on the feature gate "
            "DRAConsumableCapacity of API server, scheduler, controller manager and kubelet; until "
            "then no device is offered, since it would be given away whole";
    }
    hooks_.state(state_);
    // Behind it: who reads of it in the log finds it in the state too.
    if (state_.trouble.empty()) return;
    base::log_event(
        done ? Level::error : Level::warn, "publish",
        {{"reason", state_.trouble}, {"path", done ? std::string() : done.error().path}});
}

asio::awaitable<Result<void>> SlicePublisher::learn_node() {
    auto facts = co_await api_.node(node_);
    if (!facts) co_return tl::unexpected(facts.error());
    identity_ = std::move(facts->identity);
    refused_ = !hooks_.accepts_legacy(facts->legacy_devices);
    const auto minor = co_await api_.minor_version();
    if (!minor) co_return tl::unexpected(minor.error());
    features_.taints = *minor >= taints_minor;
    co_return Result<void>();
}

/// One round: with the gates found on, or again with what the server turned out to drop.
asio::awaitable<Result<void>> SlicePublisher::publish() {
    features_.sharing = true;
    auto learnt = co_await learn_node();
    if (!learnt) co_return learnt;
    constexpr int most_rounds = 4;
    for (int round = 0; round < most_rounds; ++round) {
        auto settled = co_await write_all();
        if (!settled) co_return tl::unexpected(settled.error());
        if (!*settled) continue;
        if (refused_) {
            co_return base::fail(
                base::ErrorKind::conflict,
                "the node has nvidia.com/gpu of a device plugin, which hands out the same GPUs: "
                "remove the plugin from this node, or start with --beside-device-plugin");
        }
        co_return Result<void>();
    }
    co_return base::fail(base::ErrorKind::unavailable,
                         "the API server keeps something else than it is given");
}

/// Writes what is missing; false where it must be looked at again.
asio::awaitable<Result<bool>> SlicePublisher::write_all() {
    auto seen = co_await api_.slices(node_);
    if (!seen) co_return tl::unexpected(seen.error());
    const auto wanted =
        refused_ ? std::vector<SliceDevices>(1) : slice_devices(*inventory_, features_);
    const auto writes = plan_publish(wanted, *seen, identity_);
    for (const SeenSlice& slice : *seen)
        state_.generation = std::max(state_.generation, slice.generation);
    bool rehearsed = false;
    for (const SliceWrite& write : writes) {
        // Behind the removals: one of them may have the name that is made anew.
        if (write.what != SliceDo::remove && !std::exchange(rehearsed, true)) {
            auto kept = co_await rehearse(writes);
            if (!kept || !*kept) co_return kept;
        }
        const auto written = co_await api_.write(write);
        wrote_ = true;
        hooks_.wrote(written.has_value());
        if (!written && written.error().kind == base::ErrorKind::conflict) co_return false;
        if (!written && written.error().kind == base::ErrorKind::not_found) co_return false;
        if (!written) co_return tl::unexpected(written.error());
        base::log_event(Level::info, "slice",
                        {{"name", write.name},
                         {"generation", written->generation},
                         {"devices", static_cast<std::int64_t>(write.devices.size())}});
        if (write.what == SliceDo::remove) continue;
        state_.generation = written->generation;
        if (take_dropped(dropped_fields(write.devices, written->devices))) co_return false;
    }
    co_return true;
}

/// Lets the server show what it would keep of the first devices: a GPU that is published for even a
/// moment without its sharing can be given away whole.
asio::awaitable<Result<bool>> SlicePublisher::rehearse(const std::vector<SliceWrite>& writes) {
    const auto has_devices = [](const SliceWrite& write) { return !write.devices.empty(); };
    const auto first = std::ranges::find_if(writes, has_devices);
    if (first == writes.end()) co_return true;
    const auto shown = co_await api_.write(*first, true);
    if (!shown && shown.error().kind == base::ErrorKind::conflict) co_return false;
    if (!shown) co_return tl::unexpected(shown.error());
    co_return !take_dropped(dropped_fields(first->devices, shown->devices));
}

/// Whether what the server dropped changes what is to be published.
bool SlicePublisher::take_dropped(const std::vector<std::string>& dropped) {
    if (dropped.empty()) return false;
    base::log_event(
        Level::error, "slice_fields_dropped",
        {{"count", static_cast<std::int64_t>(dropped.size())}, {"first", dropped.front()}});
    const auto any = [&](std::string_view part) {
        return std::ranges::any_of(
            dropped, [&](const std::string& path) { return path.find(part) != std::string::npos; });
    };
    const SliceFeatures before = features_;
    if (any("/taints")) features_.taints = false;
    if (any("/allowMultipleAllocations") || any("/requestPolicy")) features_.sharing = false;
    return !(features_ == before);
}

// ---------------------------------------------------------------------------------------- watch

void SlicePublisher::list_begun() {
    watched_.clear();
    listed_ = false;
}

void SlicePublisher::put(base::JsonView object) {
    auto slice = read_seen_slice(object);
    if (!slice) return;
    std::string name = slice->name;
    watched_.insert_or_assign(std::move(name), *std::move(slice));
    if (listed_) look_at_watch();
}

void SlicePublisher::list_complete() {
    listed_ = true;
    look_at_watch();
}

void SlicePublisher::erase(base::JsonView object) {
    watched_.erase(std::string(object["metadata"]["name"].string_or("")));
    if (listed_) look_at_watch();
}

/// Wakes the publisher if somebody changed or removed what was published: a kubelet that starts
/// wipes the slices of all drivers of its node.
void SlicePublisher::look_at_watch() {
    if (!inventory_) return;
    missed_ = !state_.published;  // comes to it when it has published
    if (missed_) return;
    std::vector<SeenSlice> seen;
    for (const auto& [name, slice] : watched_)
        seen.push_back(slice);
    if (!plan_publish(slice_devices(*inventory_, features_), seen, identity_).empty()) wake();
}

}  // namespace drawbridge::agent
