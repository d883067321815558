#include "agent/share/share_pages.hpp"

#include "base/check.hpp"
#include "base/hash.hpp"
#include "preload/abi.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <memory>
#include <optional>

namespace drawbridge::agent {
namespace {

static_assert(std::endian::native == std::endian::little, "the files are little-endian");

constexpr std::int64_t permille_of_percent = 10;
constexpr std::int64_t usual_priority = 1;  // of a share that asks for none, as HAMi-core's
constexpr std::uint32_t busy_scale_one = 1U << 16U;
constexpr std::array<std::size_t, 5> uuid_groups = {8, 4, 4, 4, 12};

int digit_value(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}

std::optional<std::array<std::uint8_t, 16>> parse_uuid(std::string_view text) {
    constexpr std::size_t length = 36;
    if (text.size() < length) return std::nullopt;
    text.remove_prefix(text.size() - length);
    std::array<std::uint8_t, 16> bytes{};
    std::size_t digits = 0;
    std::size_t place = 0;
    for (std::size_t group = 0; group < uuid_groups.size(); ++group) {
        if (group > 0 && text[place++] != '-') return std::nullopt;
        for (std::size_t i = 0; i < uuid_groups[group]; ++i, ++digits) {
            const int value = digit_value(text[place++]);
            if (value < 0) return std::nullopt;
            bytes[digits / 2] = static_cast<std::uint8_t>(bytes[digits / 2] * 16 + value);
        }
    }
    return bytes;
}

std::string uuid_text(const std::uint8_t* bytes) {
    std::string text;
    std::size_t byte = 0;
    for (const std::size_t group : uuid_groups) {
        if (byte > 0) text += '-';
        for (std::size_t i = 0; i < group / 2; ++i)
            text += fmt::format("{:02x}", bytes[byte++]);
    }
    return text;
}

template <std::size_t Size>
void copy_text(char (&to)[Size], std::string_view text) {
    std::memcpy(to, text.data(), std::min(text.size(), Size - 1));
}

std::uint32_t policy_of(const ShareConfig& config) {
    switch (config.core_policy.value_or(CorePolicy::standard)) {
        case CorePolicy::disable:
            return DRAWBRIDGE_POLICY_DISABLE;
        case CorePolicy::force:
            return DRAWBRIDGE_POLICY_FORCE;
        case CorePolicy::standard:
            break;
    }
    return DRAWBRIDGE_POLICY_DEFAULT;
}

/// Who has a whole card may set its clocks; who has a part would set them for the others too.
std::uint32_t flags_of(const ShareLimits& limits) {
    constexpr std::int64_t mib = 1 << 20;
    constexpr std::int64_t all_cores = 100;
    constexpr std::uint32_t flags = DRAWBRIDGE_CHARGE_MANAGED | DRAWBRIDGE_CHARGE_OVERHEAD;
    const bool whole = limits.amounts.cores >= all_cores &&
                       limits.amounts.memory_bytes > limits.physical_bytes - mib;
    return whole ? flags : flags | DRAWBRIDGE_DENY_SETTINGS;
}

/// Cores of zero are no limit, as under HAMi (legacy-requests.md 1.3); so is a full card.
std::uint32_t permille_of(std::int64_t cores) {
    if (cores <= 0) return DRAWBRIDGE_ALL_CORES;
    return static_cast<std::uint32_t>(
        std::min<std::int64_t>(cores * permille_of_percent, DRAWBRIDGE_ALL_CORES));
}

template <class Page>
std::string bytes_of(const Page& page) {
    return {reinterpret_cast<const char*>(&page), sizeof(Page)};
}

template <class Page>
base::Result<std::unique_ptr<Page>> page_of(std::string_view file, std::uint64_t magic) {
    auto page = std::make_unique<Page>();
    if (file.size() != sizeof(Page))
        return base::fail(base::ErrorKind::invalid_input, "another size than it should have");
    std::memcpy(page.get(), file.data(), sizeof(Page));
    if (page->header.magic != magic || page->header.file_size != sizeof(Page))
        return base::fail(base::ErrorKind::invalid_input, "another magic than it should have");
    if (page->header.major != DRAWBRIDGE_ABI_MAJOR) {
        return base::fail(base::ErrorKind::unavailable,
                          fmt::format("version {} of the layout", page->header.major));
    }
    return page;
}

}  // namespace

std::array<std::uint8_t, 16> uuid_bytes(std::string_view text) {
    if (const auto bytes = parse_uuid(text)) return *bytes;
    const base::Sha256 hash = base::sha256(text);
    std::array<std::uint8_t, 16> bytes{};
    std::copy_n(hash.begin(), bytes.size(), bytes.begin());
    return bytes;
}

ShareLimits limits_of(std::string_view claim_uid, std::size_t index, std::string_view boot_id,
                      const Share& share, const Device& device) {
    return {.claim_uid = std::string(claim_uid),
            .share_index = index,
            .boot_id = std::string(boot_id),
            .device_uuid = share.uuid,
            .pci_bus_id = device.place.pci_bus_id,
            .amounts = share.amounts,
            .physical_bytes = device.memory_bytes,
            .config = share.config};
}

std::string limits_page(const ShareLimits& limits, std::uint64_t generation) {
    DCHECK(generation % 2 == 0);
    const auto page = std::make_unique<drawbridge_limits>();
    page->header = {.magic = DRAWBRIDGE_LIMITS_MAGIC,
                    .major = DRAWBRIDGE_ABI_MAJOR,
                    .minor = DRAWBRIDGE_ABI_MINOR,
                    .file_size = DRAWBRIDGE_LIMITS_SIZE};
    page->generation = generation;
    std::ranges::copy(uuid_bytes(limits.device_uuid), page->device_uuid);
    std::ranges::copy(uuid_bytes(limits.boot_id), page->boot_id);
    copy_text(page->pci_bus_id, limits.pci_bus_id);
    copy_text(page->claim_uid, limits.claim_uid);
    page->share_index = static_cast<std::uint32_t>(limits.share_index);
    page->flags = flags_of(limits);
    page->memory_bytes = static_cast<std::uint64_t>(limits.amounts.memory_bytes);
    page->physical_bytes = static_cast<std::uint64_t>(limits.physical_bytes);
    page->core_permille = permille_of(limits.amounts.cores);
    page->policy = policy_of(limits.config);
    page->priority = static_cast<std::uint32_t>(limits.config.priority.value_or(usual_priority));
    page->busy_scale = busy_scale_one;
    return bytes_of(*page);
}

GuardedFields guarded_fields() {
    constexpr std::size_t from = offsetof(drawbridge_limits, device_uuid);
    return {from, offsetof(drawbridge_limits, heartbeat_ns) - from};
}

void keep_measured(std::string& page, std::string_view from) {
    DCHECK(page.size() == DRAWBRIDGE_LIMITS_SIZE && from.size() == DRAWBRIDGE_LIMITS_SIZE);
    const auto keep = [&](std::size_t offset, std::size_t size) {
        page.replace(offset, size, from.substr(offset, size));
    };
    keep(offsetof(drawbridge_limits, context_bytes), sizeof(drawbridge_limits::context_bytes));
    keep(offsetof(drawbridge_limits, busy_scale), sizeof(drawbridge_limits::busy_scale));
}

std::size_t generation_offset() {
    return offsetof(drawbridge_limits, generation);
}

std::string generation_bytes(std::uint64_t generation) {
    return bytes_of(generation);
}

std::uint64_t generation_of(std::string_view page) {
    DCHECK(page.size() == DRAWBRIDGE_LIMITS_SIZE);
    std::uint64_t generation = 0;
    std::memcpy(&generation, page.data() + generation_offset(), sizeof generation);
    return generation;
}

const std::string& fresh_ledger() {
    static const std::string page = [] {
        const drawbridge_header header = {.magic = DRAWBRIDGE_LEDGER_MAGIC,
                                          .major = DRAWBRIDGE_ABI_MAJOR,
                                          .minor = DRAWBRIDGE_ABI_MINOR,
                                          .file_size = DRAWBRIDGE_LEDGER_SIZE};
        std::string made(DRAWBRIDGE_LEDGER_SIZE, '\0');
        made.replace(offsetof(drawbridge_ledger, header), sizeof header, bytes_of(header));
        return made;
    }();
    return page;
}

base::Result<ReadLimits> read_limits(std::string_view file) {
    const auto page = page_of<drawbridge_limits>(file, DRAWBRIDGE_LIMITS_MAGIC);
    if (!page) return tl::unexpected(page.error());
    return ReadLimits{.generation = (*page)->generation,
                      .memory_bytes = static_cast<std::int64_t>((*page)->memory_bytes),
                      .core_permille = (*page)->core_permille,
                      .priority = (*page)->priority,
                      .busy_scale = (*page)->busy_scale,
                      .paused_until_ns = (*page)->paused_until_ns,
                      .boot_id = uuid_text((*page)->boot_id),
                      .device_uuid = uuid_text((*page)->device_uuid)};
}

bool ReadLimits::limits_compute() const {
    return core_permille < DRAWBRIDGE_ALL_CORES;
}

Amounts in_force(const Amounts& allocated, const ReadLimits& limits) {
    Amounts amounts = allocated;
    amounts.memory_bytes = limits.memory_bytes;
    // Several numbers of cores are the same limit: none.
    if (limits.core_permille != permille_of(allocated.cores))
        amounts.cores = limits.core_permille / permille_of_percent;
    return amounts;
}

}  // namespace drawbridge::agent
