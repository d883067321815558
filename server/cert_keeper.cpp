#include "server/cert_keeper.hpp"

#include "base/atomic_file.hpp"
#include "base/log.hpp"
#include "certs/pem.hpp"
#include "certs/self_signed.hpp"

#include <utility>
#include <variant>

namespace drawbridge::server {
namespace {

constexpr std::chrono::hours renewal_interval{1};
constexpr std::size_t max_authorities = 1U << 20U;

std::int64_t unix_time(certs::Time time) {
    return time.time_since_epoch().count();
}

}  // namespace

CertKeeper::CertKeeper(const TlsOptions& options, TlsIdentityHolder& holder, Metrics& metrics)
    : options_(options), holder_(holder), metrics_(metrics) {}

base::Result<void> CertKeeper::start(certs::Time now) {
    if (!options_.self_signed.empty()) {
        if (auto made = renew_self_signed(now); !made) return made;
    } else {
        files_ = std::make_unique<certs::PairFiles>(options_.certificate, options_.key);
    }
    look(now);
    return {};
}

void CertKeeper::poll(certs::Time now) {
    if (!options_.self_signed.empty() && now >= next_renewal_) {
        if (const auto made = renew_self_signed(now); !made) refuse(made.error());
    }
    look(now);
}

base::Result<void> CertKeeper::renew_self_signed(certs::Time now) {
    next_renewal_ = now + renewal_interval;
    const auto made = certs::load_or_make(options_.self_signed, now);
    if (!made) return tl::unexpected(made.error());
    if (!files_) {
        files_ = std::make_unique<certs::PairFiles>(made->files.certificate, made->files.key);
    }
    const auto bundle = base::read_file(made->files.ca_bundle, max_authorities);
    if (!bundle) return tl::unexpected(bundle.error());
    const auto authorities = certs::read_certificates(*bundle);
    if (authorities) metrics_.ca_expiry = unix_time(authorities->front().not_after);
    return {};
}

void CertKeeper::look(certs::Time now) {
    auto polled = files_->poll(now);
    bool changed = false;
    if (auto* const pair = std::get_if<certs::NewPair>(&polled)) {
        pair_ = std::move(*pair);
        changed = true;
    } else if (const auto* const bad = std::get_if<certs::BadPair>(&polled)) {
        refuse(bad->reason);
    }
    if (!options_.client_ca.empty()) {
        changed = look_at_authorities() || changed;
        lacks_authorities_ = client_ca_.empty();
        if (lacks_authorities_) return;  // without them every client would be let in
    }
    if (changed && pair_) use_pair();
}

/// Takes the authorities of clients anew, if they changed and can be read; tells whether.
bool CertKeeper::look_at_authorities() {
    auto text = base::read_regular_file(options_.client_ca, max_authorities);
    if (text && *text == client_ca_) return false;
    if (text) {
        if (const auto read = certs::certificates_from_pem(*text); !read) {
            text =
                base::fail(base::ErrorKind::invalid_input,
                           "authorities of clients: " + read.error().message, options_.client_ca);
        }
    }
    const std::string reason = text ? std::string() : text.error().message;
    const bool news = std::exchange(bad_client_ca_, reason) != reason;
    if (!text) {
        if (news) refuse(text.error());
        return false;
    }
    client_ca_ = std::move(*text);
    return true;
}

void CertKeeper::use_pair() {
    auto identity = make_tls_identity(pair_->certificate, pair_->key, client_ca_);
    if (!identity) {
        refuse(identity.error());
        return;
    }
    if (holder_.current()) ++metrics_.certificate_reloads.success;
    holder_.replace(std::move(*identity));
    metrics_.leaf_expiry = unix_time(pair_->facts.not_after);
    base::log_event(base::Level::info, "certificate",
                    {{"subject", pair_->facts.subject},
                     {"fingerprint", pair_->facts.fingerprint},
                     {"expires", unix_time(pair_->facts.not_after)}});
}

void CertKeeper::refuse(const base::Error& reason) {
    ++metrics_.certificate_reloads.failure;
    base::log_event(base::Level::warn, "certificate",
                    {{"reason", reason.message},
                     {"place", reason.path},
                     {"kept", holder_.current() != nullptr}});
}

}  // namespace drawbridge::server
