#include "server/template_store_memory.hpp"

#include "base/json.hpp"

namespace drawbridge::server {

base::Result<void> MemoryTemplateStore::put(const StoreCall& call,
                                            const kube::ClaimTemplate& claim_template) {
    const std::lock_guard lock(mutex_);
    const auto in_namespace = templates_.find(call.name_space);
    if (in_namespace != templates_.end()) {
        const auto found = in_namespace->second.find(claim_template.name);
        if (found != in_namespace->second.end()) {
            if (kube::same_content(found->second.spec, claim_template.spec)) return {};
            return base::fail(base::ErrorKind::conflict, "a template of this name differs",
                              claim_template.name);
        }
    }
    if (call.dry_run) return {};
    if (count_ >= capacity_) {
        return base::fail(base::ErrorKind::unavailable, "the memory store is full");
    }
    templates_[call.name_space].emplace(claim_template.name, claim_template);
    ++count_;
    if (created_) created_();
    return {};
}

boost::asio::awaitable<base::Result<void>> MemoryTemplateStore::ensure(
    StoreCall call, const std::vector<kube::ClaimTemplate>& templates) {
    for (const kube::ClaimTemplate& claim_template : templates) {
        if (auto done = put(call, claim_template); !done) co_return done;
    }
    co_return base::Result<void>{};
}

boost::asio::awaitable<base::Result<bool>> MemoryTemplateStore::exists(StoreCall call,
                                                                       std::string name) {
    const std::lock_guard lock(mutex_);
    const auto in_namespace = templates_.find(call.name_space);
    co_return in_namespace != templates_.end() && in_namespace->second.contains(name);
}

std::size_t MemoryTemplateStore::size() const {
    const std::lock_guard lock(mutex_);
    return count_;
}

std::string MemoryTemplateStore::to_json() const {
    base::JsonWriter json;
    json.begin_object().member("apiVersion", "v1").member("kind", "List");
    json.key("metadata").begin_object().end_object().key("items").begin_array();
    const std::lock_guard lock(mutex_);
    for (const auto& [name_space, by_name] : templates_) {
        for (const auto& [name, claim_template] : by_name) {
            json.raw(kube::to_json(claim_template, name_space, kube::TemplateWriter::server));
        }
    }
    return json.end_array().end_object().take();
}

}  // namespace drawbridge::server
