#pragma once
// Which templates are known to exist with which content: bounded, by namespace and name.

#include "kube/claim_model.hpp"

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <list>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>

namespace drawbridge::server {

/// Stands for the content of a template. The same for texts of one meaning in all forms that an API
/// server makes of ours; two digests that differ say nothing (ask `kube::same_content`).
using ContentDigest = std::array<std::uint8_t, 16>;
[[nodiscard]] ContentDigest content_digest(const kube::ClaimSpec& spec);

/// Entries that the watch has shown stay until the watch takes them back. Entries learned from a
/// single answer of the API server hold only for a while: long enough for the watch to show the
/// same template, short enough for one that no watch shows (made by the command line, so without
/// our label). Any thread.
class TemplateCache {
public:
    using Clock = std::chrono::steady_clock;
    static constexpr std::chrono::seconds unconfirmed_time = std::chrono::seconds(30);

    explicit TemplateCache(std::size_t most = 1U << 15U) : most_(most) {}

    /// Whether the template is known with this content.
    [[nodiscard]] bool holds(std::string_view name_space, std::string_view name,
                             const ContentDigest& digest, Clock::time_point now);
    /// Whether a template of that name is known, with any content.
    [[nodiscard]] bool knows(std::string_view name_space, std::string_view name,
                             Clock::time_point now);

    /// An answer of the API server said so.
    void learn(std::string_view name_space, std::string_view name, const ContentDigest& digest,
               Clock::time_point now);
    /// The watch said so.
    void confirm(std::string_view name_space, std::string_view name, const ContentDigest& digest);
    void erase(std::string_view name_space, std::string_view name);

    /// Around a list: what the watch had confirmed before and does not confirm in between is
    /// dropped.
    void list_begun();
    void list_complete();

    [[nodiscard]] std::size_t size() const;

private:
    struct Entry {
        std::string key;
        ContentDigest digest;
        bool confirmed = false;
        std::uint32_t list = 0;        ///< the list, or the watch after it, that confirmed it last
        Clock::time_point good_until;  ///< of an entry that is not confirmed
    };
    using Entries = std::list<Entry>;

    static std::string key_of(std::string_view name_space, std::string_view name);
    Entry* find(const std::string& key, Clock::time_point now);
    Entry& find_or_add(std::string key);
    void drop(Entries::iterator entry);

    mutable std::mutex mutex_;
    std::size_t most_;
    std::uint32_t list_ = 0;
    Entries entries_;                                                ///< used last first
    std::unordered_map<std::string_view, Entries::iterator> index_;  ///< keys live in the entries
};

}  // namespace drawbridge::server
