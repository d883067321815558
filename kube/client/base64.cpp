#include "kube/client/base64.hpp"

#include <cstdint>

namespace drawbridge::kube::client {
namespace {

constexpr std::string_view alphabet =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

bool is_blank(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }

}  // namespace

std::string encode_base64(std::string_view bytes) {
    std::string out;
    out.reserve((bytes.size() + 2) / 3 * 4);
    for (std::size_t at = 0; at < bytes.size(); at += 3) {
        const std::string_view group = bytes.substr(at, 3);
        std::uint32_t bits = 0;
        for (std::size_t i = 0; i < 3; ++i) {
            bits = (bits << 8U) | (i < group.size() ? static_cast<unsigned char>(group[i]) : 0U);
        }
        for (std::size_t i = 0; i < 4; ++i) {
            out += i <= group.size() ? alphabet[(bits >> (18U - 6U * i)) & 63U] : '=';
        }
    }
    return out;
}

std::optional<std::string> decode_base64(std::string_view text) {
    std::string out;
    std::uint32_t bits = 0;
    unsigned held = 0;     // bits not yet written
    std::size_t read = 0;  // characters of the alphabet and padding
    std::size_t padding = 0;
    for (const char c : text) {
        if (is_blank(c)) continue;
        ++read;
        if (c == '=') {
            ++padding;
            continue;
        }
        const std::size_t value = alphabet.find(c);
        if (value == std::string_view::npos || padding > 0) return std::nullopt;
        bits = (bits << 6U) | static_cast<std::uint32_t>(value);
        held += 6;
        if (held >= 8) {
            held -= 8;
            out += static_cast<char>((bits >> held) & 0xFFU);
        }
    }
    if (read % 4 != 0 || padding > 2) return std::nullopt;
    return out;
}

}  // namespace drawbridge::kube::client
