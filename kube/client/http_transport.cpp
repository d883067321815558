#include "kube/client/http_transport.hpp"

#include "kube/client/http_wire.hpp"
#include "kube/client/resolve.hpp"
#include "kube/client/tls_context.hpp"
#include "kube/client/turns.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <list>
#include <set>
#include <string>
#include <utility>

namespace drawbridge::kube::client {
namespace {

namespace asio = boost::asio;
using base::ErrorKind;
using base::Result;
using std::chrono::steady_clock;

/// A burst of calls waits a moment for the connections that there are: to make one costs both sides
/// more than to answer over it. No call waits longer for another: that one may never be answered.
constexpr std::size_t enough_at_once = 8;
/// As many may come free in one moment, and the next of the burst take them in another.
constexpr std::size_t most_idle = enough_at_once;
constexpr std::chrono::milliseconds burst_patience(50);
/// Below the 90 s and more after which API servers hang up.
constexpr std::chrono::seconds longest_idle(60);
constexpr std::size_t largest_refusal = 64U << 10U;

class Transport;

/// A wire in use, known to the transport so that `close` reaches it.
class WireLease {
public:
    WireLease(std::shared_ptr<Transport> owner, std::unique_ptr<HttpWire> wire);
    WireLease(WireLease&& other) noexcept = default;
    WireLease& operator=(WireLease&& other) = delete;
    ~WireLease();

    [[nodiscard]] HttpWire* operator->() const { return wire_.get(); }
    /// Gives the wire back for the next call.
    void keep();

private:
    std::shared_ptr<Transport> owner_;
    std::unique_ptr<HttpWire> wire_;
};

class Transport : public std::enable_shared_from_this<Transport> {
public:
    Transport(asio::any_io_executor executor, Endpoint endpoint)
        : executor_(executor), endpoint_(std::move(endpoint)), turns_(executor, enough_at_once) {}

    asio::awaitable<Result<ApiAnswer>> call(ApiCall call);
    asio::awaitable<Result<OpenedStream>> open(ApiCall call);
    void close();

    void joined(HttpWire* wire) { in_use_.insert(wire); }
    void left(HttpWire* wire) { in_use_.erase(wire); }
    void park(std::unique_ptr<HttpWire> wire);

private:
    asio::awaitable<Result<WireLease>> connect(const ApiCall& call);
    asio::awaitable<Result<ApiAnswer>> exchange(WireLease& wire, const ApiCall& call);
    Result<void> follow(const Access& access);
    std::unique_ptr<HttpWire> unpark();

