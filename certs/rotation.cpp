#include "certs/rotation.hpp"

#include <algorithm>

namespace drawbridge::certs {
namespace {

bool is_valid(Time now, const CertFacts& certificate) {
    return certificate.not_before <= now && now < certificate.not_after;
}

}  // namespace

bool is_due(Time now, const CertFacts& certificate) {
    if (!is_valid(now, certificate)) return true;
    const auto lifetime = certificate.not_after - certificate.not_before;
    return now - certificate.not_before >= lifetime * 2 / 3;
}

bool is_out_of_use(Time now, const CertFacts& old_ca, const Identity& identity) {
    if (now > old_ca.not_after) return true;
    if (!identity.ca || !identity.leaf) return false;
    const auto leaf_lifetime = identity.leaf->not_after - identity.leaf->not_before;
    return now > identity.ca->not_before + leaf_lifetime;
}

RotationStep next_step(Time now, const Identity& identity) {
    if (!identity.ca || is_due(now, *identity.ca)) return RotationStep::renew_ca;
    if (!identity.leaf || is_due(now, *identity.leaf)) return RotationStep::renew_leaf;
    const bool old_ca_out_of_use =
        std::any_of(identity.old_cas.begin(), identity.old_cas.end(),
                    [&](const CertFacts& old_ca) { return is_out_of_use(now, old_ca, identity); });
    return old_ca_out_of_use ? RotationStep::drop_old_ca : RotationStep::keep;
}

}  // namespace drawbridge::certs
