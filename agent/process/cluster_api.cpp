#include "agent/process/cluster_api.hpp"

#include "base/json.hpp"
#include "kube/client/credentials.hpp"
#include "kube/client/http_transport.hpp"
#include "kube/quantity.hpp"

#include <fmt/format.h>

#include <charconv>
#include <chrono>
#include <utility>

namespace drawbridge::agent {
namespace {

namespace asio = boost::asio;
namespace client = kube::client;
using base::Result;
using std::chrono::steady_clock;

// The kubelet waits 45 s for a prepare and asks again later.
constexpr std::chrono::seconds claim_time{15};
constexpr std::chrono::seconds slice_time{30};
constexpr std::size_t max_slices = 32U << 20U;

client::ApiCall get(std::string target, std::chrono::seconds patience) {
    client::ApiCall call;
    call.target = std::move(target);
    call.deadline = steady_clock::now() + patience;
    return call;
}

std::string removal_body(const SliceWrite& write) {
    base::JsonWriter out;
    out.begin_object().member("apiVersion", "v1").member("kind", "DeleteOptions");
    out.key("preconditions").begin_object();
    out.member("resourceVersion", write.resource_version).member("uid", write.uid);
    out.end_object().end_object();
    return out.take();
}

client::ApiCall call_of(const SliceWrite& write, bool rehearsal) {
    client::ApiCall call;
    call.deadline = steady_clock::now() + slice_time;
    call.target = std::string(slices_path);
    call.body = write.body;
    call.repeatable = false;
    switch (write.what) {
        case SliceDo::create:
            call.method = "POST";
            break;
        case SliceDo::update:
            call.method = "PUT";
            call.target += "/" + write.name;
            break;
        case SliceDo::remove:
            call.method = "DELETE";
            call.target += "/" + write.name;
            call.body = removal_body(write);
            break;
    }
    if (rehearsal) call.target += "?dryRun=All";
    return call;
}

}  // namespace

std::string slice_selection(std::string_view node) {
    // Both are DNS subdomains: nothing in them needs escaping.
    return fmt::format("fieldSelector=spec.driver%3D{},spec.nodeName%3D{}", driver_name, node);
}

Result<std::unique_ptr<ClusterApi>> ClusterApi::create(asio::any_io_executor strand,
                                                       const std::string& kubeconfig) {
    auto sources = client::ConnectionSources::from_environment();
    sources.kubeconfig = kubeconfig;
    auto connection = client::find_connection(strand, sources);
    if (!connection) return tl::unexpected(connection.error());
    std::unique_ptr<ClusterApi> api(new ClusterApi());
    api->described_ = fmt::format("{} at {}", connection->described, connection->endpoint.text());
    api->warnings_ = std::move(connection->warnings);
    api->rest_ = std::make_unique<client::RestClient>(
        strand, client::make_http_transport(strand, connection->endpoint),
        std::move(connection->access));
    return api;
}

asio::awaitable<Result<ClaimFacts>> ClusterApi::claim(ClaimName claim) {
    auto document = co_await rest_->call_json(
        get(fmt::format("/apis/resource.k8s.io/v1/namespaces/{}/resourceclaims/{}",
                        claim.name_space, claim.name),
            claim_time));
    if (!document) co_return tl::unexpected(document.error());
    co_return read_claim(document->root());
}

asio::awaitable<Result<std::vector<ClaimFacts>>> ClusterApi::claims_of_pool() {
    std::vector<ClaimFacts> all;
    std::string page;
    do {
        auto call = get(fmt::format("/apis/resource.k8s.io/v1/resourceclaims?limit=200{}{}",
                                    page.empty() ? "" : "&continue=", page),
                        slice_time);
        call.max_answer = max_slices;
        auto document = co_await rest_->call_json(std::move(call));
        if (!document) co_return tl::unexpected(document.error());
        const base::JsonView root = document->root();
        for (std::size_t i = 0; i < root["items"].size(); ++i) {
            auto facts = read_claim(root["items"].at(i));
            if (facts && !facts->devices.empty()) all.push_back(*std::move(facts));
        }
        page = std::string(root["metadata"]["continue"].string_or(""));
    } while (!page.empty());
    co_return all;
}

asio::awaitable<Result<NodeFacts>> ClusterApi::node(std::string name) {
    auto document = co_await rest_->call_json(get("/api/v1/nodes/" + name, slice_time));
    if (!document) co_return tl::unexpected(document.error());
    const base::JsonView root = document->root();
    NodeFacts facts;
    facts.identity = {std::move(name), std::string(root["metadata"]["uid"].string_or(""))};
    if (facts.identity.uid.empty())
        co_return base::fail(base::ErrorKind::unavailable, "the node has no UID");
    const auto legacy = kube::parse_quantity(
        root["status"]["allocatable"]["nvidia.com/gpu"].scalar_text().value_or("0"));
    if (legacy) facts.legacy_devices = legacy->rounded_up();
    co_return facts;
}

asio::awaitable<Result<int>> ClusterApi::minor_version() {
    auto document = co_await rest_->call_json(get("/version", slice_time));
    if (!document) co_return tl::unexpected(document.error());
    const std::string_view text = document->root()["minor"].string_or("");
    int minor = 0;
    const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), minor);
    if (failure != std::errc() || end == text.data())
        co_return base::fail(base::ErrorKind::unavailable, "the API server tells no version");
    co_return minor;
}

asio::awaitable<Result<std::vector<SeenSlice>>> ClusterApi::slices(std::string node) {
    auto call = get(fmt::format("{}?{}", slices_path, slice_selection(node)), slice_time);
    call.max_answer = max_slices;
    auto document = co_await rest_->call_json(std::move(call));
    if (!document) co_return tl::unexpected(document.error());
    std::vector<SeenSlice> seen;
    const base::JsonView items = document->root()["items"];
    for (std::size_t i = 0; i < items.size(); ++i) {
        auto slice = read_seen_slice(items.at(i));
        if (!slice) co_return tl::unexpected(slice.error());
        seen.push_back(*std::move(slice));
    }
    co_return seen;
}

asio::awaitable<Result<SeenSlice>> ClusterApi::write(SliceWrite write, bool rehearsal) {
    auto document = co_await rest_->call_json(call_of(write, rehearsal));
    if (write.what == SliceDo::remove) {
        const bool gone = document || document.error().kind == base::ErrorKind::not_found;
        if (gone) co_return SeenSlice{};
    }
    if (!document) co_return tl::unexpected(document.error());
    co_return read_seen_slice(document->root());
}

}  // namespace drawbridge::agent
