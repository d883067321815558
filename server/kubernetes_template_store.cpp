#include "server/kubernetes_template_store.hpp"

#include "kube/name_rules.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <fmt/format.h>

#include <utility>

namespace drawbridge::server {

namespace asio = boost::asio;
using base::ErrorKind;
using base::Result;
using std::chrono::steady_clock;

namespace {

/// A template with its largest selectors is far below this.
constexpr std::size_t largest_template = 2U << 20U;

std::string collection_of(const std::string& name_space) {
    return fmt::format("/apis/resource.k8s.io/v1/namespaces/{}/resourceclaimtemplates", name_space);
}

std::string path_of(const std::string& name_space, const std::string& name) {
    return fmt::format("{}/{}", collection_of(name_space), name);
}

/// Both become part of a path.
Result<void> check_names(const StoreCall& call, std::string_view name) {
    if (kube::is_dns_label(call.name_space) && kube::is_dns_subdomain(name)) return {};
    return base::fail(
        ErrorKind::invalid_input,
        fmt::format("no template can be named \"{}\" in namespace \"{}\"", name, call.name_space),
        std::string(name));
}

}  // namespace

asio::awaitable<Result<void>> KubernetesTemplateStore::ensure(
    StoreCall call, const std::vector<kube::ClaimTemplate>& templates) {
    for (const kube::ClaimTemplate& wanted : templates) {
        if (auto good = check_names(call, wanted.name); !good) co_return good;
        const ContentDigest digest = content_digest(wanted.spec);
        if (cache_.holds(call.name_space, wanted.name, digest, steady_clock::now())) continue;
        // Named, here and below: g++ 12 destroys a braced temporary inside a co_await twice.
        Task task{call, wanted, digest};
        auto done = co_await asio::co_spawn(strand_, provide(std::move(task)), asio::use_awaitable);
        if (!done) co_return done;
    }
    co_return Result<void>();
}

asio::awaitable<Result<bool>> KubernetesTemplateStore::exists(StoreCall call, std::string name) {
    if (auto good = check_names(call, name); !good) co_return false;
    if (cache_.knows(call.name_space, name, steady_clock::now())) co_return true;
    co_return co_await asio::co_spawn(strand_, look(std::move(call), std::move(name)),
                                      asio::use_awaitable);
}

asio::awaitable<Result<void>> KubernetesTemplateStore::provide(Task task) {
    const StoreCall& call = task.call;
    // A dry run must not stand in for a write.
    const std::string key =
        fmt::format("{}/{}{}", call.name_space, task.wanted.name, call.dry_run ? " (dry run)" : "");
    while (const auto open = flights_.find(key) != flights_.end() ? flights_[key] : nullptr) {
        if (!co_await open->done.wait(call.deadline)) {
            co_return explain(
                task, {ErrorKind::timed_out, "another call for it has not ended in time", {}});
        }
        // Whoever flew may have had less time than we have.
        const bool ran_out = !open->result && open->result.error().kind == ErrorKind::timed_out;
        if (!ran_out || steady_clock::now() >= call.deadline) co_return open->result;
    }
    const auto flight = std::make_shared<Flight>(strand_);
    flights_.emplace(key, flight);
    flight->result = co_await perform(task);
    flights_.erase(key);
    flight->done.set();
    co_return flight->result;
}

asio::awaitable<Result<void>> KubernetesTemplateStore::perform(const Task& task) {
    const auto known = [&] {
        return cache_.holds(task.call.name_space, task.wanted.name, task.digest,
                            steady_clock::now());
    };
    if (known()) co_return Result<void>();  // it came while we were on our way to the strand
    if (task.call.dry_run) {
        Result<void> read = co_await compare(task);
        if (!read && read.error().kind == ErrorKind::not_found)
            co_return Result<void>();  // it would be made
        if (!read) co_return explain(task, std::move(read.error()));
        co_return read;
    }
    Result<void> done = co_await write(task);
    const bool lost = !done && done.error().kind == ErrorKind::not_found;
    // Deleted between our POST and our GET: once more.
    if (lost) done = co_await write(task);
    if (!done) co_return explain(task, std::move(done.error()));
    co_return done;
}

/// `not_found` where there was one and is none any more; every other failure is the final one.
asio::awaitable<Result<void>> KubernetesTemplateStore::write(const Task& task) {
    kube::client::ApiCall request{
        .method = "POST",
        .target = collection_of(task.call.name_space),
        .body = kube::to_json(task.wanted, task.call.name_space, kube::TemplateWriter::server),
        .deadline = task.call.deadline,
        .max_answer = largest_template,
        .repeatable = true};  // a second one is answered with 409 and compared
    const auto answer = co_await client_.call(std::move(request));
    if (answer) {
        cache_.learn(task.call.name_space, task.wanted.name, task.digest, steady_clock::now());
        count(task, TemplateWrite::created);
        co_return Result<void>();
    }
    if (answer.error().kind == ErrorKind::conflict) co_return co_await compare(task);
    base::Error error = answer.error();
    // No such namespace, or the API is not served: nothing that writing again would help.
    if (error.kind == ErrorKind::not_found) error.kind = ErrorKind::invalid_input;
    co_return tl::unexpected(std::move(error));
}

asio::awaitable<Result<void>> KubernetesTemplateStore::compare(const Task& task) {
    kube::client::ApiCall request{.target = path_of(task.call.name_space, task.wanted.name),
                                  .deadline = task.call.deadline,
                                  .max_answer = largest_template};
    const auto there = co_await client_.call_json(std::move(request));
    if (!there) co_return tl::unexpected(there.error());
    const auto spec = kube::claim_spec_from_json(there->root().find("/spec/spec/devices"));
    if (!spec || !kube::same_content(task.wanted.spec, *spec)) {
        cache_.erase(task.call.name_space, task.wanted.name);
        co_return base::fail(ErrorKind::conflict, "a template of that name has other content",
                             task.wanted.name);
    }
    cache_.learn(task.call.name_space, task.wanted.name, task.digest, steady_clock::now());
    count(task, TemplateWrite::exists);
    co_return Result<void>();
}

asio::awaitable<Result<bool>> KubernetesTemplateStore::look(StoreCall call, std::string name) {
    kube::client::ApiCall request{.target = path_of(call.name_space, name),
                                  .deadline = call.deadline,
                                  .max_answer = largest_template};
    const auto there = co_await client_.call_json(std::move(request));
    if (there) {
        const auto spec = kube::claim_spec_from_json(there->root().find("/spec/spec/devices"));
        if (spec) cache_.learn(call.name_space, name, content_digest(*spec), steady_clock::now());
        co_return true;
    }
    if (there.error().kind == ErrorKind::not_found) co_return false;
    co_return tl::unexpected(there.error());
}

void KubernetesTemplateStore::count(const Task& task, TemplateWrite result) {
    if (!task.call.dry_run && hooks_.write) hooks_.write(result);
}

/// The final error of a template, with its place and what it means; counted.
Result<void> KubernetesTemplateStore::explain(const Task& task, base::Error error) {
    std::string_view hint;
    switch (error.kind) {
        case ErrorKind::conflict:
            count(task, TemplateWrite::conflict);
            break;
        case ErrorKind::forbidden:
            count(task, TemplateWrite::refused);
            if (error.message.find("exceeded quota") != std::string::npos) {
                hint =
                    "; the namespace's quota count/resourceclaimtemplates.resource.k8s.io must "
                    "leave room for it";
            }
            break;
        case ErrorKind::invalid_input:
        case ErrorKind::not_found:
            count(task, TemplateWrite::refused);
            if (hooks_.refused) hooks_.refused();
            // The template is right as far as we know; it is the cluster that cannot take it now.
            error.kind = ErrorKind::unavailable;
            break;
        case ErrorKind::timed_out:
            count(task, TemplateWrite::timed_out);
            break;
        case ErrorKind::unavailable:
        case ErrorKind::internal:
            count(task, TemplateWrite::failed);
            break;
    }
    return base::fail(error.kind,
                      fmt::format("template {} in namespace {}: {}{}", task.wanted.name,
                                  task.call.name_space, error.message, hint),
                      task.wanted.name);
}

}  // namespace drawbridge::server
