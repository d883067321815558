#pragma once
// What a person can say of a cluster in options and files, read for the core; the same for command
// line and server.

#include "base/result.hpp"
#include "translate/translate.hpp"

#include <cstdint>
#include <string_view>
#include <vector>

namespace drawbridge::translate {

/// `1.36`, `v1.36.3`, `1.36+`: the minor. Another major than 1 is `invalid_input`.
[[nodiscard]] base::Result<int> parse_kubernetes_version(std::string_view text);

/// `24Gi,80Gi`: sizes in bytes, ascending, each once. Each must be a positive whole number of MiB.
[[nodiscard]] base::Result<std::vector<std::int64_t>> parse_memory_sizes(std::string_view text);

/// The memory sizes in a file of ResourceSlices as kubectl prints them (YAML or JSON, Lists
/// included). `not_found` where no slice of the target's driver is in it.
[[nodiscard]] base::Result<std::vector<std::int64_t>> read_fleet(std::string_view text,
                                                                 const Target& target);

/// The settings in a file: one YAML or JSON document (see `read_settings`).
[[nodiscard]] base::Result<Settings> read_settings_text(std::string_view text);

}  // namespace drawbridge::translate
