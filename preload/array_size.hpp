#pragma once
// How much memory an array takes. Pure.

#include <stdint.h>

namespace preload {

/// An array as the driver's descriptors describe it; height or depth 0 means that dimension is not
/// there.
struct ArrayShape {
    uint64_t width = 0;
    uint64_t height = 0;
    uint64_t depth = 0;
    uint32_t format = 0;  // CUarray_format
    uint32_t channels = 1;
    uint32_t flags = 0;   // CUDA_ARRAY3D_*
    uint32_t levels = 1;  // of a mipmapped array
};

enum : uint32_t {
    array_layered = 0x01,
    array_cubemap = 0x04,  // of six layers
    array_sparse = 0x40,
    array_deferred = 0x80
};

/// Bytes that the driver takes for all levels: rows of 64 bytes, in blocks of up to 128 rows,
/// slices in blocks of up to 16, small ones in steps of 512 bytes and large ones of 2 MiB. An upper
/// bound where a format is not known; exact for every array recorded on driver 580. 0 for arrays
/// that are mapped later; saturates above ledger::absurd_bytes.
uint64_t array_bytes(const ArrayShape& shape);

}  // namespace preload
