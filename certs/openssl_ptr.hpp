#pragma once
// Owning handles of OpenSSL objects, and its error queue as text.

#include <openssl/bio.h>
#include <openssl/bn.h>
#include <openssl/evp.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <memory>
#include <string>
#include <string_view>

namespace drawbridge::certs {

/// Calls `Free` on what a `unique_ptr` holds.
template <auto Free>
struct FreeWith {
    template <class T>
    void operator()(T* object) const {
        Free(object);
    }
};

using BioPtr = std::unique_ptr<BIO, FreeWith<BIO_free_all>>;
using BignumPtr = std::unique_ptr<BIGNUM, FreeWith<BN_free>>;
using KeyPtr = std::unique_ptr<EVP_PKEY, FreeWith<EVP_PKEY_free>>;
using X509Ptr = std::unique_ptr<X509, FreeWith<X509_free>>;
using ExtensionPtr = std::unique_ptr<X509_EXTENSION, FreeWith<X509_EXTENSION_free>>;
using NamesPtr = std::unique_ptr<GENERAL_NAMES, FreeWith<GENERAL_NAMES_free>>;

/// A read-only memory BIO on `text`, which must outlive it; empty where there is no memory or
/// `text` is over 2 GiB.
[[nodiscard]] BioPtr bio_on(std::string_view text);

/// Takes the oldest error of this thread's OpenSSL queue as text and empties the queue.
[[nodiscard]] std::string take_openssl_error();

}  // namespace drawbridge::certs
