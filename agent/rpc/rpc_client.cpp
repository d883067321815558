#include "agent/rpc/rpc_client.hpp"

#include "agent/rpc/grpc_bytes.hpp"
#include "agent/rpc/grpc_timers.hpp"

#include <fmt/format.h>

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <utility>

namespace drawbridge::agent::rpc {

using base::ErrorKind;

base::Result<std::string> call_rpc(const std::string& socket_path, const std::string& method,
                                   const std::string& request, std::chrono::milliseconds patience) {
    start_grpc();
    tick_grpc_timers();  // what earlier calls to who is mute have left
    // Who takes the connection and says nothing keeps it for this long, and not for 20 seconds.
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, static_cast<int>(patience.count()));
    grpc::GenericStub stub(grpc::CreateCustomChannel(
        "unix:" + socket_path, grpc::InsecureChannelCredentials(), arguments));
    grpc::ClientContext context;
    const auto deadline = std::chrono::system_clock::now() + patience;
    context.set_deadline(deadline);  // which the other side is told
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
    // gRPC's own look at the clock may be late (grpc_timers.hpp).
    bool late = queue.AsyncNext(&tag, &ok, deadline) == grpc::CompletionQueue::TIMEOUT;
    if (late) {
        context.TryCancel();
        queue.Next(&tag, &ok);
    }
    if (!status.ok()) {
        late = late || status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED;
        const std::string reason =
            late ? fmt::format("no answer within {} ms", patience.count()) : status.error_message();
        return base::fail(late ? ErrorKind::timed_out : ErrorKind::unavailable,
                          fmt::format("{}: {}", method, reason), socket_path);
    }
    auto bytes = to_bytes(received);
    if (!bytes) return base::fail(ErrorKind::unavailable, "an answer that cannot be read", method);
    return std::move(*bytes);
}

}  // namespace drawbridge::agent::rpc
