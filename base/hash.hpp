#pragma once
// SHA-256 and the texts that bytes are carried in.

#include "base/result.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace drawbridge::base {

using Sha256 = std::array<std::uint8_t, 32>;

/// The SHA-256 of `text`.
[[nodiscard]] Sha256 sha256(std::string_view text);

/// The first `chars` characters of `bytes` in base 32 (RFC 4648, lower case, no padding); fewer if
/// the bytes give fewer.
[[nodiscard]] std::string base32_lower(std::span<const std::uint8_t> bytes,
                                       std::size_t chars = std::string::npos);

/// `bytes` in base 64 (RFC 4648, with padding, on one line).
[[nodiscard]] std::string base64_encode(std::string_view bytes);

/// The opposite of `base64_encode`, strictly: no white space, full padding, unused bits zero. Fails
/// with `invalid_input` and the place.
[[nodiscard]] Result<std::string> base64_decode(std::string_view text);

}  // namespace drawbridge::base
