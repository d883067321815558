#include "agent/process/reconciler.hpp"

#include "agent/prepare/prepare.hpp"
#include "agent/rpc/messages.hpp"
#include "agent/rpc/rpc_client.hpp"
#include "base/log.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <algorithm>
#include <utility>

namespace drawbridge::agent {
namespace {

namespace asio = boost::asio;
using base::Level;
using base::Result;

constexpr std::chrono::seconds kubelet_time{10};

/// Runs what blocks on the pool; its result comes back on the strand.
template <class Work>
asio::awaitable<std::invoke_result_t<Work>> on_pool(asio::any_io_executor pool, Work work) {
    auto inside = [work = std::move(work)]() -> asio::awaitable<std::invoke_result_t<Work>> {
        co_return work();
    };
    // Named, and alive until the coroutine made of it has ended.
    co_return co_await asio::co_spawn(pool, inside(), asio::use_awaitable);
}

bool is_used(const ClaimRecord& record, const std::set<std::string>& used) {
    return std::ranges::any_of(
        answer_of(record), [&](const PreparedShare& share) { return used.contains(share.cdi_id); });
}

bool is_used(const std::string& uid, const std::set<std::string>& used) {
    const std::string prefix = cdi_id(uid + "-");
    return std::ranges::any_of(used, [&](const std::string& id) { return id.starts_with(prefix); });
}

/// Whether the claim has a device of that pool: one that was allocated anew may be on another node.
bool is_of_pool(const ClaimFacts& facts, std::string_view pool) {
    return std::ranges::find(facts.devices, pool, &AllocatedDevice::pool) != facts.devices.end();
}

}  // namespace

std::optional<ClaimRecord> record_from(const ClaimFacts& facts, const NodeView& view) {
    // The boot stays empty: in which one its files were made is not known.
    ClaimRecord record{.claim = facts.claim, .pod_claim = facts.pod_claim, .pods = pods_of(facts)};
    // Against no other claims: the allocation stands, whatever the sums say of it now.
    ClaimFacts reserved = facts;
    if (reserved.consumers.empty()) reserved.consumers.push_back({});
    auto shares = plan_prepare(reserved, {view.pool, view.inventory, {}});
    if (!shares) return std::nullopt;
    record.shares = *std::move(shares);
    return record;
}

asio::awaitable<Reconciler::InUse> Reconciler::used_ids() {
    auto ask = [socket = parts_.pod_resources]() -> InUse {
        const auto bytes = rpc::call_rpc(socket, "/v1.PodResourcesLister/List", "", kubelet_time);
        if (!bytes) return std::nullopt;
        const auto shares = rpc::decode_pod_resources(*bytes);
        if (!shares) return std::nullopt;
        std::set<std::string> used;
        for (const rpc::ContainerShare& share : *shares)
            used.insert(share.cdi_id);
        return used;
    };
    co_return co_await on_pool(parts_.pool, std::move(ask));
}

asio::awaitable<bool> Reconciler::is_gone(ClaimRecord record) {
    const auto facts = co_await parts_.api.claim(record.claim);
    if (!facts) co_return facts.error().kind == base::ErrorKind::not_found;
    co_return facts->claim.uid != record.claim.uid || !facts->allocated ||
        !is_same_allocation(record.shares, *facts);
}

asio::awaitable<void> Reconciler::end_orphan(ClaimRecord record) {
    auto end = [this, record] { return parts_.flow.unprepare_if(record); };
    const Result<bool> ended = co_await on_pool(parts_.pool, std::move(end));
    if (ended && *ended) ++orphans_;
    base::log_event(ended ? Level::info : Level::warn, "orphan",
                    {{"uid", record.claim.uid},
                     {"namespace", record.claim.name_space},
                     {"claim", record.claim.name},
                     {"reason", ended ? std::string_view() : ended.error().message}});
}

/// For records that cannot be read: what the API server knows of the claim takes their place; a
/// claim it does not know is ended.
asio::awaitable<void> Reconciler::rebuild(std::vector<std::string> unreadable, InUse used) {
    const auto claims = co_await parts_.api.claims_of_pool();
    if (!claims) co_return;
    const auto view = parts_.flow.view();
    for (const std::string& uid : unreadable) {
        const auto found = std::ranges::find_if(*claims, [&](const ClaimFacts& facts) {
            return facts.claim.uid == uid && is_of_pool(facts, view->pool);
        });
        std::optional<ClaimRecord> record;
        if (found != claims->end() && found->allocated) record = record_from(*found, *view);
        const bool gone = found == claims->end() && used && !is_used(uid, *used);
        if (!record && !gone) continue;
        auto mend = [this, record, uid]() -> Result<void> {
            return record ? parts_.flow.rebuild(*record) : parts_.flow.unprepare(uid);
        };
        const Result<void> mended = co_await on_pool(parts_.pool, std::move(mend));
        base::log_event(Level::warn, "record_rebuilt",
                        {{"uid", uid},
                         {"known", record.has_value()},
                         {"reason", mended ? std::string_view() : mended.error().message}});
    }
}

asio::awaitable<void> Reconciler::round() {
    auto load = [this] { return parts_.flow.stored(); };
    const auto stored = co_await on_pool(parts_.pool, std::move(load));
    if (!stored) co_return;
    const InUse used = co_await used_ids();
    if (!stored->unreadable.empty()) co_await rebuild(stored->unreadable, used);
    if (!used) co_return;  // without the kubelet's word nothing is taken away
    for (const ClaimRecord& record : stored->records) {
        if (record.state == ClaimState::unprepared || is_used(record, *used)) continue;
        if (co_await is_gone(record)) co_await end_orphan(record);
    }
}

}  // namespace drawbridge::agent
