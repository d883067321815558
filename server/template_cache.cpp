#include "server/template_cache.hpp"

#include "base/hash.hpp"
#include "kube/quantity.hpp"

#include <algorithm>
#include <utility>

namespace drawbridge::server {

ContentDigest content_digest(const kube::ClaimSpec& spec) {
    kube::ClaimSpec plain = spec;
    for (kube::DeviceRequest& request : plain.requests) {
        for (kube::DeviceAlternative& alternative : request.alternatives) {
            for (auto& [name, amount] : alternative.capacity) {
                // An API server writes 4096Mi as 4Gi.
                const auto quantity = kube::parse_quantity(amount);
                const auto whole = quantity ? quantity->whole() : std::nullopt;
                if (whole) amount = std::to_string(*whole);
            }
        }
    }
    const base::Sha256 hash = base::sha256(kube::to_json(plain));
    ContentDigest digest{};
    std::copy_n(hash.begin(), digest.size(), digest.begin());
    return digest;
}

std::string TemplateCache::key_of(std::string_view name_space, std::string_view name) {
    std::string key;
    key.reserve(name_space.size() + 1 + name.size());
    key.append(name_space).append("/").append(name);
    return key;
}

void TemplateCache::drop(Entries::iterator entry) {
    index_.erase(entry->key);
    entries_.erase(entry);
}

TemplateCache::Entry* TemplateCache::find(const std::string& key, Clock::time_point now) {
    const auto at = index_.find(key);
    if (at == index_.end()) return nullptr;
    const auto entry = at->second;
    if (!entry->confirmed && now >= entry->good_until) {
        drop(entry);
        return nullptr;
    }
    entries_.splice(entries_.begin(), entries_, entry);
    return &*entry;
}

TemplateCache::Entry& TemplateCache::find_or_add(std::string key) {
    if (const auto at = index_.find(key); at != index_.end()) {
        entries_.splice(entries_.begin(), entries_, at->second);
        return entries_.front();
    }
    if (entries_.size() >= most_) drop(std::prev(entries_.end()));
    entries_.push_front({.key = std::move(key), .digest = {}, .good_until = {}});
    index_.emplace(entries_.front().key, entries_.begin());
    return entries_.front();
}

bool TemplateCache::holds(std::string_view name_space, std::string_view name,
                          const ContentDigest& digest, Clock::time_point now) {
    const std::string key = key_of(name_space, name);
    const std::lock_guard lock(mutex_);
    const Entry* entry = find(key, now);
    return entry != nullptr && entry->digest == digest;
}

bool TemplateCache::knows(std::string_view name_space, std::string_view name,
                          Clock::time_point now) {
    const std::string key = key_of(name_space, name);
    const std::lock_guard lock(mutex_);
    return find(key, now) != nullptr;
}

void TemplateCache::learn(std::string_view name_space, std::string_view name,
                          const ContentDigest& digest, Clock::time_point now) {
    std::string key = key_of(name_space, name);
    const std::lock_guard lock(mutex_);
    Entry& entry = find_or_add(std::move(key));
    if (entry.confirmed && entry.digest == digest) return;
    entry.digest = digest;
    entry.confirmed = false;
    entry.good_until = now + unconfirmed_time;
}

void TemplateCache::confirm(std::string_view name_space, std::string_view name,
                            const ContentDigest& digest) {
    std::string key = key_of(name_space, name);
    const std::lock_guard lock(mutex_);
    Entry& entry = find_or_add(std::move(key));
    entry.digest = digest;
    entry.confirmed = true;
    entry.list = list_;
}

void TemplateCache::erase(std::string_view name_space, std::string_view name) {
    const std::string key = key_of(name_space, name);
    const std::lock_guard lock(mutex_);
    if (const auto at = index_.find(key); at != index_.end()) drop(at->second);
}

void TemplateCache::list_begun() {
    const std::lock_guard lock(mutex_);
    ++list_;
}

void TemplateCache::list_complete() {
    const std::lock_guard lock(mutex_);
    for (auto entry = entries_.begin(); entry != entries_.end();) {
        const auto next = std::next(entry);
        if (entry->confirmed && entry->list != list_) drop(entry);
        entry = next;
    }
}

std::size_t TemplateCache::size() const {
    const std::lock_guard lock(mutex_);
    return entries_.size();
}

}  // namespace drawbridge::server
