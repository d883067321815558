#include "agent/prepare/prepare.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace drawbridge::agent {
namespace {

using base::ErrorKind;
using base::fail;
using base::Result;

/// Smallest amounts of a share (design.md decision 4).
constexpr Amounts least{.memory_bytes = 1 << 20, .cores = 0, .slots = 1};

struct CapacityName {
    std::string_view name;
    std::int64_t Amounts::*amount;
};
constexpr CapacityName capacities[] = {
    {"memory", &Amounts::memory_bytes}, {"cores", &Amounts::cores}, {"slots", &Amounts::slots}};

Result<void> check_claim(const ClaimFacts& facts) {
    if (!facts.allocated) return fail(ErrorKind::conflict, "the claim is not allocated");
    if (facts.consumers.empty())
        return fail(ErrorKind::conflict, "the claim is reserved for no pod");
    return {};
}

Result<const Offer*> find_offer(const Inventory& inventory, std::string_view device) {
    const Offer* offer = inventory.find(device);
    if (offer == nullptr) {
        return fail(ErrorKind::unavailable,
                    fmt::format("device {} is not on this node any more", device));
    }
    if (is_lost(offer->device)) {
        return fail(ErrorKind::unavailable,
                    fmt::format("device {} ({}) is lost", device, offer->device.uuid));
    }
    if (has_fault(offer->device, driver_key)) {
        return fail(ErrorKind::unavailable,
                    fmt::format("device {} ({}) cannot be given to a container while the driver "
                                "does not answer",
                                device, offer->device.uuid));
    }
    return offer;
}

/// What a result took of its device. Without a share ID it was allocated before devices were
/// shared, or by a scheduler that does not know of shares: whole.
Result<Amounts> amounts_of(const AllocatedDevice& device, const Offer& offer) {
    if (device.share_id.empty()) return offer.capacity;
    if (!device.consumed) {
        return fail(ErrorKind::invalid_input,
                    fmt::format("device {}: share {} says nothing of consumed capacity",
                                device.device, device.share_id));
    }
    for (const auto& [name, amount] : capacities) {
        const std::int64_t taken = *device.consumed.*amount;
        // An administrator's share may ask for nothing, and what it asks for is not taken.
        const std::int64_t from = device.admin ? 0 : least.*amount;
        if (taken >= from && taken <= offer.capacity.*amount) continue;
        return fail(ErrorKind::invalid_input,
                    fmt::format("device {}: {} of {} is not between {} and {}", device.device,
                                taken, name, from, offer.capacity.*amount));
    }
    return *device.consumed;
}

Result<Share> share_of(const ClaimFacts& facts, const AllocatedDevice& device,
                       const PrepareView& view) {
    if (device.pool != view.pool) {
        return fail(ErrorKind::invalid_input,
                    fmt::format("device {} is of pool {}, this node serves {}", device.device,
                                device.pool, view.pool));
    }
    const auto offer = find_offer(view.inventory, device.device);
    if (!offer) return tl::unexpected(offer.error());
    const auto amounts = amounts_of(device, **offer);
    if (!amounts) return tl::unexpected(amounts.error());
    return Share{.request = device.request,
                 .subrequest = device.subrequest,
                 .pool = device.pool,
                 .device = device.device,
                 .uuid = (*offer)->device.uuid,
                 .share_id = device.share_id,
                 .amounts = *amounts,
                 .admin = device.admin,
                 .config = config_of(facts, device)};
}

/// The claims beside `except` that hold a part of a GPU, for a message.
std::string holders(const ClaimRecords& records, std::string_view uuid, std::string_view except) {
    std::vector<std::string> names;
    for (const ClaimRecord& record : records) {
        if (record.state == ClaimState::unprepared || record.claim.uid == except) continue;
        if (std::ranges::any_of(record.shares, [&](const Share& s) { return s.uuid == uuid; }))
            names.push_back(fmt::format("{}/{}", record.claim.name_space, record.claim.name));
    }
    constexpr std::size_t most = 8;
    const std::size_t more = names.size() > most ? names.size() - most : 0;
    names.resize(std::min(names.size(), most));
    return fmt::format("{}{}", fmt::join(names, ", "),
                       more > 0 ? fmt::format(" and {} more", more) : "");
}

Result<void> check_sums(const ClaimName& claim, const std::vector<Share>& shares,
                        const PrepareView& view) {
    std::map<std::string, Amounts> wanted;
    for (const Share& share : shares) {
        if (!share.admin) wanted[share.uuid] += share.amounts;
    }
    for (const auto& [uuid, amounts] : wanted) {
        const Offer& offer = *view.inventory.find_uuid(uuid);
        const Amounts others = committed(view.records, uuid, claim.uid);
        for (const auto& [name, amount] : capacities) {
            if (others.*amount <= offer.capacity.*amount - amounts.*amount) continue;
            return fail(ErrorKind::conflict,
                        fmt::format("device {} would be given away twice: {} of {} is taken by {}, "
                                    "{} more is asked for, {} is there",
                                    offer.name, others.*amount, name,
                                    holders(view.records, uuid, claim.uid), amounts.*amount,
                                    offer.capacity.*amount));
        }
    }
    return {};
}

}  // namespace

Amounts committed(const ClaimRecords& records, std::string_view uuid, std::string_view except) {
    Amounts sum;
    for (const ClaimRecord& record : records) {
        if (record.state == ClaimState::unprepared || record.claim.uid == except) continue;
        for (const Share& share : record.shares) {
            if (share.uuid == uuid && !share.admin) sum += share.amounts;
        }
    }
    return sum;
}

Result<std::vector<Share>> plan_prepare(const ClaimFacts& facts, const PrepareView& view) {
    if (auto checked = check_claim(facts); !checked) return tl::unexpected(checked.error());
    std::vector<Share> shares;
    for (const AllocatedDevice& device : facts.devices) {
        auto share = share_of(facts, device, view);
        if (!share) return tl::unexpected(std::move(share).error());
        shares.push_back(*std::move(share));
    }
    auto checked = check_sums(facts.claim, shares, view);
    if (!checked) return tl::unexpected(std::move(checked).error());
    return shares;
}

bool is_same_allocation(const std::vector<Share>& shares, const ClaimFacts& facts) {
    return std::ranges::equal(
        shares, facts.devices, [](const Share& share, const AllocatedDevice& device) {
            return share.request == device.request && share.pool == device.pool &&
                   share.device == device.device && share.share_id == device.share_id &&
                   share.admin == device.admin;
        });
}

Result<void> check_devices(const std::vector<Share>& shares, const Inventory& inventory) {
    for (const Share& share : shares) {
        const auto offer = find_offer(inventory, share.device);
        if (!offer) return tl::unexpected(offer.error());
        if ((*offer)->device.uuid != share.uuid) {
            return fail(ErrorKind::unavailable,
                        fmt::format("device {} was {} and is {} now", share.device, share.uuid,
                                    (*offer)->device.uuid));
        }
    }
    return {};
}

}  // namespace drawbridge::agent
