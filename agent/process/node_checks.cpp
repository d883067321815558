#include "agent/process/node_checks.hpp"

#include "agent/cdi/cdi_spec.hpp"
#include "agent/process/instance_lock.hpp"
#include "agent/rpc/messages.hpp"
#include "agent/rpc/rpc_client.hpp"

#include <fmt/format.h>

#include <chrono>
#include <set>
#include <unistd.h>
#include <utility>

namespace drawbridge::agent {
namespace {

constexpr std::chrono::seconds runtime_time{2};
constexpr std::size_t max_cdi = 1U << 20U;

bool is_cdi_name(std::string_view name) {
    return name.ends_with(".json") || name.ends_with(".yaml");
}

}  // namespace

RuntimeFacts NodeChecks::ask_runtime(const std::string& socket,
                                     std::vector<std::string>& remarks) const {
    if (::access(socket.c_str(), F_OK) != 0) return {};
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

std::vector<CdiFile> NodeChecks::read_cdi_files() const {
    std::set<std::string> folders(parts_.cdi_folders.begin(), parts_.cdi_folders.end());
    folders.insert(parts_.cdi);
    std::vector<CdiFile> found;
    for (const std::string& folder : folders) {
        const auto names = parts_.files.list(folder);
        if (!names) continue;
        for (const std::string& name : *names) {
            // Ours are many, and known by their names.
            if (!is_cdi_name(name) || claim_of_cdi_file(name)) continue;
            std::string path = fmt::format("{}/{}", folder, name);
            if (auto text = parts_.files.read(path, max_cdi))
                found.push_back({std::move(path), *std::move(text)});
        }
    }
    return found;
}

void NodeChecks::look() {
    std::vector<std::string> remarks;
    std::vector<RuntimeFacts> runtimes;
    for (const std::string& socket : parts_.runtime_sockets)
        runtimes.push_back(ask_runtime(socket, remarks));
    // Beside one that tells, another that does not is not the kubelet's: Docker's, for example.
    if (worst_of(runtimes).cdi != CdiState::unknown) remarks.clear();
    for (std::string& clash : cdi_clashes(read_cdi_files()))
        remarks.push_back(std::move(clash));
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
