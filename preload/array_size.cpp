#include "preload/array_size.hpp"

#include "preload/ledger.hpp"

namespace preload {
namespace {

// Bytes of a cell and its side in elements: 1 for plain formats, 4 for block-compressed ones.
struct Cell {
    uint64_t bytes;
    uint64_t side;
};

Cell cell_of(uint32_t format, uint32_t channels) {
    const uint64_t count = channels == 0 ? 1 : channels;
    switch (format) {
        case 0x01:  // 8-bit integers
        case 0x08:
            return {count, 1};
        case 0x02:  // 16-bit integers and half floats
        case 0x09:
        case 0x10:
            return {2 * count, 1};
        case 0x03:  // 32-bit integers and floats
        case 0x0a:
        case 0x20:
            return {4 * count, 1};
        case 0x91:  // BC1 and BC4
        case 0x92:
        case 0x97:
        case 0x98:
            return {8, 4};
        default:
            break;
    }
    if (format >= 0x93 && format <= 0x9e) return {16, 4};  // BC2, BC3, BC5 to BC7
    if (format >= 0xc0 && format <= 0xc8)
        return {1u << ((format - 0xc0) % 3), 1};  // 8-bit normalised
    if (format >= 0xc9 && format <= 0xcb)
        return {2u << (format - 0xc9), 1};  // signed 16-bit normalised
    return {16 * count, 1};
}

uint64_t up(uint64_t value, uint64_t step) {
    return (value + step - 1) / step * step;
}

// The smallest power of two that holds the value, at most `most`.
uint64_t block(uint64_t value, uint64_t least, uint64_t most) {
    uint64_t size = least;
    while (size < value && size < most)
        size *= 2;
    return size;
}

uint64_t product(uint64_t a, uint64_t b) {
    uint64_t result = 0;
    return __builtin_mul_overflow(a, b, &result) || result > ledger::absurd_bytes
               ? ledger::absurd_bytes + 1
               : result;
}

uint64_t level_bytes(const Cell& cell, uint64_t width, uint64_t height, uint64_t depth,
                     bool layered) {
    const uint64_t row = up(product(up(width, cell.side) / cell.side, cell.bytes), 64);
    const uint64_t rows = up(height == 0 ? 1 : height, cell.side) / cell.side;
    const bool volume = depth > 1 && !layered;
    const uint64_t slices = depth == 0 ? 1 : depth;
    const uint64_t high = height <= 1 ? 1 : up(rows, volume ? 8 : block(rows, 8, 128));
    const uint64_t deep = volume ? up(slices, block(slices, 1, 16)) : slices;
    return product(product(row, high), deep);
}

uint64_t half(uint64_t size) {
    return size <= 1 ? size : size / 2;
}

}  // namespace

uint64_t array_bytes(const ArrayShape& shape) {
    if ((shape.flags & (array_sparse | array_deferred)) != 0) return 0;
    if (shape.width > ledger::absurd_bytes || shape.height > ledger::absurd_bytes ||
        shape.depth > ledger::absurd_bytes)
        return ledger::absurd_bytes + 1;
    const Cell cell = cell_of(shape.format, shape.channels);
    const bool layered = (shape.flags & (array_layered | array_cubemap)) != 0;
    uint64_t width = shape.width;
    uint64_t height = shape.height;
    uint64_t depth = shape.depth;
    uint64_t sum = 0;
    for (uint32_t level = 0; level < shape.levels && level < 64; ++level) {
        sum += level_bytes(cell, width, height, depth, layered);
        if (sum > ledger::absurd_bytes || (width <= 1 && height <= 1 && (layered || depth <= 1)))
            break;
        width = half(width);
        height = half(height);
        if (!layered) depth = half(depth);
    }
    return ledger::rounded_linear(sum);
}

}  // namespace preload
