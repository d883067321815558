#pragma once
// The store of the trial: templates in the memory of this process, lost with it.

#include "server/template_store.hpp"

#include <functional>
#include <map>
#include <mutex>
#include <utility>

namespace drawbridge::server {

/// Keeps up to `capacity` templates; beyond that it is `unavailable`, since it forgets none.
class MemoryTemplateStore final : public TemplateStore {
public:
    /// `created` is called for each template that is new.
    explicit MemoryTemplateStore(std::function<void()> created = {}, std::size_t capacity = 20000)
        : created_(std::move(created)), capacity_(capacity) {}

    boost::asio::awaitable<base::Result<void>> ensure(
        StoreCall call, const std::vector<kube::ClaimTemplate>& templates) override;
    boost::asio::awaitable<base::Result<bool>> exists(StoreCall call, std::string name) override;
    [[nodiscard]] std::size_t size() const override;

    /// All templates as a `v1` `List` of ResourceClaimTemplates.
    [[nodiscard]] std::string to_json() const;

private:
    [[nodiscard]] base::Result<void> put(const StoreCall& call,
                                         const kube::ClaimTemplate& claim_template);

    std::function<void()> created_;
    std::size_t capacity_;
    mutable std::mutex mutex_;
    /// by namespace, then name; content-named, so the first content is the right one
    std::map<std::string, std::map<std::string, kube::ClaimTemplate, std::less<>>, std::less<>>
        templates_;
    std::size_t count_ = 0;
};

}  // namespace drawbridge::server
