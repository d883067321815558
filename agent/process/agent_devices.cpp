// What AgentProcess does with the devices of the node: it looks at them, and tells of them.

#include "agent/device/fault_tracker.hpp"
#include "agent/process/agent_process.hpp"
#include "base/log.hpp"

#include <boost/asio/post.hpp>

#include <chrono>
#include <cstdlib>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <string_view>
#include <utility>

namespace drawbridge::agent {
namespace {

namespace asio = boost::asio;
using base::Level;

// A driver that fails may hold its caller for ever. Cards that nobody has used wake in seconds.
constexpr std::chrono::seconds first_look_time{10};
constexpr unsigned most_silent_rounds = 3;  // of health, each ten seconds behind the last
constexpr std::chrono::seconds last_look_time{5};
constexpr std::string_view silence = "the driver has not answered for a while: its calls hang";

}  // namespace

/// Does it on the thread that asks the driver, and waits for that; false where it takes too long.
bool AgentProcess::on_device_thread(std::chrono::seconds patience, std::function<void()> work) {
    const auto done = std::make_shared<std::promise<void>>();
    asio::post(device_pool_, [work = std::move(work), done] {
        work();
        done->set_value();
    });
    return done->get_future().wait_for(patience) == std::future_status::ready;
}

/// Claims are to end, and those that are prepared to be answered, whatever the driver does.
void AgentProcess::look_first() {
    if (on_device_thread(first_look_time, [this] { look_at_devices(); })) return;
    report_->set_devices(false, std::string(silence));
    base::log_event(Level::error, "devices", {{"reason", silence}});
}

/// What the driver holds ends with the process, and that at once, with this status.
void AgentProcess::end_looks(int status) {
    if (std::exchange(looks_ended_, true)) return;
    if (!on_device_thread(last_look_time, [] {})) {
        base::log_event(Level::warn, "stopped", {{"reason", silence}});
        std::_Exit(status);
    }
    device_pool_.stop();  // there is always a look to come
    device_pool_.join();
}

void AgentProcess::look_at_devices() {
    auto inventory = devices_->look();
    auto edits = source_->edits();
    const std::lock_guard lock(take_mutex_);
    silent_rounds_ = 0;
    report_->set_devices(inventory.has_value(), devices_->trouble());
    report_->set_xids(source_->xids());
    if (!devices_->trouble().empty())
        base::log_event(Level::warn, "devices", {{"reason", devices_->trouble()}});
    take(inventory.value_or(Inventory()), std::move(edits));
}

/// Under `take_mutex_`.
void AgentProcess::take(const Inventory& inventory, base::Result<DriverEdits> edits) {
    const auto now = flow_->view();
    const auto rules = devices_->rules();
    const bool ruled = rules && rules != now->rules;
    NodeView view = *now;
    view.inventory = inventory;
    view.container.replace_libcuda = devices_->replace_libcuda();
    if (edits) view.container.driver = *std::move(edits);
    if (rules) view.rules = rules;
    if (!(view == *now)) show(std::move(view));
    if (ruled) hold_to_limits();
    const bool same = inventory == now->inventory;
    // A container that starts anew is to find the nodes that its cards have now.
    if (!same) static_cast<void>(flow_->restore_cdi_files());
    if (!std::exchange(offered_, true) || !same) offer();
}

void AgentProcess::show(NodeView view) {
    const auto before = flow_->view();
    const Inventory inventory = view.inventory;
    flow_->set_view(std::move(view));
    base::log_event(Level::info, "inventory",
                    {{"devices", static_cast<std::int64_t>(inventory.offers().size())}});
    health_.show(inventory);
    courier_->tell(device_occurrences(before->inventory, inventory, options_.node));
}

/// A driver that holds its caller is one that does not answer. In rounds, not by the clock: who was
/// stopped for a while himself has heard nothing either. Does not block.
void AgentProcess::look_at_silence() {
    const std::unique_lock lock(take_mutex_, std::try_to_lock);
    if (!lock || ++silent_rounds_ <= most_silent_rounds) return;
    const auto now = flow_->view();
    const Inventory inventory = now->inventory.with_fault(driver_failed());
    if (inventory == now->inventory) return;
    report_->set_devices(true, std::string(silence));
    base::log_event(Level::error, "devices", {{"reason", silence}});
    NodeView view = *now;
    view.inventory = inventory;
    show(std::move(view));
    offer();
}

/// What is to be offered once it is this call's turn: who saw something change first may be late.
void AgentProcess::offer() {
    asio::post(strand_, [this] {
        publisher_->offer(checks_->refusal().empty() ? flow_->view()->inventory : Inventory());
    });
}

void AgentProcess::tell_health() {
    health_.show(flow_->view()->inventory);
    look_at_silence();
    self_health_.look();
}

void AgentProcess::hold_to_limits() {
    for (const ChangedShare& share : flow_->hold_to_limits()) {
        base::log_event(Level::info, "limits",
                        {{"share", share.name},
                         {"memory", share.amounts.memory_bytes},
                         {"cores", share.amounts.cores}});
    }
}

}  // namespace drawbridge::agent
