#include "agent/claim/claim_record.hpp"

#include "agent/json_reader.hpp"
#include "base/hash.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace drawbridge::agent {
namespace {

using base::ErrorKind;
using base::JsonWriter;

constexpr std::int64_t version = 1;
constexpr Range amount_range{0, std::int64_t{1} << 50};  // so that no sum of shares overflows
constexpr std::size_t checksum_chars = 32;
constexpr std::string_view head = R"({"version":)";
constexpr std::string_view before_checksum = R"(,"checksum":")";
constexpr std::string_view before_claim = R"(","claim":)";
constexpr std::string_view tail = "}\n";
constexpr std::array<std::string_view, 2> states = {"Started", "Unprepared"};
// Of an agent that writes the record again behind the CDI file (node-agent.md 4).
constexpr std::string_view also_started = "Completed";
constexpr std::array<std::string_view, 12> known = {"uid",     "namespace", "name",    "podClaim",
                                                    "pods",    "state",     "bootId",  "cdiDigest",
                                                    "library", "time",      "endedNs", "shares"};

std::string checksum(std::string_view text) {
    return base::base32_lower(base::sha256(text), checksum_chars);
}

void write_share(JsonWriter& out, const Share& share) {
    out.begin_object().member("request", share.request).member("pool", share.pool);
    if (!share.subrequest.empty()) out.member("subrequest", share.subrequest);
    out.member("device", share.device).member("gpuUuid", share.uuid);
    out.member("shareId", share.share_id).key("memoryBytes").integer(share.amounts.memory_bytes);
    out.key("cores").integer(share.amounts.cores).key("slots").integer(share.amounts.slots);
    out.key("admin").boolean(share.admin);
    if (share.config.priority) out.key("priority").integer(*share.config.priority);
    if (share.config.core_policy)
        out.member("corePolicy", core_policy_name(*share.config.core_policy));
    out.end_object();
}

std::string claim_json(const ClaimRecord& record) {
    JsonWriter out;
    out.begin_object().member("uid", record.claim.uid);
    out.member("namespace", record.claim.name_space).member("name", record.claim.name);
    if (!record.pods.empty()) {
        out.key("pods").begin_array();
        for (const std::string& pod : record.pods)
            out.string(pod);
        out.end_array();
    }
    if (!record.pod_claim.empty()) out.member("podClaim", record.pod_claim);
    out.member("state", states[static_cast<std::size_t>(record.state)]);
    out.member("bootId", record.boot_id).member("cdiDigest", record.cdi_digest);
    if (!record.library.empty()) out.member("library", record.library);
    out.key("time").integer(record.time);
    if (record.ended_ns != 0) out.key("endedNs").integer(record.ended_ns);
    out.key("shares").begin_array();
    for (const Share& share : record.shares)
        write_share(out, share);
    out.end_array();
    for (const auto& [key, json] : record.unknown)
        out.key(key).raw(json);
    out.end_object();
    return out.take();
}

Share read_share(JsonReader& reader, const Spot& at) {
    Share share{.request = reader.text_or(at["request"], ""),
                .subrequest = reader.text_or(at["subrequest"], ""),
                .pool = reader.text(at["pool"]),
                .device = reader.text(at["device"]),
                .uuid = reader.text(at["gpuUuid"]),
                .share_id = reader.text_or(at["shareId"], ""),
                .amounts = {.memory_bytes = reader.whole(at["memoryBytes"], amount_range),
                            .cores = reader.whole(at["cores"], amount_range),
                            .slots = reader.whole(at["slots"], amount_range)},
                .admin = reader.boolean_or(at["admin"], false)};
    if (!at["priority"].is_absent()) share.config.priority = reader.whole(at["priority"], {0, 1});
    if (!at["corePolicy"].is_absent()) {
        share.config.core_policy = core_policy_from_name(reader.text(at["corePolicy"]));
        if (!share.config.core_policy) reader.refuse(at["corePolicy"], "no such policy");
    }
    return share;
}

