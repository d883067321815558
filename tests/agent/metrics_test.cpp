#include "agent/report/hami_metrics.hpp"
#include "agent/report/node_status.hpp"
#include "agent/report/share_metrics.hpp"

#include <doctest/doctest.h>

#include <set>
#include <sstream>
#include <string>
#include <vector>

using namespace drawbridge::agent;

namespace {

constexpr std::int64_t gib = std::int64_t{1} << 30;

ShareStatus share_of(std::string container) {
    ShareStatus share{.owner = {.name_space = "team", .pod = "train-0", .container = "main"},
                      .claim = {.name_space = "team", .name = "train-0-x", .uid = "u"},
                      .request = "gpu",
                      .allocated = {8 * gib, 30, 1},
                      .in_force = {4 * gib, 25, 1}};
    share.owner.container = std::move(container);
    share.activity.use.used_bytes = 3 * gib;
    share.activity.use.processes = 2;
    share.activity.use.kind_bytes[DRAWBRIDGE_GAUGE_LINEAR] = gib;
    share.activity.use.kind_bytes[DRAWBRIDGE_GAUGE_POOL] = gib;
    share.activity.use.kind_bytes[DRAWBRIDGE_GAUGE_IMPORTED] = gib;
    share.activity.totals = {.denied = 3, .denied_bytes = 5, .busy_ns = 1'500'000'000};
    share.activity.totals.identity_misses = 9;
    share.activity.rates.busy_permille = 245;
    share.activity.gpu_ns = 2'500'000'000;
    return share;
}

/// One GPU with a share that two containers of a pod have, and one whose container is not known.
std::vector<DeviceStatus> node() {
    DeviceStatus device;  // g++ 12 spoils a designated field here
    device.health = "Healthy";
    device.offer.device = {.uuid = "GPU-a", .product_name = "NVIDIA H200"};
    device.offer.device.place.index = 2;
    device.offer.capacity = {80 * gib, 100, 10};
    device.shares = {share_of("main"), share_of("log")};
    ShareStatus waiting = share_of("");
    waiting.owner.pod = "";
    waiting.claim.uid = "v";
    device.shares.push_back(waiting);
    return {device};
}

/// The same GPU with two shares of one claim, both asked for by one request.
std::vector<DeviceStatus> node_of_two() {
    auto devices = node();
    ShareStatus second = share_of("main");
    second.index = 1;
    devices[0].shares = {share_of("main"), second};
    return devices;
}

bool has(const std::string& text, const std::string& line) {
    return text.find("\n" + line + "\n") != std::string::npos;
}

const std::string labels =
    R"({gpu="GPU-a",namespace="team",pod="train-0",container="main",claim="train-0-x",claim_uid="u",share="0")";

}  // namespace

TEST_CASE("each share tells what it uses, is held to and did, with its pod") {
    std::string out;
    append_share_metrics(out, node());
    const std::pair<std::string, std::string> values[] = {
        {"used_bytes", "3221225472"},
        {"gpu_seconds_total", "2.500000000"},
        {"limit_bytes", "4294967296"},
        {"limit_hits_total", "3"},
        {"denied_bytes_total", "5"},
        {"core_limit_ratio", "0.25"},
        {"busy_seconds_total", "1.500000000"},
        {"launches_total", "0"},
        {"throttled_seconds_total", "0.000000000"},
        {"processes", "2"}};
    CAPTURE(out);
    for (const auto& [name, value] : values) {
        CAPTURE(name);
        CHECK(has(out, "drawbridge_agent_" + name + labels + "} " + value));
    }
    CHECK(has(out, "drawbridge_agent_used_by_kind_bytes" + labels + ",kind=\"pool\"} 1073741824"));
    CHECK(
        has(out, "drawbridge_agent_ledger_errors_total" + labels + ",reason=\"identity-miss\"} 9"));
}

TEST_CASE("two shares of a GPU in one claim are told apart") {
    const auto devices = node_of_two();
    std::string out;
    append_share_metrics(out, devices);
    std::set<std::string> seen;
    std::istringstream lines(out);
    for (std::string line; std::getline(lines, line);) {
        if (line.starts_with('#')) continue;
        CAPTURE(line);
        CHECK(seen.insert(line.substr(0, line.rfind(' '))).second);
    }
}

TEST_CASE("an administrator's share takes nothing of a GPU") {
    auto made = Inventory::make({{.uuid = "GPU-a", .memory_bytes = 8 * gib}}, {}, {});
    REQUIRE(made);
    const ClaimRecord record{
        .claim = {"ns", "watch", "u"},
        .shares = {{.uuid = "GPU-a", .amounts = made->offers().front().capacity, .admin = true}}};
    const auto devices = node_status(*made, {record}, {}, {});
    REQUIRE(devices.front().shares.size() == 1);
    CHECK(devices.front().shares.front().allocated == Amounts());
}

TEST_CASE("two shares of a GPU in one request are both taken of it") {
    const auto devices = node_of_two();
    std::string out;
    append_hami_metrics(out, HamiMetrics::current, "n", devices);
    CHECK(out.find("hami_gpu_memory_allocated_bytes") != std::string::npos);
    CHECK(out.find("device_cores=\"100\",device_type=\"NVIDIA-NVIDIA H200\"} 17179869184") !=
          std::string::npos);
}

TEST_CASE("HAMi's metrics are off unless they are asked for") {
    std::string out;
    append_hami_metrics(out, HamiMetrics::off, "n", node());
    CHECK(out.empty());
}

TEST_CASE("HAMi's names tell a GPU and each container, a shared claim's memory once") {
    std::string out;
    append_hami_metrics(out, HamiMetrics::current, "n", node());
    const std::string gpu = R"({zone="vGPU",node="n",device_uuid="GPU-a",device_index="2")";
    const std::string type = R"(,device_type="NVIDIA-NVIDIA H200"} )";
    CAPTURE(out);
    CHECK(has(out, "hami_gpu_memory_limit_bytes" + gpu + type + "85899345920"));
    CHECK(has(out, "hami_gpu_core_limit_ratio" + gpu + type + "100"));
    CHECK(has(out, "hami_gpu_memory_allocated_bytes" + gpu + R"(,device_cores="100")" + type +
                       "17179869184"));
    CHECK(has(out, "hami_gpu_core_allocated_ratio" + gpu + type + "60"));
    CHECK(has(out, "hami_gpu_shared_count" + gpu + type + "3"));
    CHECK(has(out, "hami_node_gpu_overview" + gpu +
                       R"(,device_cores="100",device_memory_limit="81920")" + type +
                       "17179869184"));
    CHECK(has(out, "hami_node_gpu_memory_allocated_ratio" + gpu + type + "0.2"));
    CHECK(has(out, R"(hami_vgpu_memory_allocated_bytes{zone="vGPU",namespace="team",node="n",)"
                   R"(pod="train-0",container_index="0",device_uuid="GPU-a"} 8589934592)"));
    const std::string main = R"({zone="vGPU",namespace="team",pod="train-0",container="main",)"
                             R"(vdevice_index="0",device_uuid="GPU-a"} )";
    CHECK(has(out, "hami_vgpu_memory_used_bytes" + main + "3221225472"));
    CHECK(has(out, "hami_vgpu_memory_limit_bytes" + main + "4294967296"));
    CHECK(has(out, "hami_container_device_utilization_ratio" + main + "24"));
    CHECK(has(out, "hami_vgpu_memory_buffer_bytes" + main + "2147483648"));
    CHECK(has(out, "hami_vgpu_memory_context_bytes" + main + "1073741824"));
    CHECK(out.find(R"(pod="")") == std::string::npos);
    CHECK(out.find("vGPU_device") == std::string::npos);
}

TEST_CASE("utilization is the driver's count, where it tells") {
    auto devices = node();
    devices[0].shares[0].activity.gpu = GpuUse{.permille = 707};
    std::string out;
    append_hami_metrics(out, HamiMetrics::all, "n", devices);
    const auto at = out.find("\nhami_container_device_utilization_ratio{");
    REQUIRE(at != std::string::npos);
    const std::string line = out.substr(at + 1, out.find('\n', at + 1) - at - 1);
    CHECK(line.ends_with(" 70"));
}

TEST_CASE("all of HAMi's names are its older ones too, with their labels") {
    std::string out;
    append_hami_metrics(out, HamiMetrics::all, "n", node());
    CHECK(has(out,
              R"(GPUDeviceMemoryLimit{zone="vGPU",nodeid="n",deviceuuid="GPU-a",deviceidx="2",)"
              R"(devicetype="NVIDIA-NVIDIA H200"} 85899345920)"));
    CHECK(has(out, R"(nodeGPUMemoryPercentage{zone="vGPU",nodeid="n",deviceuuid="GPU-a",)"
                   R"(deviceidx="2"} 0.2)"));
    CHECK(has(out, R"(vGPU_device_memory_usage_in_bytes{zone="vGPU",podnamespace="team",)"
                   R"(podname="train-0",ctrname="main",vdeviceid="0",deviceuuid="GPU-a"} )"
                   "3221225472"));
    CHECK(has(out, R"(vGPUCoreAllocated{zone="vGPU",podnamespace="team",nodename="n",)"
                   R"(podname="train-0",containeridx="0",deviceuuid="GPU-a"} 30)"));
}
