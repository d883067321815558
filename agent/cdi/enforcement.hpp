#pragma once
// What of a claim's shares its containers see: pure content of the CDI file.

#include "agent/cdi/cdi_spec.hpp"
#include "agent/cdi/library_store.hpp"
#include "agent/claim/claim_record.hpp"
#include "agent/device/inventory.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace drawbridge::agent {

/// How the node's driver reaches a container, whatever the share.
struct DriverEdits {
    CdiEdits common = {};                 ///< control nodes, libraries, programs, hooks
    std::vector<CdiDevice> devices = {};  ///< by UUID: nodes of one GPU
    std::string node_root = {};           ///< folder on the host with `/dev`; empty: its own root
    /// What containers lack, for people, with what to do.
    std::vector<std::string> remarks = {};

    [[nodiscard]] bool operator==(const DriverEdits&) const = default;
};

/// A device node that lies below a folder of the host, at the same place in a container.
[[nodiscard]] CdiNode node_below(const std::string& root, const DeviceNode& node);

struct ContainerView {
    std::string shares_folder = {};  ///< on the host: one folder a share in it
    LibraryFiles library = {};       ///< the build that the claim was given
    DriverEdits driver = {};
    /// HAMi's variables too, for programs that read them.
    bool legacy_variables = false;
    /// New claims get a build with the front; it is mounted where the claim's build has one.
    bool replace_libcuda = false;
    /// Attributes of the devices as files (KEP-5304).
    bool metadata = false;

    [[nodiscard]] bool operator==(const ContainerView&) const = default;
};

/// The driver's edits with `front` in the place of every file that is libcuda, and the driver's own
/// at the fixed path by which the front opens it. Unchanged where the driver has no libcuda.
[[nodiscard]] DriverEdits behind_front(DriverEdits driver, const std::string& front);

/// The CDI file of a claim. Every edit is the same for all claims or names one share, so that a
/// container with several claims gets each limit right (node-agent.md 9.3).
[[nodiscard]] CdiSpec claim_spec(std::string_view claim_uid, const std::vector<Share>& shares,
                                 const Inventory& inventory, const ContainerView& view);

/// Whether a claim's CDI file gives each share the nodes that its device has now, and no other
/// card's: the driver counts cards anew when it is loaded, and MIG's nodes get another number. What
/// is lost or not known has none to compare.
[[nodiscard]] bool gives_own_nodes(const CdiSpec& file, const std::vector<Share>& shares,
                                   const Inventory& inventory);

/// HAMi's variables for the shares, which are all that the container has: indexed in the order in
/// which CUDA counts with CUDA_DEVICE_ORDER=PCI_BUS_ID.
[[nodiscard]] std::vector<std::string> legacy_variables(const std::vector<Share>& shares,
                                                        const Inventory& inventory);

}  // namespace drawbridge::agent
