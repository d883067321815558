#include "agent/rpc/rpc_server.hpp"

#include "agent/rpc/grpc_order.hpp"

#include <fmt/format.h>

#include <atomic>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <map>
#include <mutex>
#include <optional>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace drawbridge::agent::rpc {
namespace {

using base::ErrorKind;

// sun_path holds 108 bytes with the zero at the end.
constexpr std::size_t max_socket_path = 107;
constexpr int max_message = 4 << 20;

grpc::ByteBuffer to_buffer(const std::string& bytes) {
    const grpc::Slice slice(bytes);
    return {&slice, 1};
}

std::optional<std::string> to_bytes(const grpc::ByteBuffer& buffer) {
    std::vector<grpc::Slice> slices;
    if (buffer.Valid() && !buffer.Dump(&slices).ok()) return std::nullopt;
    std::string bytes;
    for (const grpc::Slice& slice : slices)
        bytes.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
    return bytes;
}

/// What a call and gRPC's reactor of it share; outlives the reactor in the hands of whoever
/// answers.
class CallState;

/// gRPC's side of a call: reads one message, hands it on, writes what comes back.
class Reactor final : public grpc::ServerGenericBidiReactor {
public:
    Reactor(const RpcMethod* method, std::function<void(Reactor*)> done);
    void OnReadDone(bool ok) override;
    void OnWriteDone(bool ok) override;
    void OnCancel() override;
    void OnDone() override;
    [[nodiscard]] const std::shared_ptr<CallState>& state() const { return state_; }

private:
    const RpcMethod* method_;
    std::function<void(Reactor*)> done_;
    grpc::ByteBuffer request_;
    std::shared_ptr<CallState> state_;
};

class CallState final : public RpcCall, public RpcStream {
public:
    explicit CallState(Reactor& reactor) : reactor_(&reactor) {}

    void finish(RpcAnswer answer) override {
        const std::lock_guard lock(mutex_);
        if (reactor_ == nullptr || std::exchange(finished_, true)) return;
        const grpc::Status status =
            answer.code == RpcCode::ok
                ? grpc::Status::OK
                : grpc::Status(static_cast<grpc::StatusCode>(answer.code), answer.body);
        if (!status.ok()) {
            reactor_->Finish(status);
            return;
        }
        writing_ = to_buffer(answer.body);
        reactor_->StartWriteAndFinish(&writing_, grpc::WriteOptions(), status);
    }

    void send(std::string body) override {
        const std::lock_guard lock(mutex_);
        if (reactor_ == nullptr || finished_) return;
        if (busy_) {
            next_ = std::move(body);
            return;
        }
        write(body);
    }

    void written(bool ok) {
        const std::lock_guard lock(mutex_);
        busy_ = false;
        if (reactor_ == nullptr || finished_) return;
        if (!ok) {
            finished_ = true;
            reactor_->Finish(grpc::Status::CANCELLED);
        } else if (next_) {
            write(*std::exchange(next_, std::nullopt));
        }
    }

    /// The caller has gone, or the server ends the stream.
    void cancel(const grpc::Status& status) {
        const std::lock_guard lock(mutex_);
        cancelled_ = true;
        // A unary call is still answered: gRPC drops what nobody waits for.
        if (reactor_ == nullptr || !is_stream_ || std::exchange(finished_, true)) return;
        reactor_->Finish(status);
    }
    void detach() {
        const std::lock_guard lock(mutex_);
        cancelled_ = true;
        reactor_ = nullptr;
    }
    void mark_stream() { is_stream_ = true; }

    [[nodiscard]] bool is_cancelled() const override { return cancelled_; }
    [[nodiscard]] bool is_closed() const override { return cancelled_; }

private:
    void write(const std::string& body) {
        busy_ = true;
        writing_ = to_buffer(body);
        reactor_->StartWrite(&writing_);
    }

    // Recursive: gRPC may complete an operation inside the call that starts it.
    std::recursive_mutex mutex_;
    Reactor* reactor_;
    grpc::ByteBuffer writing_;
    std::optional<std::string> next_;
    bool busy_ = false;
    bool finished_ = false;
    bool is_stream_ = false;
    std::atomic<bool> cancelled_ = false;
};

Reactor::Reactor(const RpcMethod* method, std::function<void(Reactor*)> done)
    : method_(method), done_(std::move(done)), state_(std::make_shared<CallState>(*this)) {
    if (method_ != nullptr && method_->stream) state_->mark_stream();
    before_grpc(this);
    if (method_ == nullptr) {
        Finish(grpc::Status(grpc::StatusCode::UNIMPLEMENTED, "no such method"));
        return;
    }
    StartRead(&request_);
}

// The end of a call may come, and delete this, inside what is called here: the state is kept alive.

void Reactor::OnReadDone(bool ok) {
    behind_grpc(this);
    const auto kept = state_;
    auto bytes = ok ? to_bytes(request_) : std::nullopt;
    before_grpc(this);
    if (!bytes) {
        kept->finish({RpcCode::invalid_argument, "a call has one message"});
    } else if (method_->stream) {
        method_->stream(std::move(*bytes), kept);
    } else {
        method_->unary(std::move(*bytes), kept);
    }
}

void Reactor::OnWriteDone(bool ok) {
    behind_grpc(this);
    const auto kept = state_;
    before_grpc(this);
    kept->written(ok);
}

void Reactor::OnCancel() {
    behind_grpc(this);
    const auto kept = state_;
    before_grpc(this);
    kept->cancel(grpc::Status::CANCELLED);
}

void Reactor::OnDone() {
    behind_grpc(this);
    state_->detach();
    done_(this);
    delete this;
}

}  // namespace

