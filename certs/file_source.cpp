#include "certs/file_source.hpp"

#include "base/atomic_file.hpp"
#include "base/hash.hpp"
#include "certs/pem.hpp"

#include <fmt/format.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <sys/stat.h>
#include <utility>

namespace drawbridge::certs {
namespace {

constexpr std::size_t max_file_bytes = 1U << 20U;

/// All by which a change of a file shows: also another file behind the same link, also one written
/// within the same tick of the clock with another size. Links are followed.
std::string stamp_of(const std::filesystem::path& path) {
    struct stat status {};
    if (::stat(path.c_str(), &status) != 0) return fmt::format("error {}", errno);
    return fmt::format("{} {} {} {}.{} {}.{}", status.st_dev, status.st_ino, status.st_size,
                       status.st_mtim.tv_sec, status.st_mtim.tv_nsec, status.st_ctim.tv_sec,
                       status.st_ctim.tv_nsec);
}

/// A file's text; only regular files, since reading from a pipe would wait.
base::Result<std::string> regular_file(const std::filesystem::path& path) {
    struct stat status {};
    if (::stat(path.c_str(), &status) != 0) {
        return base::fail(
            errno == ENOENT ? base::ErrorKind::not_found : base::ErrorKind::unavailable,
            fmt::format("cannot be read: {}", std::strerror(errno)), path.string());
    }
    if (!S_ISREG(status.st_mode)) {
        return base::fail(base::ErrorKind::invalid_input, "is no regular file", path.string());
    }
    return base::read_file(path.string(), max_file_bytes);
}

struct Texts {
    std::string certificate;
    std::string key;
};

base::Result<Texts> read_both(const std::filesystem::path& certificate,
                              const std::filesystem::path& key) {
    auto certificate_text = regular_file(certificate);
    if (!certificate_text) return tl::unexpected(certificate_text.error());
    auto key_text = regular_file(key);
    if (!key_text) return tl::unexpected(key_text.error());
    return Texts{std::move(*certificate_text), std::move(*key_text)};
}

/// One digest for both texts, or the reason why they could not be read.
std::string digest_of(const base::Result<Texts>& texts) {
    if (!texts) return fmt::format("{}: {}", texts.error().path, texts.error().message);
    std::string digests;
    for (const auto& text : {texts->certificate, texts->key}) {
        for (const auto byte : base::sha256(text))
            digests += static_cast<char>(byte);
    }
    return digests;
}

}  // namespace

PairFiles::PairFiles(std::filesystem::path certificate, std::filesystem::path key)
    : certificate_(std::move(certificate)), key_(std::move(key)) {}

PollResult PairFiles::poll(Time now) {
    std::string stamp = fmt::format("{}, {}", stamp_of(certificate_), stamp_of(key_));
    // A pair that is in use is looked at again only when its files change. The read after a change
    // is repeated once, since a file written twice within a tick of the clock bears one time only.
    if (stamp == stamp_ && settled_ && in_use_ == contents_) return Unchanged{};
    auto texts = read_both(certificate_, key_);
    std::string contents = digest_of(texts);
    const bool is_first = stamp_.empty();
    settled_ = stamp == stamp_ && contents == contents_;
    stamp_ = std::move(stamp);
    contents_ = std::move(contents);
    if (texts && contents_ == in_use_) {
        reported_.clear();
        return Unchanged{};
    }
    auto facts =
        texts ? inspect_pair(texts->certificate, texts->key, now) : tl::unexpected(texts.error());
    if (facts) {
        in_use_ = contents_;
        reported_.clear();
        return NewPair{std::move(texts->certificate), std::move(texts->key), std::move(*facts)};
    }
    if (!settled_ && !is_first) return Unchanged{};
    if (texts && facts.error().path.empty() && !key_from_pem(texts->key))
        facts.error().path = key_.string();
    return report(std::move(facts.error()));
}

PollResult PairFiles::report(base::Error reason) {
    if (reason.path.empty()) reason.path = certificate_.string();
    std::string report = fmt::format("{} {}: {}", contents_, reason.path, reason.message);
    if (report == reported_) return Unchanged{};
    reported_ = std::move(report);
    return BadPair{std::move(reason)};
}

}  // namespace drawbridge::certs
