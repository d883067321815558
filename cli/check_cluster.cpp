#include "base/json.hpp"
#include "cli/check.hpp"
#include "cli/input.hpp"
#include "kube/client/credentials.hpp"
#include "kube/client/http_transport.hpp"
#include "kube/client/rest_client.hpp"
#include "kube/fleet.hpp"
#include "translate/cluster_facts.hpp"
#include "translate/feature_trial.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <fmt/format.h>

#include <exception>
#include <utility>

namespace drawbridge::cli {

namespace asio = boost::asio;
namespace client = drawbridge::kube::client;
using base::ErrorKind;
using base::JsonView;
using base::Result;

namespace {

constexpr std::chrono::seconds patience(15);
constexpr int oldest_minor = 35;
constexpr std::string_view dra = "/apis/resource.k8s.io/v1";
constexpr std::string_view configurations =
    "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/zz-drawbridge";

/// A right that the webhook's account needs (manifests/base/rights.yaml).
struct Right {
    std::string_view verb;
    std::string_view resource;
};
constexpr Right rights[] = {
    {"create", "resourceclaimtemplates"}, {"get", "resourceclaimtemplates"},
    {"list", "resourceclaimtemplates"},   {"watch", "resourceclaimtemplates"},
    {"list", "resourceslices"},           {"watch", "resourceslices"}};

/// One run: what it knows, and one question after the other. On one strand.
class Check {
public:
    Check(client::RestClient& rest, const CheckOptions& options, translate::Settings settings)
        : rest_(rest), options_(options), settings_(std::move(settings)) {}

    asio::awaitable<void> run() {
        const bool usable = co_await version();
        if (!usable) co_return;
        co_await gates();
        co_await account_rights();
        co_await device_class();
        co_await slices();
        co_await webhook();
        co_await runtime_class();
    }
    [[nodiscard]] std::vector<Finding> take() { return std::move(found_); }

private:
    asio::awaitable<Result<base::JsonDocument>> ask(std::string target,
                                                    std::string body = std::string()) {
        client::ApiCall call{.method = body.empty() ? "GET" : "POST",
                             .target = std::move(target),
                             .body = std::move(body),
                             .deadline = std::chrono::steady_clock::now() + patience};
        co_return co_await rest_.call_json(std::move(call));
    }
    void good(std::string_view subject, std::string text) {
        found_.push_back({CheckState::good, subject, std::move(text)});
    }
    void note(std::string_view subject, std::string text, std::string fix = {}) {
        found_.push_back({CheckState::unknown, subject, std::move(text), std::move(fix)});
    }
    void bad(std::string_view subject, std::string text, std::string fix) {
        found_.push_back({CheckState::bad, subject, std::move(text), std::move(fix)});
    }

    asio::awaitable<bool> version();
    asio::awaitable<void> gates();
    asio::awaitable<void> account_rights();
    asio::awaitable<void> device_class();
    asio::awaitable<void> slices();
    asio::awaitable<void> webhook();
    asio::awaitable<void> webhook_answers();
    asio::awaitable<void> runtime_class();
    [[nodiscard]] std::string access_review(const Right& right) const;

