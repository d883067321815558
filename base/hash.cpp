#include "base/hash.hpp"

#include "base/check.hpp"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <algorithm>
#include <limits>

namespace drawbridge::base {
namespace {

constexpr std::string_view base32_alphabet = "abcdefghijklmnopqrstuvwxyz234567";
constexpr std::string_view base64_alphabet =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
constexpr std::uint8_t no_digit = 64;

constexpr std::array<std::uint8_t, 256> make_base64_values() {
    std::array<std::uint8_t, 256> values{};
    values.fill(no_digit);
    for (std::size_t i = 0; i < base64_alphabet.size(); ++i) {
        values[static_cast<unsigned char>(base64_alphabet[i])] = static_cast<std::uint8_t>(i);
    }
    return values;
}

constexpr auto base64_values = make_base64_values();

}  // namespace

Sha256 sha256(std::string_view text) {
    Sha256 digest{};
    unsigned int size = 0;
    const int done =
        EVP_Digest(text.data(), text.size(), digest.data(), &size, EVP_sha256(), nullptr);
    CHECK(done == 1 && size == digest.size());
    return digest;
}

std::string base32_lower(std::span<const std::uint8_t> bytes, std::size_t chars) {
    const std::size_t length = std::min(chars, (bytes.size() * 8 + 4) / 5);
    std::string out;
    out.reserve(length);
    std::uint32_t bits = 0;  // only the low `count` ones are not written yet
    unsigned count = 0;
    for (const std::uint8_t byte : bytes) {
        bits = (bits << 8U) | byte;
        count += 8;
        for (; count >= 5 && out.size() < length; count -= 5) {
            out += base32_alphabet[(bits >> (count - 5)) & 31U];
        }
        if (out.size() == length) return out;
    }
    if (out.size() < length) out += base32_alphabet[(bits << (5 - count)) & 31U];
    return out;
}

std::string base64_encode(std::string_view bytes) {
    CHECK(bytes.size() <= std::numeric_limits<int>::max() / 2);
    std::string out((bytes.size() + 2) / 3 * 4, '\0');
    const auto* const from = reinterpret_cast<const unsigned char*>(bytes.data());
    auto* const to = reinterpret_cast<unsigned char*>(out.data());
    EVP_EncodeBlock(to, from, static_cast<int>(bytes.size()));
    return out;
}

Result<std::string> base64_decode(std::string_view text) {
    const auto refuse = [](std::string_view what, std::size_t at) {
        return fail(ErrorKind::invalid_input, fmt::format("base64, byte {}: {}", at, what));
    };
    if (text.size() % 4 != 0) return refuse("the length is no multiple of 4", text.size());
    std::size_t digits = text.size();
    for (int padding = 0; padding < 2 && digits > 0 && text[digits - 1] == '='; ++padding)
        --digits;

    std::string out;
    out.reserve(digits / 4 * 3 + 2);
    std::uint32_t bits = 0;
    unsigned count = 0;
    for (std::size_t i = 0; i < digits; ++i) {
        const std::uint8_t value = base64_values[static_cast<unsigned char>(text[i])];
        if (value == no_digit) return refuse("no digit of base64", i);
        bits = (bits << 6U) | value;
        count += 6;
        if (count >= 8) {
            count -= 8;
            out += static_cast<char>((bits >> count) & 0xFFU);
        }
    }
    if ((bits & ((1U << count) - 1U)) != 0) return refuse("bits behind the end", digits - 1);
    return out;
}

}  // namespace drawbridge::base
