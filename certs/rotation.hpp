#pragma once
// When certificates are renewed: pure rules on plain dates.

#include "certs/inspect.hpp"

#include <optional>
#include <vector>

namespace drawbridge::certs {

enum class RotationStep { keep, renew_leaf, renew_ca, drop_old_ca };

/// What is in use: absent is what is missing or unusable.
struct Identity {
    std::optional<CertFacts> ca;  ///< the one that signs
    std::optional<CertFacts> leaf;
    std::vector<CertFacts> old_cas;  ///< still in the bundle beside it
};

/// Whether a certificate should be replaced: not valid at `now`, or two thirds of its lifetime are
/// over.
[[nodiscard]] bool is_due(Time now, const CertFacts& certificate);

/// Whether no leaf of an old authority can be valid any more: it has ended itself, or the new
/// authority has signed for longer than a leaf lives. False without an authority or a leaf to
/// compare with, unless it has ended.
[[nodiscard]] bool is_out_of_use(Time now, const CertFacts& old_ca, const Identity& identity);

/// The next thing to do, one at a time; `renew_ca` replaces the leaf as well. An old authority
/// stays in the bundle until no leaf of it can be valid any more.
[[nodiscard]] RotationStep next_step(Time now, const Identity& identity);

}  // namespace drawbridge::certs
