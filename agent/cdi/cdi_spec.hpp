#pragma once
// Container Device Interface files: what a container gets beside what its image has (node-agent.md
// 9). Pure; the text of a file is the same for the same claim.

#include "base/json.hpp"
#include "base/result.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace drawbridge::agent {

struct CdiNode {
    std::string path = {};                             ///< in the container
    std::string host_path = {};                        ///< empty: the same
    std::optional<std::int64_t> major = std::nullopt;  ///< both, or the runtime looks at the host
    std::optional<std::int64_t> minor = std::nullopt;

    [[nodiscard]] bool operator==(const CdiNode&) const = default;
};

struct CdiMount {
    std::string host_path = {};
    std::string container_path = {};
    std::vector<std::string> options = {};

    [[nodiscard]] bool operator==(const CdiMount&) const = default;
};

struct CdiHook {
    std::string name = {};  ///< `createContainer` and the like
    std::string path = {};
    std::vector<std::string> args = {};
    std::vector<std::string> env = {};

    [[nodiscard]] bool operator==(const CdiHook&) const = default;
};

/// What is done to a container. A container may get those of several devices and files, all of them
/// together: each is either the same everywhere, or names something that only one share has.
struct CdiEdits {
    std::vector<std::string> env = {};  ///< `NAME=value`
    std::vector<CdiNode> nodes = {};
    std::vector<CdiMount> mounts = {};
    std::vector<CdiHook> hooks = {};

    [[nodiscard]] bool operator==(const CdiEdits&) const = default;
    [[nodiscard]] bool empty() const {
        return env.empty() && nodes.empty() && mounts.empty() && hooks.empty();
    }
};

struct CdiDevice {
    std::string name = {};
    CdiEdits edits = {};

    [[nodiscard]] bool operator==(const CdiDevice&) const = default;
};

struct CdiSpec {
    CdiEdits common = {};  ///< once, whichever of the devices a container gets
    std::vector<CdiDevice> devices = {};
};

/// `vendor/class` of ours.
inline constexpr std::string_view cdi_kind = "k8s.gpu.drawbridge.dev/claim";

/// Name of a claim's file: what the CDI library would call it.
[[nodiscard]] std::string cdi_file_name(std::string_view claim_uid);
/// The claim UID in such a name; nothing for files that are not ours.
[[nodiscard]] std::optional<std::string> claim_of_cdi_file(std::string_view file_name);

/// `vendor/class=name`, as the kubelet hands it to the runtime.
[[nodiscard]] std::string cdi_id(std::string_view device_name);

/// The file's text. Its version is the least that its content needs, since a runtime does not load
/// what is newer than itself.
[[nodiscard]] std::string cdi_json(const CdiSpec& spec);

/// Adds `more` to `edits`, without what is there already.
void add_edits(CdiEdits& edits, const CdiEdits& more);

/// The edits of a specification that another tool wrote (`nvidia-ctk cdi generate`), JSON already:
/// those for all devices, and those of each device by its name. What ours have no field for is
/// refused with its place: half of a device is none.
[[nodiscard]] base::Result<CdiSpec> read_cdi_spec(base::JsonView document);

}  // namespace drawbridge::agent
