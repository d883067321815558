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
    grpc::GenericStub stub(
        grpc::CreateChannel("unix:" + socket_path, grpc::InsecureChannelCredentials()));
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
        return base::fail(late ? ErrorKind::timed_out : ErrorKind::unavailable,
                          fmt::format("{}: {}", method, status.error_message()), socket_path);
    }
    auto bytes = to_bytes(received);
    if (!bytes) return base::fail(ErrorKind::unavailable, "an answer that cannot be read", method);
    return std::move(*bytes);
}

}  // namespace drawbridge::agent::rpc