    asio::any_io_executor executor_;
    Endpoint endpoint_;
    Turns turns_;      ///< of calls; streams stay open, and are few
    Access followed_;  ///< what context_ was made from; the token does not matter
    std::shared_ptr<asio::ssl::context> context_;
    std::list<std::unique_ptr<HttpWire>> idle_;  ///< the one used last at the end
    std::set<HttpWire*> in_use_;
    bool closed_ = false;
};

WireLease::WireLease(std::shared_ptr<Transport> owner, std::unique_ptr<HttpWire> wire)
    : owner_(std::move(owner)), wire_(std::move(wire)) {
    owner_->joined(wire_.get());
}

WireLease::~WireLease() {
    if (wire_) owner_->left(wire_.get());
}

void WireLease::keep() {
    owner_->left(wire_.get());
    owner_->park(std::move(wire_));
}

void Transport::park(std::unique_ptr<HttpWire> wire) {
    if (closed_ || !wire->made_with(context_)) return;
    wire->rest(steady_clock::now());
    idle_.push_back(std::move(wire));
    if (idle_.size() > most_idle) idle_.pop_front();
}

std::unique_ptr<HttpWire> Transport::unpark() {
    const auto oldest = steady_clock::now() - longest_idle;
    std::erase_if(idle_, [&](const auto& wire) { return wire->resting_since() < oldest; });
    if (idle_.empty()) return nullptr;
    auto wire = std::move(idle_.back());
    idle_.pop_back();
    return wire;
}

void Transport::close() {
    closed_ = true;
    turns_.open();
    idle_.clear();
    for (HttpWire* wire : in_use_)
        wire->hang_up();
}

/// Refuses calls once closed. Makes the TLS context anew when certificates have changed;
/// connections made with the old one are not used again.
Result<void> Transport::follow(const Access& access) {
    if (closed_) return base::fail(ErrorKind::unavailable, "this process is ending");
    if (!endpoint_.tls) return {};
    if (context_ && followed_.authorities == access.authorities &&
        followed_.certificate == access.certificate && followed_.key == access.key) {
        return {};
    }
    auto context = client_context(access);
    if (!context) return base::fail(ErrorKind::unavailable, std::move(context.error().message));
    context_ = std::move(*context);
    followed_ = access;
    followed_.token.clear();
    idle_.clear();
    return {};
}

asio::awaitable<Result<WireLease>> Transport::connect(const ApiCall& call) {
    // Resolving takes time; the context may be another one when it is done.
    const auto context = context_;
    auto addresses = co_await resolve(executor_, endpoint_.host, endpoint_.port, call.deadline);
    if (!addresses) co_return tl::unexpected(addresses.error());
    if (closed_) co_return base::fail(ErrorKind::unavailable, "this process is ending");
    WireLease wire(shared_from_this(), std::make_unique<HttpWire>(executor_, endpoint_, context));
    const auto connected = co_await wire->connect(std::move(*addresses), call.deadline);
    if (!connected) co_return tl::unexpected(connected.error());
    co_return wire;
}

asio::awaitable<Result<ApiAnswer>> Transport::exchange(WireLease& wire, const ApiCall& call) {
    const auto sent = co_await wire->send(call);
    if (!sent) co_return tl::unexpected(sent.error());
    auto answer = co_await wire->read_head(call.max_answer);
    if (!answer) co_return answer;
    while (true) {
        const auto piece = co_await wire->read_piece(call.deadline);
        if (!piece) co_return tl::unexpected(piece.error());
        if (piece->empty()) break;
        answer->body += *piece;
    }
    if (wire->reusable()) wire.keep();
    co_return answer;
}

asio::awaitable<Result<ApiAnswer>> Transport::call(ApiCall call) {
    const auto self = shared_from_this();
    const auto turn =
        co_await turns_.take(std::min(call.deadline, steady_clock::now() + burst_patience));
    if (const auto ready = follow(*call.access); !ready) co_return tl::unexpected(ready.error());
    if (auto parked = unpark()) {
        WireLease wire(shared_from_this(), std::move(parked));
        auto answer = co_await exchange(wire, call);
        if (answer) co_return answer;
        // What leads nowhere was told by nobody: the others of its time may lead nowhere as well.
        if (answer.error().kind == ErrorKind::timed_out) idle_.clear();
        // The server may have closed the idle connection just before we wrote; then a new one
        // serves.
        const bool again = call.repeatable && !wire->answer_begun() && !closed_ &&
                           answer.error().kind != ErrorKind::timed_out;
        if (!again) co_return answer;
    }
    auto wire = co_await connect(call);
    if (!wire) co_return tl::unexpected(wire.error());
    co_return co_await exchange(*wire, call);
}

/// A body read piece by piece on a connection of its own.
class BodyStream final : public ApiStream {
public:
    explicit BodyStream(WireLease wire) : wire_(std::move(wire)) {}

    asio::awaitable<Result<std::string>> read(steady_clock::time_point deadline) override {
        return wire_->read_piece(deadline);
    }
    void close() override { wire_->hang_up(); }

private:
    WireLease wire_;
};

asio::awaitable<Result<OpenedStream>> Transport::open(ApiCall call) {
    if (const auto ready = follow(*call.access); !ready) co_return tl::unexpected(ready.error());
    auto wire = co_await connect(call);
    if (!wire) co_return tl::unexpected(wire.error());
    const auto sent = co_await (*wire)->send(call);
    if (!sent) co_return tl::unexpected(sent.error());
    auto head = co_await (*wire)->read_head(std::nullopt);
    if (!head) co_return tl::unexpected(head.error());
    OpenedStream opened;
    opened.answer = std::move(*head);
    if (opened.answer.status == 200) {
        opened.stream = std::make_unique<BodyStream>(std::move(*wire));
        co_return opened;
    }
    while (opened.answer.body.size() < largest_refusal) {
        const auto piece = co_await (*wire)->read_piece(call.deadline);
        if (!piece || piece->empty()) break;  // the status alone says enough
        opened.answer.body += *piece;
    }
    co_return opened;
}

/// What callers hold; the work itself is shared with calls that are still open.
class HttpTransport final : public ApiTransport {
public:
    explicit HttpTransport(std::shared_ptr<Transport> work) : work_(std::move(work)) {}
    ~HttpTransport() override { work_->close(); }

    asio::awaitable<Result<ApiAnswer>> call(ApiCall call) override {
        return work_->call(std::move(call));
    }
    asio::awaitable<Result<OpenedStream>> open(ApiCall call) override {
        return work_->open(std::move(call));
    }
    void close() override { work_->close(); }

private:
    std::shared_ptr<Transport> work_;
};

}  // namespace

std::unique_ptr<ApiTransport> make_http_transport(asio::any_io_executor executor,
                                                  Endpoint endpoint) {
    return std::make_unique<HttpTransport>(
        std::make_shared<Transport>(std::move(executor), std::move(endpoint)));
}

}  // namespace drawbridge::kube::client
