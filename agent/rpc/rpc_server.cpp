#include "agent/rpc/rpc_server.hpp"

#include "agent/rpc/grpc_bytes.hpp"
#include "agent/rpc/grpc_order.hpp"
#include "agent/rpc/grpc_timers.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <atomic>
#include <condition_variable>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/grpcpp.h>
#include <map>
#include <mutex>
#include <optional>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>
#include <utility>

// gRPC's callback interface would be less to write. In 1.51 its threads wait for a second and then
// sleep for a tenth of one: one in eight calls to a plugin that has nothing else to do waited for
// up to 95 ms. A thread that asks a completion queue waits for nothing else.

#if defined(__SANITIZE_THREAD__)
// Headers of gRPC hand an operation from who starts it to who is told that it has ended, in an
// order that is kept inside the library, where the sanitizer does not see it.
extern "C" const char* __tsan_default_suppressions() {  // NOLINT(bugprone-reserved-identifier)
    return "race:grpc::internal::CallOpSet\n";
}
#endif

namespace drawbridge::agent::rpc {
namespace {

using base::ErrorKind;

// sun_path holds 108 bytes with the zero at the end.
constexpr std::size_t max_socket_path = 107;
constexpr int max_message = 4 << 20;

class Call;

/// Something that gRPC was asked to do for a call. It keeps the call until it has ended.
struct Operation {
    std::shared_ptr<Call> call;
    void (Call::*ended)(bool ok);
};

/// What a call and whoever answers it share: it outlives the call in their hands.
class CallState final : public RpcCall, public RpcStream {
public:
    explicit CallState(std::weak_ptr<Call> call) : call_(std::move(call)) {}

    void finish(RpcAnswer answer) override;
    void send(std::string body) override;
    /// The server ends a stream.
    void end(const grpc::Status& status);
    /// The message that was sent is on its way, or the caller has gone.
    void written(bool ok);
    /// The caller has gone, or the call is over.
    void cancel() { cancelled_ = true; }
    void mark_stream() { is_stream_ = true; }

    [[nodiscard]] bool is_cancelled() const override { return cancelled_; }
    [[nodiscard]] bool is_closed() const override { return cancelled_; }

private:
    std::mutex mutex_;  // let go before a call that may be the last to hold its Call
    std::weak_ptr<Call> call_;
    std::optional<std::string> next_;
    std::optional<grpc::Status> end_;  ///< once what is on its way has been written
    bool busy_ = false;
    bool finished_ = false;
    bool is_stream_ = false;
    std::atomic<bool> cancelled_ = false;
};

}  // namespace

struct RpcServer::Parts {
    void accept();
    void serve();
    void end_streams();

    std::map<std::string, RpcMethod> methods;
    std::mutex mutex;
    std::condition_variable none_open;
    std::map<Call*, std::shared_ptr<CallState>> open;
    bool closed = false;  ///< gRPC may be asked for nothing more
    grpc::AsyncGenericService service;
    std::unique_ptr<grpc::ServerCompletionQueue> queue;
    std::unique_ptr<grpc::Server> server;
    std::thread thread;
    std::vector<std::string> paths;
};

namespace {

/// gRPC's side of a call: reads one message, hands it on, writes what comes back. Its operations
/// keep it, and end on the one thread of the server.
class Call final : public std::enable_shared_from_this<Call> {
public:
    explicit Call(RpcServer::Parts& server) : server_(server), stream_(&context_) {}
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;
    ~Call();

    /// Waits for a caller.
    void expect();
    // The state asks for one of these at a time.
    void write(const std::string& body);
    void write_last(const std::string& body);
    void end(const grpc::Status& status) { stream_.Finish(status, operation(&Call::ended)); }

private:
    void arrived(bool ok);
    void read(bool ok);
    void written(bool ok) { state_->written(ok); }
    void ended(bool) {}
    void over(bool);
    [[nodiscard]] Operation* operation(void (Call::*then)(bool));

