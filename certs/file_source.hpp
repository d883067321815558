#pragma once
// A certificate and its key in files that someone else replaces, reported only as a complete,
// matching pair.

#include "base/result.hpp"
#include "certs/inspect.hpp"

#include <filesystem>
#include <string>
#include <variant>

namespace drawbridge::certs {

/// Nothing new since the last poll.
struct Unchanged {};

/// A complete pair that matches and is valid.
struct NewPair {
    std::string certificate;  ///< PEM, leaf first
    std::string key;          ///< PEM
    CertFacts facts;
};

/// The files cannot be used as they are; the pair before stays in use.
struct BadPair {
    base::Error reason;
};

using PollResult = std::variant<Unchanged, NewPair, BadPair>;

/// Watches two files by polling, once a second or so; not for several threads at once. While
/// nothing changes a poll is two `stat` calls, which see a symbolic link that was switched
/// (`..data` of a Kubernetes volume) as well.
class PairFiles {
public:
    PairFiles(std::filesystem::path certificate, std::filesystem::path key);

    /// What is new. Each pair, and each reason why there is none, is reported once. A pair that
    /// does not fit is reported by the first poll ever, later only if it is still there in the next
    /// poll: whoever replaces two files one after the other passes through such a state. A pair
    /// whose time has not yet come is reported when it has.
    [[nodiscard]] PollResult poll(Time now);

private:
    [[nodiscard]] PollResult report(base::Error reason);

    std::filesystem::path certificate_;
    std::filesystem::path key_;
    std::string stamp_;     ///< identity and times of both files when last read
    std::string contents_;  ///< digest of what was last read, or why it could not be
    std::string in_use_;    ///< digest of the last pair that was good
    std::string reported_;  ///< what was last reported as bad, empty since a good one
    bool settled_ = false;  ///< the last two reads saw the same
};

}  // namespace drawbridge::certs
