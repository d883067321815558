// What the agent reads of others: records, claims, parameters, settings, device lists, CDI files
// and the two files that a tenant can write. The first byte chooses which.

#include "agent/api/publish_plan.hpp"
#include "agent/cdi/cdi_spec.hpp"
#include "agent/claim/claim_record.hpp"
#include "agent/device/device_list.hpp"
#include "agent/node_settings.hpp"
#include "agent/prepare/prepare.hpp"
#include "agent/share/share_pages.hpp"
#include "agent/share/share_use.hpp"
#include "base/hash.hpp"
#include "base/json.hpp"
#include "tests/fuzz/laws.hpp"

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <string>

using drawbridge::fuzz::law;
namespace agent = drawbridge::agent;
namespace base = drawbridge::base;

namespace {

constexpr std::int64_t gib = std::int64_t{1} << 30;

const agent::Inventory& inventory() {
    static const agent::Inventory made =
        agent::Inventory::make({{.uuid = "GPU-a", .memory_bytes = 80 * gib}}, {}, {}).value();
    return made;
}

void read_record(const std::string& text) {
    // As it came, and as the content of a file whose checksum fits.
    static_cast<void>(agent::decode_record(text));
    const std::string sum = base::base32_lower(base::sha256("1" + text), 32);
    const auto record =
        agent::decode_record(fmt::format(R"({{"version":1,"checksum":"{}","claim":{}}})"
                                         "\n",
                                         sum, text));
    if (!record) return law(!record.error().message.empty(), "a refusal has a reason");
    const auto again = agent::decode_record(agent::encode_record(*record));
    law(again.has_value(), "a record that was read can be written and read", text);
    law(again->shares == record->shares && again->claim == record->claim, "and is the same", text);
}

void read_claim(base::JsonView document, const std::string& text) {
    const auto facts = agent::read_claim(document);
    if (!facts) return law(!facts.error().message.empty(), "a refusal has a reason");
    const auto shares = agent::plan_prepare(*facts, {"node", inventory(), {}});
    if (!shares) return;
    agent::Amounts sum;
    for (const agent::Share& share : *shares) {
        if (!share.admin) sum += share.amounts;
    }
    law(sum.memory_bytes <= 80 * gib && sum.cores <= 100 && sum.slots <= 10,
        "no claim gets more than there is", text);
    law(agent::is_same_allocation(*shares, *facts), "a claim is the same as itself", text);
}

void read_document(std::uint8_t choice, const std::string& text) {
    const auto document = base::parse_json(text);
    if (!document) return;
    switch (choice) {
        case 0:
            return read_claim(document->root(), text);
        case 1:
            return static_cast<void>(agent::read_share_config(document->root()));
        case 2:
            return static_cast<void>(agent::read_cdi_spec(document->root()));
        default: {
            const auto slice = agent::read_seen_slice(document->root());
            if (!slice) return;
            law(agent::dropped_fields(slice->devices, slice->devices).empty(),
                "a slice lacks nothing of itself", text);
        }
    }
}

void read_pages(std::string text) {
    text.resize(262144);
    const std::string header = agent::fresh_ledger().substr(0, 16);
    text.replace(0, header.size(), header);
    const auto copy = agent::parse_ledger(text);
    const auto use = agent::use_of(copy.value_or(agent::LedgerCopy()), gib);
    law(copy && use.used_bytes >= 0 && use.used_bytes <= gib, "a ledger's sum is within bounds");
    agent::ShareHistory history;
    history.take(*copy, 1);
    law(history.totals().launches <= INT64_MAX, "a ledger's counters fit what tells them");
    text.resize(16384);
    static_cast<void>(agent::read_limits(text));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size == 0) return 0;
    const std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
    constexpr std::uint8_t choices = 8;
    switch (const std::uint8_t choice = data[0] % choices) {
        case 4:
            read_record(text);
            break;
        case 5:
            static_cast<void>(agent::parse_node_settings(text, "node"));
            break;
        case 6:
            static_cast<void>(agent::parse_device_list(text));
            break;
        case 7:
            read_pages(text);
            break;
        default:
            read_document(choice, text);
    }
    return 0;
}