struct RpcServer::Parts final : grpc::CallbackGenericService {
    grpc::ServerGenericBidiReactor* CreateReactor(
        grpc::GenericCallbackServerContext* context) override {
        behind_grpc(this);
        const auto found = methods.find(context->method());
        auto* reactor = new Reactor(found == methods.end() ? nullptr : &found->second,
                                    [this](Reactor* done) { forget(done); });
        const std::lock_guard lock(mutex);
        open.emplace(reactor, reactor->state());
        return reactor;
    }
    void forget(Reactor* reactor) {
        const std::lock_guard lock(mutex);
        open.erase(reactor);
        before_grpc(this);
    }
    void end_streams() {
        std::vector<std::shared_ptr<CallState>> states;
        {
            const std::lock_guard lock(mutex);
            for (const auto& [reactor, state] : open)
                states.push_back(state);
        }
        for (const auto& state : states)
            state->cancel(grpc::Status(grpc::StatusCode::UNAVAILABLE, "the plugin ends"));
    }

    std::map<std::string, RpcMethod> methods;
    std::mutex mutex;
    std::map<Reactor*, std::shared_ptr<CallState>> open;
    std::unique_ptr<grpc::Server> server;
    std::string path;
};

RpcServer::RpcServer(std::vector<RpcMethod> methods) : parts_(std::make_unique<Parts>()) {
    for (RpcMethod& method : methods) {
        const std::string name = method.name;
        parts_->methods.emplace(name, std::move(method));
    }
}

RpcServer::~RpcServer() {
    stop(std::chrono::milliseconds(0));
}

base::Result<void> RpcServer::listen(const std::string& path) {
    if (path.size() > max_socket_path) {
        return base::fail(ErrorKind::invalid_input,
                          fmt::format("a socket's path has at most {} bytes", max_socket_path),
                          path);
    }
    grpc::ServerBuilder builder;
    // The kubelet knows no other credentials on these sockets; who may open them is their mode.
    builder.AddListeningPort("unix:" + path, grpc::InsecureServerCredentials());
    builder.SetMaxReceiveMessageSize(max_message);
    builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, 256);
    builder.RegisterCallbackGenericService(parts_.get());
    before_grpc(parts_.get());
    const mode_t before = ::umask(0177);
    parts_->server = builder.BuildAndStart();
    ::umask(before);
    if (!parts_->server) return base::fail(ErrorKind::unavailable, "cannot listen", path);
    parts_->path = path;
    return {};
}

void RpcServer::stop(std::chrono::milliseconds grace) {
    if (!parts_->server) return;
    ::unlink(parts_->path.c_str());
    parts_->end_streams();
    parts_->server->Shutdown(std::chrono::system_clock::now() + grace);
    parts_->server->Wait();
    behind_grpc(parts_.get());
    parts_->server.reset();
}

base::Result<std::string> call_rpc(const std::string& socket_path, const std::string& method,
                                   const std::string& request, std::chrono::milliseconds patience) {
    grpc::GenericStub stub(
        grpc::CreateChannel("unix:" + socket_path, grpc::InsecureChannelCredentials()));
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + patience);
    context.set_authority("localhost");
    grpc::CompletionQueue queue;
    const grpc::ByteBuffer sent = to_buffer(request);
    grpc::ByteBuffer received;
    grpc::Status status;
    auto call = stub.PrepareUnaryCall(&context, method, sent, &queue);
    call->StartCall();
    call->Finish(&received, &status, nullptr);
    void* tag = nullptr;
    bool ok = false;
    queue.Next(&tag, &ok);
    if (!status.ok()) {
        const bool late = status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED;
        return base::fail(late ? ErrorKind::timed_out : ErrorKind::unavailable,
                          fmt::format("{}: {}", method, status.error_message()), socket_path);
    }
    auto bytes = to_bytes(received);
    if (!bytes) return base::fail(ErrorKind::unavailable, "an answer that cannot be read", method);
    return std::move(*bytes);
}

}  // namespace drawbridge::agent::rpc
