#pragma once
// Attributes of a claim's devices as files in its containers (KEP-5304): pure content and places.

#include "agent/cdi/cdi_spec.hpp"
#include "agent/claim/claim_record.hpp"
#include "agent/device/inventory.hpp"

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace drawbridge::agent {

/// The file of one request.
struct MetadataFile {
    std::size_t share = 0;  ///< index of the share in whose folder the file lies
    std::string container_path = {};
    std::string text = {};  ///< the same object in each version, newest first
};

/// Name of the file in the folder of its share.
inline constexpr std::string_view metadata_file_name = "metadata.json";

/// One file for each request of a claim; it lies in the folder of the request's first share. A
/// container that has the request has that share too.
[[nodiscard]] std::vector<MetadataFile> metadata_files(const ClaimRecord& record,
                                                       const Inventory& inventory);

/// Mounts the files of a claim into whoever gets the shares; each place names claim and request, so
/// that no two claims of a pod meet.
void add_metadata_mounts(CdiSpec& spec, const ClaimRecord& record, const Inventory& inventory,
                         std::string_view shares_folder);

}  // namespace drawbridge::agent
