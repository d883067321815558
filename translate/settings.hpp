#pragma once
// What a site can choose: names, defaults, units and policies, as data.

#include "base/json.hpp"
#include "base/result.hpp"

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace drawbridge::translate {

/// The five legacy resource names (legacy-requests.md 1.1). Empty: this site has no such resource.
struct ResourceNames {
    std::string count = "nvidia.com/gpu";
    std::string memory = "nvidia.com/gpumem";
    std::string memory_percentage = "nvidia.com/gpumem-percentage";
    std::string cores = "nvidia.com/gpucores";
    std::string priority = "nvidia.com/priority";

    [[nodiscard]] bool operator==(const ResourceNames&) const = default;
};

/// Annotations that users write (legacy-requests.md 2.1).
struct AnnotationNames {
    std::string use_type = "nvidia.com/use-gputype";
    std::string nouse_type = "nvidia.com/nouse-gputype";
    std::string use_uuid = "nvidia.com/use-gpuuuid";
    std::string nouse_uuid = "nvidia.com/nouse-gpuuuid";
    std::string numa_bind = "nvidia.com/numa-bind";
    std::string mode = "nvidia.com/vgpu-mode";
    std::string node_policy = "hami.io/node-scheduler-policy";
    std::string device_policy = "hami.io/gpu-scheduler-policy";
    std::string scoring_weights = "hami.io/device-scoring-weights";

    [[nodiscard]] bool operator==(const AnnotationNames&) const = default;
};

/// What is left out of a request is filled with these (legacy-requests.md 1.3).
struct Defaults {
    std::int64_t count = 1;          ///< devices where only another resource is named; 0: none
    std::int64_t memory_mib = 0;     ///< 0: all memory
    std::int64_t cores = 0;          ///< percent, 0: no limit
    std::int64_t memory_factor = 1;  ///< MiB a unit of the memory resource

    [[nodiscard]] bool operator==(const Defaults&) const = default;
};

enum class PriorityForm { share_config, environment };
enum class ExclusiveMemory {
    keep,
    drop
};  ///< a memory figure on an exclusive card: drop it with a warning, or keep it

/// The device class that serves a `vgpu-mode` other than HAMi's own, and whose devices it holds.
struct ModeTarget {
    std::string device_class;                ///< for example `mig.nvidia.com`
    std::string driver = "gpu.nvidia.com";   ///< domain of the attributes that selectors read
    std::string memory_capacity = "memory";  ///< capacity that a memory figure is the least of

    [[nodiscard]] bool operator==(const ModeTarget&) const = default;
};

/// What the claims are written for (design.md decision 10).
struct Target {
    std::string driver = "gpu.drawbridge.dev";
    std::string device_class = "gpu.drawbridge.dev";
    std::string memory_capacity =
        "memory";  ///< empty: the driver has no such capacity (whole cards only)
    std::string cores_capacity = "cores";
    std::string slots_capacity = "slots";  ///< empty: the driver has none
    std::string uuid_attribute = "uuid";   ///< inside the driver's domain
    std::string product_attribute = "productName";
    std::string numa_attribute =
        "gpu.drawbridge.dev/numaNode";  ///< fully qualified; empty: none published
    PriorityForm priority = PriorityForm::share_config;
    ExclusiveMemory exclusive_memory = ExclusiveMemory::keep;
    bool shares =
        true;  ///< false: whole cards and MIG only, any fraction is denied (`nvidia` profile)
    std::map<std::string, ModeTarget> mode_classes;  ///< by vgpu-mode: `mig`, `mps`

    [[nodiscard]] bool operator==(const Target&) const = default;
};

enum class Deny { yes, no };
enum class OldServer { deny, passthrough };
enum class PlainCount {
    translate,
    leave
};  ///< leave: `gpu: N` alone is the cluster's own mapping (KEP-5004)
enum class Mutex { whole_card, ignore };
enum class CorePolicy { standard, force, disable };

struct Policy {
    Deny privileged = Deny::yes;
    OldServer old_server = OldServer::deny;
    PlainCount plain_count = PlainCount::translate;
    Mutex mutex = Mutex::whole_card;
    CorePolicy core_policy = CorePolicy::standard;
    bool hide_gpus_from_others =
        false;                  ///< HAMi's overwriteEnv: NVIDIA_VISIBLE_DEVICES=none without a GPU
    std::string runtime_class;  ///< set where a pod has none; empty: never
    std::int64_t max_memory_mib = 4 << 20;  ///< a card; above: deny
    std::int64_t warn_below_mib = 64;
    std::string legacy_scheduler = "hami-scheduler";
    std::string scheduler = "default-scheduler";  ///< what the legacy scheduler becomes
    std::vector<std::string> capable_schedulers;  ///< foreign ones whose pods are translated too
    /// Key and value of each label that keeps a pod, or all pods of a namespace, untouched. A key
    /// may have several.
    std::set<std::pair<std::string, std::string>> opt_out_labels = {{"hami.io/webhook", "ignore"}};

    [[nodiscard]] bool operator==(const Policy&) const = default;
};

/// Where a kind outside Kubernetes keeps pod templates: JSON pointers, `*` for each element of an
/// array or each member of an object. `api_group` is without version; empty is the core group.
struct WorkloadKind {
    std::string api_group;
    std::string kind;
    std::vector<std::string> pod_template_paths;

    [[nodiscard]] bool operator==(const WorkloadKind&) const = default;
};

struct Settings {
    std::string profile = "drawbridge";
    ResourceNames resources;
    AnnotationNames annotations;
    Defaults defaults;
    Target target;
    Policy policy;
    std::vector<std::int64_t>
        memory_sizes;                     ///< bytes, ascending; given here they win over the slices
    std::vector<WorkloadKind> workloads;  ///< beside the built-in kinds

    [[nodiscard]] bool operator==(const Settings&) const = default;
};

/// The settings of a built-in profile: `drawbridge`, `hami`, `nvidia`. `invalid_input` for another
/// name.
[[nodiscard]] base::Result<Settings> profile_settings(std::string_view profile);

/// Reads a settings document (already JSON; see kube/manifest.hpp for YAML): our own `Settings`,
/// HAMi's `device-config.yaml`, or a ConfigMap that holds either. Problems are returned all at
/// once, one a line, each with its JSON pointer.
[[nodiscard]] base::Result<Settings> read_settings(base::JsonView document);

/// The settings in effect as a settings document (JSON) that `read_settings` reads back the same.
[[nodiscard]] std::string settings_to_json(const Settings& settings);

}  // namespace drawbridge::translate