ClaimState read_state(JsonReader& reader, const Spot& at) {
    const std::string text = reader.text(at);
    if (text == also_started) return ClaimState::started;
    const auto* const found = std::ranges::find(states, text);
    if (found != states.end()) return static_cast<ClaimState>(found - states.begin());
    reader.refuse(at, "no such state");
    return ClaimState::started;
}

tl::unexpected<base::Error> damaged(std::string_view reason) {
    return base::fail(ErrorKind::invalid_input, fmt::format("not a whole record: {}", reason));
}

/// Takes `prefix` off `text`.
bool skip(std::string_view& text, std::string_view prefix) {
    if (!text.starts_with(prefix)) return false;
    text.remove_prefix(prefix.size());
    return true;
}

/// The claim's own text, once version and checksum were found right.
base::Result<std::string_view> open_record(std::string_view text) {
    if (!skip(text, head)) return damaged("it does not begin like one");
    std::int64_t found = 0;
    while (!text.empty() && text.front() >= '0' && text.front() <= '9' && found < 1'000'000) {
        found = 10 * found + (text.front() - '0');
        text.remove_prefix(1);
    }
    if (!skip(text, before_checksum) || text.size() < checksum_chars)
        return damaged("it has no checksum");
    const std::string_view sum = text.substr(0, checksum_chars);
    text.remove_prefix(checksum_chars);
    if (!skip(text, before_claim) || !text.ends_with(tail)) return damaged("it is cut off");
    text.remove_suffix(tail.size());
    if (checksum(fmt::format("{}{}", found, text)) != sum)
        return damaged("the checksum does not fit");
    if (found != version) {
        return base::fail(
            ErrorKind::unavailable,
            fmt::format("a record of version {}; this agent reads version {}", found, version));
    }
    return text;
}

}  // namespace

std::string share_name(std::string_view claim_uid, std::size_t index) {
    return fmt::format("{}-{}", claim_uid, index);
}

bool is_claim_uid(std::string_view text) {
    constexpr std::size_t longest = 63;
    const auto is_fine = [](char c) {
        return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
               c == '-';
    };
    return !text.empty() && text.size() <= longest && std::ranges::all_of(text, is_fine) &&
           text.front() != '-';
}

std::string encode_record(const ClaimRecord& record) {
    const std::string claim = claim_json(record);
    return fmt::format("{}{}{}{}{}{}{}", head, version, before_checksum,
                       checksum(fmt::format("{}{}", version, claim)), before_claim, claim, tail);
}

base::Result<ClaimRecord> decode_record(std::string_view text) {
    const auto claim = open_record(text);
    if (!claim) return tl::unexpected(claim.error());
    const auto document = base::parse_json(std::string(*claim));
    if (!document) return tl::unexpected(document.error());
    JsonReader reader;
    const Spot root{document->root()};
    ClaimRecord record;
    record.claim = {.name_space = reader.text_or(root["namespace"], ""),
                    .name = reader.text_or(root["name"], ""),
                    .uid = reader.text(root["uid"])};
    if (!is_claim_uid(record.claim.uid)) reader.refuse(root["uid"], "no UID");
    record.pods = reader.texts(root["pods"]);
    record.pod_claim = reader.text_or(root["podClaim"], "");
    record.state = read_state(reader, root["state"]);
    record.boot_id = reader.text_or(root["bootId"], "");
    record.cdi_digest = reader.text_or(root["cdiDigest"], "");
    record.library = reader.text_or(root["library"], "");
    record.time = reader.whole_or(root["time"], {}, 0);
    record.ended_ns = reader.whole_or(root["endedNs"], {}, 0);
    for (const Spot& at : reader.list(root["shares"]))
        record.shares.push_back(read_share(reader, at));
    for (const base::JsonMember& member : root.view.members()) {
        if (std::ranges::find(known, member.key) == known.end())
            record.unknown.emplace_back(member.key, member.value.to_json());
    }
    if (!reader.ok()) return reader.error();
    return record;
}

}  // namespace drawbridge::agent
