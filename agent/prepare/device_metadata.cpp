#include "agent/prepare/device_metadata.hpp"

#include "agent/api/slices.hpp"
#include "base/json.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace drawbridge::agent {
namespace {

using base::JsonWriter;

constexpr std::string_view root = "/var/run/kubernetes.io/dra-device-attributes";
constexpr std::array<std::string_view, 2> versions = {"v1beta1", "v1alpha1"};

void write_device(JsonWriter& out, const Share& share, const Inventory& inventory) {
    out.begin_object().member("driver", driver_name).member("pool", share.pool);
    out.member("name", share.device).key("attributes").begin_object();
    if (const Offer* offer = inventory.find_uuid(share.uuid)) {
        write_attributes(out, offer->device);
    } else {
        write_attribute(out, "uuid", share.uuid);
    }
    write_attribute(out, "shareID", share.share_id);
    if (!share.admin) {
        write_attribute(out, "shareMemory", binary_quantity(share.amounts.memory_bytes));
        write_attribute(out, "shareCores", share.amounts.cores);
        write_attribute(out, "shareSlots", share.amounts.slots);
    }
    out.end_object().end_object();
}

/// The request as the allocation names it.
std::string full_request(const Share& share) {
    return share.subrequest.empty() ? share.request
                                    : fmt::format("{}/{}", share.request, share.subrequest);
}

std::string object_text(std::string_view version, const ClaimRecord& record, const Share& first,
                        const Inventory& inventory) {
    JsonWriter out;
    out.begin_object().member("kind", "DeviceMetadata");
    out.member("apiVersion", fmt::format("metadata.resource.k8s.io/{}", version));
    out.key("metadata").begin_object().member("name", record.claim.name);
    out.member("namespace", record.claim.name_space).member("uid", record.claim.uid);
    out.key("generation").integer(1).end_object();
    if (!record.pod_claim.empty()) out.member("podClaimName", record.pod_claim);
    out.key("requests").begin_array().begin_object().member("name", full_request(first));
    out.key("devices").begin_array();
    for (const Share& share : record.shares) {
        if (share.request == first.request) write_device(out, share, inventory);
    }
    out.end_array().end_object().end_array().end_object();
    return out.take();
}

/// A claim that was made of a template is known to its pod by the name of the pod's entry.
std::string container_path(const ClaimRecord& record, std::string_view request) {
    const bool own = record.pod_claim.empty();
    return fmt::format("{}/{}/{}/{}/{}-metadata.json", root,
                       own ? "resourceclaims" : "resourceclaimtemplates",
                       own ? record.claim.name : record.pod_claim, request, driver_name);
}

}  // namespace

std::vector<MetadataFile> metadata_files(const ClaimRecord& record, const Inventory& inventory) {
    std::vector<MetadataFile> files;
    for (std::size_t i = 0; i < record.shares.size(); ++i) {
        const Share& share = record.shares[i];
        const auto first = std::ranges::find(record.shares, share.request, &Share::request);
        if (first != record.shares.begin() + static_cast<std::ptrdiff_t>(i)) continue;
        MetadataFile file{.share = i, .container_path = container_path(record, share.request)};
        for (const std::string_view version : versions)
            file.text += object_text(version, record, share, inventory) + "\n";
        files.push_back(std::move(file));
    }
    return files;
}

void add_metadata_mounts(CdiSpec& spec, const ClaimRecord& record, const Inventory& inventory,
                         std::string_view shares_folder) {
    for (MetadataFile& file : metadata_files(record, inventory)) {
        const std::string name = share_name(record.claim.uid, file.share);
        CdiEdits edits;
        edits.mounts = {
            {.host_path = fmt::format("{}/{}/{}", shares_folder, name, metadata_file_name),
             .container_path = std::move(file.container_path),
             .options = {"ro", "nosuid", "nodev", "noexec", "bind"}}};
        add_edits(spec.devices.at(file.share).edits, edits);
    }
}

}  // namespace drawbridge::agent
