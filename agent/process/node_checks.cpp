#include "agent/process/node_checks.hpp"

#include "agent/cdi/cdi_spec.hpp"
#include "agent/process/instance_lock.hpp"
#include "agent/rpc/messages.hpp"
#include "agent/rpc/rpc_client.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <set>
#include <utility>

namespace drawbridge::agent {
namespace {

constexpr std::chrono::seconds runtime_time{2};
constexpr unsigned looks_between_questions = 10;
constexpr std::size_t max_cdi = 1U << 20U;

/// Whether the file can change while its folder tells nothing: it lies elsewhere, or has a second
/// name there.
bool changes_unseen(const std::string& path) {
    std::error_code failure;
    return std::filesystem::is_symlink(path, failure) ||
           std::filesystem::hard_link_count(path, failure) != 1;
}

/// Ours are many, and known by their names.
bool is_foreign_cdi(std::string_view name) {
    const bool is_cdi = name.ends_with(".json") || name.ends_with(".yaml");
    return is_cdi && !claim_of_cdi_file(name);
}

}  // namespace

NodeChecks::NodeChecks(NodeCheckParts parts) : parts_(std::move(parts)) {
    std::set<std::string> folders(parts_.cdi_folders.begin(), parts_.cdi_folders.end());
    folders.insert(parts_.cdi);
    for (const std::string& folder : folders)
        watches_.emplace(folder, parts_.files.watch(folder));
}

RuntimeFacts NodeChecks::ask_runtime(const std::string& socket,
                                     std::vector<std::string>& remarks) const {
    const auto bytes = rpc::call_rpc(socket, "/runtime.v1.RuntimeService/Status",
                                     rpc::encode_runtime_status_request(), runtime_time);
    const auto config = bytes ? rpc::decode_runtime_config(*bytes) : tl::unexpected(bytes.error());
    if (!config) {
        remarks.push_back(
            fmt::format("the container runtime does not say whether CDI is on: {}: {}", socket,
                        config.error().message));
        return {};
    }
    return read_runtime_config(*config, parts_.cdi);
}

std::vector<CdiFile> NodeChecks::read_cdi_files() {
    std::vector<CdiFile> found;
    unseen_.clear();
    for (const auto& [folder, watch] : watches_) {
        const auto names = parts_.files.list(folder);
        if (!names) unseen_.emplace(folder, std::nullopt);
        for (const std::string& name : names.value_or(std::vector<std::string>())) {
            if (!is_foreign_cdi(name)) continue;
            std::string path = fmt::format("{}/{}", folder, name);
            const bool is_unseen = changes_unseen(path);
            const auto stamp = parts_.files.stamp(path);
            auto text = parts_.files.read(path, max_cdi);
            if (!text || is_unseen) unseen_.emplace(path, text ? stamp : std::nullopt);
            if (text) found.push_back({std::move(path), *std::move(text)});
        }
    }
    return found;
}

bool NodeChecks::are_cdi_files_as_before() {
    bool same = true;
    for (const auto& [folder, watch] : watches_) {  // each is asked, so that none tells old news
        const auto changed = watch->changed();
        same = same && changed && std::ranges::none_of(*changed, is_foreign_cdi);
    }
    return same && std::ranges::all_of(unseen_, [&](const auto& file) {
               return file.second && parts_.files.stamp(file.first) == file.second;
           });
}

/// What a runtime has told holds until it is started anew; now and then it is asked all the same.
void NodeChecks::look() {
    const std::lock_guard one(looking_);
    std::vector<std::string> remarks;
    std::vector<RuntimeFacts> runtimes;
    const bool all = looks_++ % looks_between_questions == 0;
    asked_.resize(parts_.runtime_sockets.size());
    for (std::size_t i = 0; i < parts_.runtime_sockets.size(); ++i) {
        const std::string& socket = parts_.runtime_sockets[i];
        const auto there = parts_.files.stamp(socket);  // one that starts makes another one
        if (!all && there && there == asked_[i]) {
            runtimes.push_back(runtimes_[i]);
            continue;
        }
        runtimes.push_back(there ? ask_runtime(socket, remarks) : RuntimeFacts());
        asked_[i] = runtimes.back().cdi != CdiState::unknown ? there : std::nullopt;
    }
    // Beside one that tells, another that does not is not the kubelet's: Docker's, for example.
    if (worst_of(runtimes).cdi != CdiState::unknown) remarks.clear();
    // Not everything is told of: a file may get another name, or another one be mounted on it.
    if (!are_cdi_files_as_before() || all) clashes_ = cdi_clashes(read_cdi_files());
    remarks.insert(remarks.end(), clashes_.begin(), clashes_.end());
    const auto instances = static_cast<std::int64_t>(running_instances(parts_.instances).size());
    if (instances > 1) {
        remarks.push_back(fmt::format(
            "{} agents run on this node, as they do for a moment while they are updated",
            instances));
    }
    const std::lock_guard lock(mutex_);
    runtimes_.resize(runtimes.size());
    for (std::size_t i = 0; i < runtimes.size(); ++i) {
        // A runtime that is being restarted does not take back what it said.
        if (runtimes[i].cdi != CdiState::unknown) runtimes_[i] = std::move(runtimes[i]);
    }
    remarks_ = std::move(remarks);
    instances_ = instances;
}

std::string NodeChecks::refusal() const {
    const std::lock_guard lock(mutex_);
    return worst_of(runtimes_).reason;
}

std::vector<std::string> NodeChecks::remarks() const {
    const std::lock_guard lock(mutex_);
    return remarks_;
}

CdiState NodeChecks::cdi() const {
    const std::lock_guard lock(mutex_);
    return worst_of(runtimes_).cdi;
}

std::int64_t NodeChecks::instances() const {
    const std::lock_guard lock(mutex_);
    return instances_;
}

}  // namespace drawbridge::agent
