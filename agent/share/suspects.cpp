#include "agent/share/suspects.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace drawbridge::agent {
namespace {

constexpr std::int64_t mib = 1 << 20;
constexpr std::int64_t least_margin = 256 * mib;
constexpr std::int64_t limit_part = 20;
constexpr std::int64_t absurd_bytes = std::int64_t{1} << 50;  // no sum of these overflows

std::string_view take_field(std::string_view& line) {
    const std::string_view field = line.substr(0, line.find(' '));
    line.remove_prefix(std::min(field.size() + 1, line.size()));
    return field;
}

/// The pod that a path on the host lies in: `.../pods/<uid>/etc-hosts` and the like.
std::string_view pod_of_path(std::string_view path) {
    constexpr std::string_view folder = "/pods/";
    const std::size_t at = path.find(folder);
    if (at == std::string_view::npos) return {};
    path.remove_prefix(at + folder.size());
    const std::size_t end = path.find('/');
    if (end == std::string_view::npos) return {};
    const std::string_view rest = path.substr(end + 1);
    if (rest != "etc-hosts" && !rest.starts_with("containers/")) return {};
    return path.substr(0, end);
}

ObjectName claim_object(const ClaimName& claim) {
    return {.api_version = "resource.k8s.io/v1",
            .kind = "ResourceClaim",
            .name_space = claim.name_space,
            .name = claim.name,
            .uid = claim.uid};
}

/// Which of several pods it is, only its name would tell, which is not known here.
Occurrence occurrence_on(const Suspect& suspect, const ClaimRecord& record) {
    Occurrence made{.regarding = claim_object(record.claim), .action = "CompareWithDriver"};
    if (suspect.pod_uid.empty() || record.pods.size() != 1) return made;
    made.related = made.regarding;
    made.regarding = {.api_version = "v1",
                      .kind = "Pod",
                      .name_space = record.claim.name_space,
                      .name = record.pods.front(),
                      .uid = suspect.pod_uid};
    return made;
}

}  // namespace

void Holding::add(const DeviceProcess& process) {
    const auto held =
        static_cast<std::int64_t>(std::min<std::uint64_t>(process.bytes, absurd_bytes));
    bytes += held;
    if (held < most_bytes) return;
    most_bytes = held;
    pid = process.pid;
}

std::int64_t Holding::beyond() const {
    std::int64_t sum = 0;
    for (const auto& [share, limit] : limits) {
        if (limit < 0) return 0;
        sum += std::min(limit, absurd_bytes);
    }
    return std::max<std::int64_t>(bytes - sum, 0);
}

bool Holding::is_over() const {
    const std::int64_t over = beyond();
    return over > least_margin + (bytes - over) / limit_part;
}

std::map<std::string, std::int64_t> Overruns::look(const std::map<std::string, Holding>& holdings,
                                                   std::uint64_t now_ns) {
    std::map<std::string, std::uint64_t> since;
    std::map<std::string, std::int64_t> found;
    for (const auto& [share, holding] : holdings) {
        if (!holding.is_over()) continue;
        const auto before = since_.find(share);
        since[share] = before == since_.end() ? now_ns : before->second;
        if (now_ns - since[share] >= patience_ns) found[share] = holding.beyond();
    }
    since_ = std::move(since);
    return found;
}

std::string pod_in_mounts(std::string_view mountinfo) {
    while (!mountinfo.empty()) {
        std::string_view line = mountinfo.substr(0, mountinfo.find('\n'));
        mountinfo.remove_prefix(std::min(line.size() + 1, mountinfo.size()));
        // The fourth field is the path within the file system that is mounted.
        for (int field = 1; field < 4; ++field)
            take_field(line);
        const std::string_view pod = pod_of_path(take_field(line));
        if (!pod.empty()) return std::string(pod);
    }
    return {};
}

std::vector<Occurrence> suspect_occurrences(const Suspect& before, const Suspect& now,
                                            const ClaimRecord& record, const Share& share) {
    std::vector<Occurrence> found;
    if (before.strangers == 0 && now.strangers > 0) {
        Occurrence made = occurrence_on(now, record);
        made.reason = "GpuLimitBypassed";
        made.note = fmt::format(
            "a process of claim {} uses GPU {} without the preload library: nothing holds it to "
            "{} MiB",
            record.claim.name, share.uuid, share.amounts.memory_bytes / mib);
        found.push_back(std::move(made));
    }
    if (before.overrun_bytes == 0 && now.overrun_bytes > 0) {
        Occurrence made = occurrence_on(now, record);
        made.reason = "GpuLimitExceeded";
        made.note = fmt::format(
            "the driver counts more memory of GPU {} for claim {} than the limit allows: {} MiB "
            "were allocated to it",
            share.uuid, record.claim.name, share.amounts.memory_bytes / mib);
        found.push_back(std::move(made));
    }
    return found;
}

std::vector<Notice> eviction_notices(const Suspect& suspect, const ClaimRecord& record) {
    std::vector<Notice> notices;
    if (suspect.pod_uid.empty()) return notices;
    for (const std::string& pod : record.pods) {
        base::JsonWriter out;
        out.begin_object().member("apiVersion", "policy/v1").member("kind", "Eviction");
        out.key("metadata").begin_object();
        out.member("name", pod).member("namespace", record.claim.name_space).end_object();
        out.key("deleteOptions").begin_object().key("preconditions").begin_object();
        out.member("uid", suspect.pod_uid).end_object().end_object().end_object();
        notices.push_back(
            {.kind = NoticeKind::eviction,
             .key = fmt::format("eviction/{}/{}/{}", record.claim.name_space, pod, suspect.pod_uid),
             .method = "POST",
             .target = fmt::format("/api/v1/namespaces/{}/pods/{}/eviction",
                                   record.claim.name_space, pod),
             .content_type = "application/json",
             .body = out.take()});
    }
    return notices;
}

Delivery eviction_delivery(const base::Result<base::JsonDocument>& answer) {
    if (answer) return Delivery::done;
    switch (answer.error().kind) {
        case base::ErrorKind::conflict:   // another pod has the name by now
        case base::ErrorKind::not_found:  // it has ended
        case base::ErrorKind::forbidden:
        case base::ErrorKind::invalid_input:
            return Delivery::dropped;
        default:  // a budget that allows none now among them
            return Delivery::again;
    }
}

}  // namespace drawbridge::agent
