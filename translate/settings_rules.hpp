#pragma once
// What a value of the settings must look like, and what the values must be together.

#include "translate/settings.hpp"
#include "translate/settings_problems.hpp"

#include <cstdint>
#include <string_view>

namespace drawbridge::translate {

/// A rule for a text and the words that name it in a message ("must be ...").
struct TextRule {
    std::string_view description;
    bool (*holds)(std::string_view text);
};

/// Inclusive bounds.
struct IntegerRule {
    std::int64_t min;
    std::int64_t max;
};

namespace rules {

extern const TextRule resource_name;  ///< an extended resource of Kubernetes
extern const TextRule resource_name_or_none;
extern const TextRule annotation_name_or_none;
extern const TextRule driver_name;
extern const TextRule object_name;  ///< of a class, a runtime class, a scheduler
extern const TextRule object_name_or_none;
extern const TextRule identifier;  ///< of an attribute or a capacity in the driver's domain
extern const TextRule identifier_or_none;
extern const TextRule full_attribute_or_none;  ///< with its domain
extern const TextRule label_name;
extern const TextRule label_value;
extern const TextRule device_mode;  ///< of `nvidia.com/vgpu-mode`, beside `hami-core`
extern const TextRule api_group_or_core;
extern const TextRule kind_name;
extern const TextRule pod_template_path;

inline constexpr IntegerRule device_count{0, 32};  ///< a claim holds at most 32 devices
inline constexpr IntegerRule percent{0, 100};
inline constexpr IntegerRule mebibytes{0, 2147483647};
inline constexpr IntegerRule mebibytes_of_a_card{1, 2147483647};
inline constexpr IntegerRule memory_factor{1, 1048576};
inline constexpr IntegerRule memory_size_bytes{std::int64_t{1} << 20, std::int64_t{1} << 50};

inline constexpr std::size_t max_memory_sizes = 8;  ///< alternatives of `firstAvailable` (dra.md)
inline constexpr std::size_t max_workloads = 256;
inline constexpr std::size_t max_workload_paths = 32;
inline constexpr std::size_t max_list = 256;

}  // namespace rules

/// Checks what several values must be together: two resources with one name, and the like. `place`
/// is put before each pointer.
void check_together(const Settings& settings, std::string_view place, Problems& problems);

}  // namespace drawbridge::translate
