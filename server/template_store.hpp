#pragma once
// Where the templates that reviews need are kept: the one seam between reviews and the cluster.

#include "base/result.hpp"
#include "kube/claim_model.hpp"

#include <boost/asio/awaitable.hpp>

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace drawbridge::server {

/// One call on a store: where, whether anything may be written, and until when an answer is of use.
struct StoreCall {
    std::string name_space;
    bool dry_run = false;
    std::chrono::steady_clock::time_point deadline;
};

/// Keeps templates by namespace and name. Safe to call from several threads.
class TemplateStore {
public:
    virtual ~TemplateStore() = default;

    /// Sees to it that every template exists with this content; writes nothing in a dry run.
    /// `conflict` (path = name of the template) where one of that name has other content,
    /// `forbidden` or `unavailable` or `timed_out` where the store cannot tell or write.
    virtual boost::asio::awaitable<base::Result<void>> ensure(
        StoreCall call, const std::vector<kube::ClaimTemplate>& templates) = 0;
    /// Whether a template of that name exists.
    virtual boost::asio::awaitable<base::Result<bool>> exists(StoreCall call, std::string name) = 0;
    /// Templates known to this process, for the metric.
    [[nodiscard]] virtual std::size_t size() const = 0;
};

}  // namespace drawbridge::server
