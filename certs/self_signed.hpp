#pragma once
// The trial's own certificates: an authority and a server certificate kept in a folder, renewed in
// time.

#include "base/result.hpp"
#include "certs/inspect.hpp"
#include "certs/rotation.hpp"

#include <filesystem>

namespace drawbridge::certs {

/// The files of a folder of self-signed certificates.
struct SelfSignedFiles {
    std::filesystem::path
        ca_bundle;                 ///< ca.crt: the authority, behind it earlier ones still in use
    std::filesystem::path ca_key;  ///< ca.key, mode 0600
    std::filesystem::path certificate;  ///< tls.crt
    std::filesystem::path key;          ///< tls.key, mode 0600
};

/// The result of looking after the folder once.
struct SelfSigned {
    SelfSignedFiles files;
    CertFacts leaf;
    RotationStep done = RotationStep::keep;  ///< what had to be done, for the log
};

/// Sees to it that `folder` (made with mode 0700 where it is missing) holds a usable pair for the
/// names of the trial: `localhost`, `127.0.0.1`, `::1` and the service's names. What is missing,
/// broken or due is made anew; call it again every hour or so. Several processes may share the
/// folder. One that holds files of these names which were not made here is refused (`conflict`).
[[nodiscard]] base::Result<SelfSigned> load_or_make(const std::filesystem::path& folder, Time now);

}  // namespace drawbridge::certs
