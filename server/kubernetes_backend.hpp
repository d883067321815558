#pragma once
// Everything the server does with a real cluster: the watches, the feature probe and the template
// store over one API client, started and stopped together.

#include "base/result.hpp"
#include "server/cluster_holder.hpp"
#include "server/template_store.hpp"
#include "translate/settings.hpp"

#include <boost/asio/any_io_executor.hpp>

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace drawbridge::server {

/// How one attempt to have a template in the cluster ended; the closed set of the metric
/// `drawbridge_template_writes_total{result}`.
enum class TemplateWrite { created, exists, conflict, refused, failed, timed_out };
[[nodiscard]] std::string_view name(TemplateWrite result);
inline constexpr TemplateWrite template_writes[] = {
    TemplateWrite::created, TemplateWrite::exists, TemplateWrite::conflict,
    TemplateWrite::refused, TemplateWrite::failed, TemplateWrite::timed_out};

/// A change of state that belongs in the log: `level` is `info`, `warn` or `error`.
struct BackendEvent {
    std::string_view level;
    std::string_view
        what;  ///< short and fixed: `fleet_watch`, `template_watch`, `feature_probe`, `credentials`
    std::string text;
};

/// What the backend tells the process; each may be empty. Called on the backend's executor, must
/// not block or throw.
struct BackendHooks {
    std::function<void(TemplateWrite)> template_write;
    std::function<void(const BackendEvent&)> event;
};

struct BackendOptions {
    std::string kubeconfig;  ///< file; empty: KUBECONFIG, then the pod's service account, then
                             ///< ~/.kube/config
    std::string context;     ///< of the kubeconfig; empty: its current-context
    std::string
        name_space;  ///< where the probe dry-runs; empty: that of the credentials, else `default`
};

/// The connection to one cluster. Feeds `cluster` (which it alone writes): memory sizes, minor,
/// features. Until the API server has answered, `not_ready()` is not empty, and a review that would
/// need the cluster must be answered with 5xx.
class KubernetesBackend {
public:
    /// Reads the credentials; a fault in them is returned with file and field. Nothing is sent
    /// before `start`.
    [[nodiscard]] static base::Result<std::unique_ptr<KubernetesBackend>> create(
        const boost::asio::any_io_executor& executor, const BackendOptions& options,
        const translate::Target& target, ClusterHolder& cluster, BackendHooks hooks);

    KubernetesBackend(const KubernetesBackend&) = delete;
    KubernetesBackend& operator=(const KubernetesBackend&) = delete;
    /// The executor must not run any more, or `stop` have completed.
    ~KubernetesBackend();

    /// Starts watches and probe. Call once; any thread.
    void start();
    /// Ends watches, probe and open calls; any thread, more than once is fine. The executor then
    /// runs out of work of the backend within moments.
    void stop();
    /// New settings: another driver or capacity name starts the fleet watch anew. Any thread.
    void retarget(const translate::Target& target);

    /// Safe to call from several threads, from any executor.
    [[nodiscard]] TemplateStore& store();

    /// Why the process is not ready, one reason each; empty: ready. Any thread.
    [[nodiscard]] std::vector<std::string> not_ready() const;
    /// What the last probe found, for people: `/readyz` and the log. Any thread.
    [[nodiscard]] std::string feature_text() const;
    /// Things to say at start-up (a skipped certificate check, ...).
    [[nodiscard]] const std::vector<std::string>& warnings() const;

private:
    struct Parts;
    explicit KubernetesBackend(std::shared_ptr<Parts> parts);
    std::shared_ptr<Parts> parts_;
};

}  // namespace drawbridge::server
