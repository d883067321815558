#include "agent/rpc/grpc_bytes.hpp"

#include <grpcpp/support/slice.h>
#include <vector>

namespace drawbridge::agent::rpc {

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

}  // namespace drawbridge::agent::rpc
