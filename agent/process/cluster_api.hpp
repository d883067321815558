#pragma once
// The few calls that the agent makes to the API server.

#include "agent/api/publish_plan.hpp"
#include "agent/claim/claim_facts.hpp"
#include "base/result.hpp"
#include "kube/client/rest_client.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>

#include <memory>
#include <string>
#include <vector>

namespace drawbridge::agent {

/// What is read of the Node object.
struct NodeFacts {
    NodeIdentity identity = {};
    /// Allocatable `nvidia.com/gpu`: above zero where a device plugin hands out the same GPUs.
    std::int64_t legacy_devices = 0;
};

/// All on one strand, with a deadline for every call.
class ClusterApi {
public:
    /// Finds the cluster (kube/client/credentials.hpp); reads files, calls nothing.
    [[nodiscard]] static base::Result<std::unique_ptr<ClusterApi>> create(
        boost::asio::any_io_executor strand, const std::string& kubeconfig);

    [[nodiscard]] boost::asio::awaitable<base::Result<ClaimFacts>> claim(ClaimName claim);
    [[nodiscard]] boost::asio::awaitable<base::Result<NodeFacts>> node(std::string name);
    /// All claims of the cluster that hold devices of ours. Its cost grows with the cluster: for
    /// the rare case that a record was lost.
    [[nodiscard]] boost::asio::awaitable<base::Result<std::vector<ClaimFacts>>> claims_of_pool();
    /// The minor version of the API server.
    [[nodiscard]] boost::asio::awaitable<base::Result<int>> minor_version();
    [[nodiscard]] boost::asio::awaitable<base::Result<std::vector<SeenSlice>>> slices(
        std::string node);
    /// Performs a write; gives the slice as the server has it now, an empty one after a removal.
    /// A rehearsal leaves everything as it is, and shows what the server would keep.
    [[nodiscard]] boost::asio::awaitable<base::Result<SeenSlice>> write(SliceWrite write,
                                                                        bool rehearsal = false);

    [[nodiscard]] kube::client::RestClient& rest() { return *rest_; }
    [[nodiscard]] const std::string& described() const { return described_; }
    [[nodiscard]] const std::vector<std::string>& warnings() const { return warnings_; }

private:
    ClusterApi() = default;

    std::unique_ptr<kube::client::RestClient> rest_;
    std::string described_;
    std::vector<std::string> warnings_;
};

inline constexpr std::string_view slices_path = "/apis/resource.k8s.io/v1/resourceslices";

/// Query that selects the slices of one node, as a list or a watch takes it.
[[nodiscard]] std::string slice_selection(std::string_view node);

}  // namespace drawbridge::agent
