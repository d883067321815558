#pragma once
// Messages between our bytes and the buffers of gRPC; included in agent/rpc/ alone.

#include <grpcpp/support/byte_buffer.h>
#include <optional>
#include <string>

namespace drawbridge::agent::rpc {

[[nodiscard]] grpc::ByteBuffer to_buffer(const std::string& bytes);
/// Nothing where the buffer cannot be read.
[[nodiscard]] std::optional<std::string> to_bytes(const grpc::ByteBuffer& buffer);

}  // namespace drawbridge::agent::rpc
