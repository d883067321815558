// How long the pure part of a review takes, and whether it stays linear in the size of a pod. One
// JSON line a figure.

#include "base/json.hpp"
#include "server/admission_review.hpp"
#include "translate/translate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <ctime>
#include <exception>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace {

using namespace drawbridge;

/// CPU time of this thread: what others do on the machine at the same time does not count.
double cpu_microseconds() {
    timespec now{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) / 1e3;
}

/// A pod as a review carries it: `containers` that ask for GPUs, each with `variables`, and an
/// annotation of `annotation_bytes`.
std::string review(int containers, int variables, std::size_t annotation_bytes) {
    std::string list;
    for (int i = 0; i < containers; ++i) {
        std::string env;
        for (int j = 0; j < variables; ++j) {
            env += fmt::format(
                R"({}{{"name":"SERVICE_{:03}","value":"some-service.namespace.svc:8080"}})",
                j == 0 ? "" : ",", j);
        }
        list += fmt::format(
            R"({}{{"name":"c{}","image":"registry.example/cuda:12","env":[{}],"resources":{{)"
            R"("limits":{{"cpu":"2","nvidia.com/gpu":"1","nvidia.com/gpumem":"3k"}},)"
            R"("requests":{{"cpu":"2","nvidia.com/gpu":"1","nvidia.com/gpumem":"3k"}}}},)"
            R"("terminationMessagePath":"/dev/termination-log","imagePullPolicy":"IfNotPresent"}})",
            i == 0 ? "" : ",", i, env);
    }
    std::string types;
    while (types.size() < annotation_bytes) {
        types += fmt::format("A100-{},", types.size());
    }
    return fmt::format(
        R"({{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{{)"
        R"("uid":"e90af3c9-9a8c-4d95-b7e1-fd932c1e17ea","kind":{{"group":"","version":"v1","kind":)"
        R"("Pod"}},"resource":{{"group":"","version":"v1","resource":"pods"}},"namespace":"ml",)"
        R"("operation":"CREATE","dryRun":false,"object":{{"kind":"Pod","apiVersion":"v1",)"
        R"("metadata":{{"generateName":"serve-","annotations":{{"nvidia.com/use-gputype":"{}"}}}},)"
        R"("spec":{{"containers":[{}],"schedulerName":"default-scheduler"}}}},"oldObject":null}}}})",
        types, list);
}

/// Decodes, translates and encodes once; the size of the answer, so that nothing is left out.
std::size_t answer(const std::string& body, const translate::Settings& settings,
                   const translate::Cluster& cluster) {
    const auto request = server::decode_review(body);
    if (!request) {
        throw std::runtime_error(request.error().message);
    }
    const translate::PodReview review{request->pod, {}, translate::Operation::create, {}};
    const auto translation = translate::translate_pod(review, settings, cluster);
    if (translation.verdict != translate::Verdict::translate) {
        throw std::runtime_error("the pod was not translated");
    }
    return server::encode_answer(request->uid, translation).size();
}

struct Times {
    double median_us = 0;
    double p99_us = 0;
};

Times measure(const std::string& body, int rounds) {
    const auto settings = translate::profile_settings("drawbridge").value();
    const translate::Cluster cluster;
    std::vector<double> times;
    std::size_t bytes = 0;
    for (int i = -rounds / 10; i < rounds; ++i) {
        const double began = cpu_microseconds();
        bytes += answer(body, settings, cluster);
        const double took = cpu_microseconds() - began;
        if (i >= 0) {
            times.push_back(took);
        }
    }
    std::sort(times.begin(), times.end());
    return bytes == 0 ? Times{} : Times{times[times.size() / 2], times[times.size() * 99 / 100]};
}

void print(std::string_view what, double value, std::string_view unit, double limit) {
    fmt::print("{{\"what\": \"{}\", \"value\": {:.3f}, \"unit\": \"{}\"{}}}\n", what, value, unit,
               limit > 0 ? fmt::format(", \"limit\": {}", limit) : "");
}

/// The cost of one more unit at a large size against that at a small one: 1 where it is linear.
/// `reviews` grow by `factor` each.
double growth(const std::array<std::string, 3>& reviews, double factor) {
    const double low = measure(reviews[0], 2000).median_us;
    const double middle = measure(reviews[1], 1000).median_us;
    const double high = measure(reviews[2], 200).median_us;
    return (high - middle) / factor / (middle - low);
}

}  // namespace

int main() {
    try {
        const std::string ten = review(1, 150, 0);
        const std::string big = review(400, 50, 0);
        const auto kibibytes = static_cast<double>(ten.size()) / 1024;
        const auto megabytes = static_cast<double>(big.size()) / 1e6;
        const Times small_times = measure(ten, 20000);
        const Times big_times = measure(big, 200);
        print(fmt::format("pod of {:.1f} KiB, median", kibibytes), small_times.median_us, "µs", 0);
        print(fmt::format("pod of {:.1f} KiB, p99", kibibytes), small_times.p99_us, "µs", 100);
        print(fmt::format("pod of {:.2f} MB, 400 containers with GPU, median", megabytes),
              big_times.median_us / 1000, "ms", 5);
        print(fmt::format("pod of {:.2f} MB, 400 containers with GPU, p99", megabytes),
              big_times.p99_us / 1000, "ms", 0);
        print("one more container, between 100 and 1000 against between 10 and 100",
              growth({review(10, 0, 0), review(100, 0, 0), review(1000, 0, 0)}, 10), "×", 1.5);
        print("one more annotation byte, between 1 and 4 KiB against between 0.25 and 1 KiB",
              growth({review(1, 0, 256), review(1, 0, 1024), review(1, 0, 4096)}, 4), "×", 1.5);
        return 0;
    } catch (const std::exception& error) {
        fmt::print(stderr, "core: {}\n", error.what());
        return 1;
    }
}
