#include "translate/environment.hpp"

#include "base/text.hpp"

namespace drawbridge::translate {

namespace {

constexpr std::string_view task_priority = "CUDA_TASK_PRIORITY";
constexpr std::string_view core_policy = "GPU_CORE_UTILIZATION_POLICY";
constexpr std::string_view visible_devices = "NVIDIA_VISIBLE_DEVICES";

}  // namespace

std::vector<std::pair<std::string, std::string>> environment_of(const ClaimShape* shape,
                                                                const Settings& settings) {
    std::vector<std::pair<std::string, std::string>> variables;
    const bool device = shape != nullptr && shape->count > 0;
    if (settings.target.priority == PriorityForm::environment) {
        if (shape != nullptr && shape->priority) {
            variables.emplace_back(task_priority, std::to_string(*shape->priority));
        }
        const CorePolicy policy = settings.policy.core_policy;
        if (device && policy != CorePolicy::standard) {
            variables.emplace_back(core_policy, policy == CorePolicy::force ? "force" : "disable");
        }
    }
    if (!device && settings.policy.hide_gpus_from_others) {
        variables.emplace_back(visible_devices, "none");
    }
    return variables;
}

VariableFate fate_of(base::JsonView variable, const Settings& settings) {
    const std::string_view name = variable["name"].string_or("");
    if (name == "CUDA_DISABLE_CONTROL") {
        const bool disabled = base::is_go_true(variable["value"].string_or(""));
        return disabled ? VariableFate::control_disabled : VariableFate::kept;
    }
    if (name == visible_devices) {
        const std::string_view value = variable["value"].string_or("");
        const bool harmless = value == "none" || value == "void";
        return harmless ? VariableFate::kept : VariableFate::ignored;
    }
    if (settings.target.priority == PriorityForm::environment) return VariableFate::kept;
    const bool read_by_hami =
        name == task_priority || name == core_policy || name == "CUDA_OVERSUBSCRIBE" ||
        name == "ACTIVE_OOM_KILLER" || name.starts_with("CUDA_DEVICE_MEMORY_LIMIT") ||
        name.starts_with("CUDA_DEVICE_SM_LIMIT") || name == "CUDA_DEVICE_MEMORY_SHARED_CACHE" ||
        name == "LIBCUDA_LOG_LEVEL";
    return read_by_hami ? VariableFate::ignored : VariableFate::kept;
}

bool is_own_variable(std::string_view name) {
    return name == task_priority || name == core_policy || name == visible_devices;
}

}  // namespace drawbridge::translate