    RpcServer::Parts& server_;
    grpc::GenericServerContext context_;
    grpc::GenericServerAsyncReaderWriter stream_;
    std::shared_ptr<CallState> state_;
    const RpcMethod* method_ = nullptr;
    Operation* over_ = nullptr;  ///< gRPC's, once a caller is there
    grpc::ByteBuffer request_;
};

void CallState::finish(RpcAnswer answer) {
    const auto call = call_.lock();
    const std::lock_guard lock(mutex_);
    if (!call || std::exchange(finished_, true)) return;
    if (answer.code == RpcCode::ok) return call->write_last(answer.body);
    call->end(grpc::Status(static_cast<grpc::StatusCode>(answer.code), answer.body));
}

void CallState::send(std::string body) {
    const auto call = call_.lock();
    const std::lock_guard lock(mutex_);
    if (!call || finished_) return;
    if (std::exchange(busy_, true)) {
        next_ = std::move(body);
    } else {
        call->write(body);
    }
}

void CallState::written(bool ok) {
    const auto call = call_.lock();
    const std::lock_guard lock(mutex_);
    busy_ = false;
    if (!call || finished_) return;
    if (!ok) {
        finished_ = true;  // what there is to know of the caller's end is told by `over`
    } else if (end_) {
        finished_ = true;
        call->end(*end_);
    } else if (next_) {
        busy_ = true;
        call->write(*std::exchange(next_, std::nullopt));
    }
}

void CallState::end(const grpc::Status& status) {
    const auto call = call_.lock();
    const std::lock_guard lock(mutex_);
    // A unary call is still answered, and its caller waits for that.
    if (!is_stream_) return;
    cancelled_ = true;
    if (!call || finished_) return;
    if (busy_) {
        end_ = status;
    } else {
        finished_ = true;
        call->end(status);
    }
}

Call::~Call() {
    state_->cancel();
    const std::lock_guard lock(server_.mutex);
    server_.open.erase(this);
    server_.none_open.notify_all();
}

Operation* Call::operation(void (Call::*then)(bool)) {
    auto* started = new Operation{shared_from_this(), then};
    before_grpc(started);
    return started;
}

void Call::expect() {
    state_ = std::make_shared<CallState>(weak_from_this());
    // gRPC ends it for a call that has a caller, and for no other.
    over_ = new Operation{nullptr, &Call::over};
    before_grpc(over_);
    context_.AsyncNotifyWhenDone(over_);
    server_.service.RequestCall(&context_, &stream_, server_.queue.get(), server_.queue.get(),
                                operation(&Call::arrived));
}

void Call::arrived(bool ok) {
    if (!ok) {  // the server ends
        delete over_;
        return;
    }
    over_->call = shared_from_this();
    server_.accept();
    const auto found = server_.methods.find(context_.method());
    const bool is_known = found != server_.methods.end();
    // Whoever ends the streams finds it marked.
    if (is_known && found->second.stream) state_->mark_stream();
    {
        const std::lock_guard lock(server_.mutex);
        if (server_.closed) return;
        server_.open.emplace(this, state_);
    }
    if (!is_known) return end(grpc::Status(grpc::StatusCode::UNIMPLEMENTED, "no such method"));
    method_ = &found->second;
    stream_.Read(&request_, operation(&Call::read));
}

void Call::read(bool ok) {
    auto bytes = ok ? to_bytes(request_) : std::nullopt;
    if (!bytes) {
        state_->finish({RpcCode::invalid_argument, "a call has one message"});
    } else if (method_->stream) {
        method_->stream(std::move(*bytes), state_);
    } else {
        method_->unary(std::move(*bytes), state_);
    }
}

void Call::over(bool) {
    if (context_.IsCancelled()) state_->cancel();
}

void Call::write(const std::string& body) {
    stream_.Write(to_buffer(body), operation(&Call::written));
}

void Call::write_last(const std::string& body) {
    stream_.WriteAndFinish(to_buffer(body), grpc::WriteOptions(), grpc::Status::OK,
                           operation(&Call::ended));
}

}  // namespace

void RpcServer::Parts::accept() {
    const std::lock_guard lock(mutex);
    if (!closed) std::make_shared<Call>(*this)->expect();
}

void RpcServer::Parts::serve() {
    using Next = grpc::CompletionQueue::NextStatus;
    using Steady = std::chrono::steady_clock;
    void* tag = nullptr;
    bool ok = false;
    auto due = Steady::now() + timer_step;
    for (;;) {
        const Next next =
            queue->AsyncNext(&tag, &ok, std::chrono::system_clock::now() + timer_step);
        if (next == Next::SHUTDOWN) return;
        if (next == Next::TIMEOUT || Steady::now() >= due) {
            tick_grpc_timers();
            due = Steady::now() + timer_step;
        }
        if (next == Next::TIMEOUT) continue;
        behind_grpc(tag);
        const std::unique_ptr<Operation> operation(static_cast<Operation*>(tag));
        ((*operation->call).*(operation->ended))(ok);
    }
}

void RpcServer::Parts::end_streams() {
    std::vector<std::shared_ptr<CallState>> states;
    {
        const std::lock_guard lock(mutex);
        for (const auto& [call, state] : open)
            states.push_back(state);
    }
    for (const auto& state : states)
        state->end(grpc::Status(grpc::StatusCode::UNAVAILABLE, "the plugin ends"));
}

RpcServer::RpcServer(std::vector<RpcMethod> methods) : parts_(std::make_unique<Parts>()) {
    for (RpcMethod& method : methods) {
        const std::string name = method.name;
        parts_->methods.emplace(name, std::move(method));
    }
}

RpcServer::~RpcServer() {
    stop(std::chrono::milliseconds(0));
}

base::Result<void> RpcServer::listen(const std::vector<std::string>& paths) {
    start_grpc();
    grpc::ServerBuilder builder;
    for (const std::string& path : paths) {
        if (path.size() > max_socket_path) {
            return base::fail(ErrorKind::invalid_input,
                              fmt::format("a socket's path has at most {} bytes", max_socket_path),
                              path);
        }
        // The kubelet knows no other credentials on these sockets; who may open them is their mode.
        builder.AddListeningPort("unix:" + path, grpc::InsecureServerCredentials());
    }
    builder.SetMaxReceiveMessageSize(max_message);
    builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, 256);
    builder.RegisterAsyncGenericService(&parts_->service);
    parts_->queue = builder.AddCompletionQueue();
    const mode_t before = ::umask(0177);
    parts_->server = builder.BuildAndStart();
    ::umask(before);
    if (!parts_->server) {
        parts_->queue->Shutdown();
        return base::fail(ErrorKind::unavailable, "cannot listen",
                          fmt::format("{}", fmt::join(paths, ", ")));
    }
    parts_->paths = paths;
    parts_->accept();
    parts_->thread = std::thread([parts = parts_.get()] { parts->serve(); });
    return {};
}

void RpcServer::stop(std::chrono::milliseconds grace) {
    if (!parts_->server) return;
    for (const std::string& path : parts_->paths)
        ::unlink(path.c_str());
    parts_->end_streams();
    parts_->server->Shutdown(std::chrono::system_clock::now() + grace);
    {
        // Who has a call in hand may still ask gRPC for something.
        std::unique_lock lock(parts_->mutex);
        parts_->none_open.wait(lock, [this] { return parts_->open.empty(); });
        parts_->closed = true;
    }
    parts_->queue->Shutdown();
    parts_->thread.join();
    parts_->server.reset();
}

}  // namespace drawbridge::agent::rpc