    client::RestClient& rest_;
    const CheckOptions& options_;
    const translate::Settings settings_;
    std::vector<Finding> found_;
};

asio::awaitable<bool> Check::version() {
    const auto answer = co_await ask("/version");
    if (!answer) {
        bad("api", answer.error().message, "Choose the cluster with --kubeconfig and --context.");
        co_return false;
    }
    const auto minor = translate::read_minor(answer->root());
    const std::string_view text = answer->root()["gitVersion"].string_or("an unknown version");
    good("api", fmt::format("the API server answers, Kubernetes {}", text));
    if (!minor || *minor < oldest_minor) {
        bad("version", fmt::format("{} cannot share devices rightly", text),
            "Kubernetes 1.35 with the gate DRAConsumableCapacity, or 1.36 and newer, is needed.");
        co_return false;
    }
    co_return true;
}

asio::awaitable<void> Check::gates() {
    const std::string target =
        fmt::format("{}/namespaces/default/resourceclaimtemplates?dryRun=All", dra);
    kube::ClaimSpec asked = translate::trial_spec(settings_.target);
    auto answer = co_await ask(target, translate::trial_json(asked));
    std::string dropped;
    if (!answer && answer.error().kind == ErrorKind::invalid_input) {
        // An empty constraint is refused as a whole; see server/feature_probe.cpp.
        asked.constraints.clear();
        auto bare = co_await ask(target, translate::trial_json(asked));
        if (bare) {
            answer = std::move(bare);
            dropped = "distinctAttribute (DRAConsumableCapacity)";
        }
    }
    if (!answer) {
        note("gates", "a dry run of a template was refused: " + answer.error().message,
             "Without it nobody can tell whether this API server keeps capacity requests.");
        co_return;
    }
    const std::string more =
        translate::dropped_fields(asked, answer->root().find("/spec/spec/devices"));
    if (!more.empty()) dropped = dropped.empty() ? more : more + ", " + dropped;
    if (dropped.empty()) {
        good("gates", "the API server keeps every field that claims for shares need");
        co_return;
    }
    bad("gates", "the API server drops " + dropped,
        "Set the feature gate in API server, scheduler, controller-manager and kubelets.");
}

std::string Check::access_review(const Right& right) const {
    base::JsonWriter json;
    json.begin_object().member("apiVersion", "authorization.k8s.io/v1");
    json.member("kind", "SubjectAccessReview").key("spec").begin_object();
    json.member("user",
                fmt::format("system:serviceaccount:{}:{}", options_.name_space, options_.account));
    json.key("groups")
        .begin_array()
        .string("system:serviceaccounts")
        .string("system:authenticated");
    json.end_array().key("resourceAttributes").begin_object();
    json.member("group", "resource.k8s.io").member("resource", right.resource);
    return json.member("verb", right.verb).end_object().end_object().end_object().take();
}

asio::awaitable<void> Check::account_rights() {
    std::string missing;
    for (const Right& right : rights) {
        const auto answer = co_await ask("/apis/authorization.k8s.io/v1/subjectaccessreviews",
                                         access_review(right));
        if (!answer) {
            note("rights", "the rights of the webhook's account cannot be looked up: " +
                               answer.error().message);
            co_return;
        }
        if (answer->root()["status"]["allowed"].as_bool().value_or(false)) continue;
        missing += fmt::format("{}{} {}", missing.empty() ? "" : ", ", right.verb, right.resource);
    }
    const std::string who = fmt::format("{}/{}", options_.name_space, options_.account);
    if (missing.empty()) {
        good("rights", "the account " + who + " may do all that the webhook needs");
    } else {
        bad("rights", fmt::format("the account {} may not {}", who, missing),
            "Apply manifests/base/rights.yaml.");
    }
}

asio::awaitable<void> Check::device_class() {
    const std::string& name = settings_.target.device_class;
    const auto answer = co_await ask(fmt::format("{}/deviceclasses/{}", dra, name));
    if (answer) {
        good("class", fmt::format("the DeviceClass {} is there", name));
    } else if (answer.error().kind == ErrorKind::not_found) {
        bad("class", fmt::format("there is no DeviceClass {}, so no claim can be allocated", name),
            "Apply manifests/base/device-class.yaml, or install the driver's own.");
    } else {
        note("class", answer.error().message);
    }
}

asio::awaitable<void> Check::slices() {
    const std::string& driver = settings_.target.driver;
    const auto answer =
        co_await ask(fmt::format("{}/resourceslices?fieldSelector=spec.driver%3D{}", dra, driver));
    if (!answer) {
        note("slices", answer.error().message);
        co_return;
    }
    kube::Fleet fleet;
    std::size_t devices = 0;
    std::size_t shareable = 0;
    const JsonView items = answer->root()["items"];
    for (std::size_t index = 0; index < items.size(); ++index) {
        const JsonView slice = items.at(index);
        auto facts = kube::read_slice(slice, settings_.target.memory_capacity);
        if (facts) fleet.put(slice["metadata"]["name"].string_or(""), std::move(*facts));
        const JsonView list = slice["spec"]["devices"];
        devices += list.size();
        for (std::size_t at = 0; at < list.size(); ++at) {
            shareable +=
                list.at(at)["allowMultipleAllocations"].as_bool().value_or(false) ? 1U : 0U;
        }
    }
    const std::size_t sizes = fleet.memory_sizes(driver).size();
    const std::string text =
        fmt::format("{} devices of driver {} in {} slices, {} may be shared, {} memory sizes",
                    devices, driver, items.size(), shareable, sizes);
    if (shareable == devices && devices > 0) {
        good("slices", text);
    } else {
        bad("slices", text, "Install the node agent, and check its log where it is installed.");
    }
}

asio::awaitable<void> Check::webhook() {
    const auto answer = co_await ask(std::string(configurations));
    if (!answer) {
        const bool absent = answer.error().kind == ErrorKind::not_found;
        if (absent) {
            bad("webhook", "there is no MutatingWebhookConfiguration zz-drawbridge",
                "drawbridge webhook --ca-bundle ca.crt | kubectl apply -f -");
        } else {
            note("webhook", answer.error().message);
        }
        co_return;
    }
    const JsonView config = answer->root().find("/webhooks/0/clientConfig");
    if (config["caBundle"].string_or("").empty()) {
        bad("webhook", "its configuration names no authority (caBundle)",
            "drawbridge webhook --ca-bundle ca.crt | kubectl apply -f -");
        co_return;
    }
    co_await webhook_answers();
}

/// A pod that asks for no GPU is stripped of that by a webhook that is reached, and nothing more.
asio::awaitable<void> Check::webhook_answers() {
    base::JsonWriter json;
    json.begin_object().member("apiVersion", "v1").member("kind", "Pod").key("metadata");
    json.begin_object().member("generateName", "drawbridge-check-").end_object();
    json.key("spec").begin_object().key("containers").begin_array().begin_object();
    json.member("name", "a").member("image", "a").key("resources").begin_object();
    json.key("limits").begin_object().member(settings_.resources.count, "0").end_object();
    json.end_object().end_object().end_array().end_object().end_object();
    const auto answer = co_await ask("/api/v1/namespaces/default/pods?dryRun=All", json.take());
    if (!answer) {
        const bool ours = answer.error().message.find("pods.drawbridge.dev") != std::string::npos;
        const std::string text = "a dry run of a pod failed: " + answer.error().message;
        if (ours) {
            bad("webhook", text, "Look at the webhook's pods, its Service and its certificate.");
        } else {
            note("webhook", text);
        }
        co_return;
    }
    const JsonView limits = answer->root().find("/spec/containers/0/resources/limits");
    if (limits[settings_.resources.count].is_missing()) {
        good("webhook", "the API server reaches it and trusts it");
    } else {
        bad("webhook", "it was not asked about a pod in the namespace default",
            "Look at the label drawbridge.dev/mode of the namespace and at the match conditions.");
    }
}

asio::awaitable<void> Check::runtime_class() {
    const auto answer = co_await ask("/apis/node.k8s.io/v1/runtimeclasses/nvidia");
    if (answer) {
        good("runtime", "the RuntimeClass nvidia is there, which old manifests often name");
    } else if (answer.error().kind == ErrorKind::not_found) {
        note("runtime",
             "there is no RuntimeClass nvidia; a pod that names it is refused before any webhook",
             "Make one with the handler runc if old manifests name it.");
    } else {
        note("runtime", answer.error().message);
    }
}

}  // namespace

Result<std::vector<Finding>> run_check(const CheckOptions& options) {
    auto settings = read_settings(options.settings);
    if (!settings) return tl::unexpected(settings.error());
    asio::io_context io;
    auto sources = client::ConnectionSources::from_environment();
    sources.kubeconfig = options.kubeconfig;
    sources.context = options.context;
    auto connection = client::find_connection(io.get_executor(), sources);
    if (!connection) return tl::unexpected(connection.error());
    client::RestClient rest(io.get_executor(),
                            client::make_http_transport(io.get_executor(), connection->endpoint),
                            std::move(connection->access));
    Check check(rest, options, std::move(*settings));
    const auto done = [&rest](const std::exception_ptr& failure) {
        rest.stop();
        if (failure) std::rethrow_exception(failure);
    };
    asio::co_spawn(io, check.run(), done);
    io.run();
    return check.take();
}

}  // namespace drawbridge::cli
