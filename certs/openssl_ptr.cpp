#include "certs/openssl_ptr.hpp"

#include <openssl/err.h>

#include <array>
#include <limits>

namespace drawbridge::certs {

BioPtr bio_on(std::string_view text) {
    if (text.size() > static_cast<std::size_t>(std::numeric_limits<int>::max())) return nullptr;
    // OpenSSL takes no null pointer, which is what an empty view may hold.
    return BioPtr(BIO_new_mem_buf(text.empty() ? "" : text.data(), static_cast<int>(text.size())));
}

std::string take_openssl_error() {
    const unsigned long code = ERR_get_error();
    ERR_clear_error();
    if (code == 0) return "unknown error";
    std::array<char, 256> text{};
    ERR_error_string_n(code, text.data(), text.size());
    return text.data();
}

}  // namespace drawbridge::certs
