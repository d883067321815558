#include "agent/cdi/runtime_facts.hpp"

#include "agent/cdi/cdi_spec.hpp"
#include "base/json.hpp"
#include "kube/manifest.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace drawbridge::agent {
namespace {

constexpr std::size_t max_config = 1U << 20U;

/// `/var/run` is `/run` on every system that runs a kubelet.
std::string plain_folder(std::string_view path) {
    constexpr std::string_view old_place = "/var/run/";
    while (path.size() > 1 && path.ends_with('/'))
        path.remove_suffix(1);
    if (path.starts_with(old_place)) return fmt::format("/run/{}", path.substr(old_place.size()));
    return std::string(path);
}

/// The kind that a CDI file names; nothing where it cannot be read, as then no runtime can either.
std::optional<std::string> kind_of(const CdiFile& file) {
    const auto manifests = kube::read_manifests(file.text, {.max_bytes = max_config});
    if (!manifests || manifests->size() != 1) return std::nullopt;
    const auto document = base::parse_json(manifests->front().json);
    if (!document) return std::nullopt;
    const auto kind = document->root()["kind"].as_string();
    return kind ? std::optional(std::string(*kind)) : std::nullopt;
}

/// Whether a runtime that reads CDI files in `folders` finds ours; `name` is that of its setting.
RuntimeFacts facts_of_folders(base::JsonView folders, std::string_view cdi_folder,
                              std::string_view name) {
    const std::string ours = plain_folder(cdi_folder);
    std::vector<std::string> read;
    for (std::size_t i = 0; i < folders.size(); ++i)
        read.push_back(plain_folder(folders.at(i).string_or("")));
    if (std::ranges::find(read, ours) != read.end()) return {CdiState::on, {}};
    return {CdiState::off,
            fmt::format("the container runtime reads CDI files in {}, and the agent writes them "
                        "into {}: make --cdi and {} agree",
                        read.empty() ? "no folder" : fmt::format("{}", fmt::join(read, " and ")),
                        ours, name)};
}

RuntimeFacts facts_of_containerd(base::JsonView config, std::string_view cdi_folder) {
    const auto enabled = config["enableCDI"].as_bool();
    if (!enabled) return {};
    if (!*enabled) {
        return {CdiState::off,
                "the container runtime has CDI off, so that containers would start without their "
                "GPU and without limits: set enable_cdi = true for containerd's CRI plugin and "
                "restart it"};
    }
    // None named: its own, which are the usual ones.
    const base::JsonView folders = config["cdiSpecDirs"];
    if (folders.size() == 0) return {CdiState::on, {}};
    return facts_of_folders(folders, cdi_folder, "containerd's cdi_spec_dirs");
}

}  // namespace

RuntimeFacts read_runtime_config(std::string_view json, std::string_view cdi_folder) {
    const auto document = base::parse_json(std::string(json), {.max_bytes = max_config});
    if (!document) return {};
    const base::JsonView root = document->root();
    // CRI-O has no switch for CDI: what counts is where it looks.
    const base::JsonView folders = root["crio"]["CDISpecDirs"];
    if (folders.is_array()) return facts_of_folders(folders, cdi_folder, "CRI-O's cdi_spec_dirs");
    return facts_of_containerd(root, cdi_folder);
}

RuntimeFacts worst_of(const std::vector<RuntimeFacts>& runtimes) {
    RuntimeFacts worst;
    for (const RuntimeFacts& facts : runtimes) {
        if (facts.cdi == CdiState::off) return facts;
        if (facts.cdi == CdiState::on) worst = facts;
    }
    return worst;
}

std::vector<std::string> cdi_clashes(const std::vector<CdiFile>& files) {
    std::vector<std::string> clashes;
    for (const CdiFile& file : files) {
        const std::string_view name = std::string_view(file.path).substr(file.path.rfind('/') + 1);
        if (claim_of_cdi_file(name) || kind_of(file) != cdi_kind) continue;
        clashes.push_back(
            fmt::format("{} names devices of kind {}, which this agent alone gives out: containers "
                        "with a device that it names do not start; remove it",
                        file.path, cdi_kind));
    }
    return clashes;
}

}  // namespace drawbridge::agent
