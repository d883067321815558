#include "kube/client/watcher.hpp"

#include <fmt/format.h>

#include <utility>

namespace drawbridge::kube::client {

namespace asio = boost::asio;
using base::ErrorKind;
using std::chrono::steady_clock;

namespace {

constexpr std::chrono::seconds call_time(30);
/// How long after its announced end a watch may still be open before it is cut.
constexpr std::chrono::seconds grace(15);
/// A stream open for this long was healthy, even if nothing happened in it.
constexpr std::chrono::seconds healthy(30);

/// A text as one value of a query.
std::string escape_query(std::string_view text) {
    std::string out;
    for (const char c : text) {
        const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                           (c >= '0' && c <= '9') || c == '-' || c == '.' || c == '_' || c == '~';
        if (plain) {
            out += c;
        } else {
            out += fmt::format("%{:02X}", static_cast<unsigned char>(c));
        }
    }
    return out;
}

std::string with_selection(const WatchTarget& target, std::string query) {
    return fmt::format("{}?{}{}{}", target.path, target.selection,
                       target.selection.empty() ? "" : "&", query);
}

}  // namespace

Watcher::Watcher(asio::any_io_executor executor, RestClient& client, WatchTarget target,
                 WatchSink& sink, WatchHealth health)
    : client_(client),
      target_(std::move(target)),
      sink_(sink),
      health_(std::move(health)),
      lines_(target_.max_event),
      wake_(std::make_shared<Event>(std::move(executor))) {}

asio::awaitable<void> Watcher::run(std::function<double()> random) {
    WatchState state;
    WatchAction action = state.start();
    while (!is_over()) {
        const WatchEvent event = co_await act(action, random());
        action = state.resume(event, random());
    }
    stream_.reset();
}

void Watcher::cancel() {
    cancelled_ = true;
    wake_->set();
    if (stream_) stream_->close();
}

asio::awaitable<WatchEvent> Watcher::act(const WatchAction& action, double random) {
    switch (action.what) {
        case WatchDo::list:
            co_return co_await list(action.continue_token);
        case WatchDo::watch:
            co_return co_await watch(action.resource_version, random);
        case WatchDo::read:
            co_return co_await read();
        case WatchDo::wait:
            break;
    }
    // Either of the two ends the wait: the client's stop closes this watcher through the backend as
    // well.
    co_await wake_->wait(steady_clock::now() + action.delay);
    co_return WatchEvent{.step = WatchStep::waited};
}

asio::awaitable<WatchEvent> Watcher::list(const std::string& continue_token) {
    std::string query = fmt::format("limit={}", target_.page_size);
    if (!continue_token.empty()) query += "&continue=" + escape_query(continue_token);
    // Named, here and below: g++ 12 destroys a braced temporary inside a co_await twice.
    ApiCall request{.target = with_selection(target_, query),
                    .deadline = steady_clock::now() + call_time,
                    .max_answer = target_.max_page};
    auto page = co_await client_.call_json(std::move(request));
    if (!page) co_return report(WatchStep::list_failed, page.error());
    if (is_over()) co_return WatchEvent{.step = WatchStep::list_failed};
    if (continue_token.empty()) sink_.list_begun();
    co_return take_page(page->root());
}

WatchEvent Watcher::take_page(base::JsonView list) {
    const base::JsonView metadata = list["metadata"];
    const std::string_view version = metadata["resourceVersion"].string_or("");
    const base::JsonView items = list["items"];
    if (version.empty() || (!items.is_array() && !items.is_absent())) {
        return report(
            WatchStep::list_failed,
            {ErrorKind::unavailable, fmt::format("{}: the answer is no list", target_.path), {}});
    }
    for (std::size_t i = 0; i < items.size(); ++i)
        sink_.put(items.at(i));
    const std::string_view next = metadata["continue"].string_or("");
    if (next.empty()) {
        sink_.list_complete();
        if (std::exchange(sick_, false)) health_(std::nullopt);
    }
    return {.step = WatchStep::page_listed,
            .resource_version = std::string(version),
            .continue_token = std::string(next)};
}

asio::awaitable<WatchEvent> Watcher::watch(const std::string& resource_version, double random) {
    // Spread, so that the watches of many replicas do not all end at once.
    const auto length =
        target_.stream_time + std::chrono::seconds(static_cast<int>(
                                  random * static_cast<double>(target_.stream_time.count())));
    const std::string query =
        fmt::format("watch=true&allowWatchBookmarks=true&resourceVersion={}&timeoutSeconds={}",
                    escape_query(resource_version), length.count());
    ApiCall request{.target = with_selection(target_, query),
                    .deadline = steady_clock::now() + call_time};
    auto opened = co_await client_.open(std::move(request));
    if (!opened) {
        // of a watch, `conflict` is 410: the version is too old
        const bool expired = opened.error().kind == ErrorKind::conflict;
        if (expired) co_return WatchEvent{.step = WatchStep::version_expired};
        co_return report(WatchStep::stream_failed, opened.error());
    }
    stream_ = std::move(*opened);
    lines_ = LineCutter(target_.max_event);
    opened_ = steady_clock::now();
    cut_at_ = opened_ + length + grace;
    if (std::exchange(sick_, false)) health_(std::nullopt);
    co_return WatchEvent{.step = WatchStep::stream_opened};
}

asio::awaitable<WatchEvent> Watcher::read() {
    while (true) {
        if (auto line = lines_.next()) co_return take_line(std::move(*line));
        const auto piece = co_await stream_->read(cut_at_);
        // A stream that breaks is as good as one that ends: what was whole has been taken, the
        // watch resumes there.
        if (!piece || piece->empty()) co_return drop_stream(WatchStep::stream_ended);
        if (is_over()) co_return drop_stream(WatchStep::stream_ended);
        if (auto taken = lines_.push(*piece); !taken) {
            drop_stream(WatchStep::stream_failed);
            co_return report(WatchStep::stream_failed, taken.error());
        }
    }
}

WatchEvent Watcher::take_line(std::string line) {
    const auto document = base::parse_json(std::move(line), {.max_bytes = target_.max_event});
    auto change = document ? read_change(document->root())
                           : base::Result<Change>(tl::unexpected(document.error()));
    if (!change) {
        drop_stream(WatchStep::stream_failed);
        return report(WatchStep::stream_failed, change.error());
    }
    switch (change->kind) {
        case ChangeKind::put:
            sink_.put(change->object);
            break;
        case ChangeKind::erase:
            sink_.erase(change->object);
            break;
        case ChangeKind::bookmark:
            break;
        case ChangeKind::expired:
            return drop_stream(WatchStep::version_expired);
        case ChangeKind::failed:
            drop_stream(WatchStep::stream_failed);
            return report(WatchStep::stream_failed, {ErrorKind::unavailable, change->message, {}});
    }
    return {.step = WatchStep::changed, .resource_version = std::move(change->resource_version)};
}

WatchEvent Watcher::drop_stream(WatchStep step) {
    stream_.reset();
    return {.step = step, .long_lived = steady_clock::now() - opened_ >= healthy};
}

WatchEvent Watcher::report(WatchStep step, const base::Error& error) {
    sick_ = true;
    if (!is_over()) health_(error);
    return {.step = step};
}

}  // namespace drawbridge::kube::client
