#include "server/inflight.hpp"

#include "base/json.hpp"

namespace drawbridge::server {

Inflight::Entry::Entry(Inflight& registry, std::string_view uid, std::string_view name_space,
                       Time since)
    : registry_(registry), uid_(uid), name_space_(name_space), since_(since) {
    const std::lock_guard lock(registry_.mutex_);
    place_ = registry_.entries_.insert(registry_.entries_.end(), this);
}

Inflight::Entry::~Entry() {
    const std::lock_guard lock(registry_.mutex_);
    registry_.entries_.erase(place_);
}

std::string Inflight::to_json(Time now) const {
    base::JsonWriter json;
    json.begin_object().key("items").begin_array();
    const std::lock_guard lock(mutex_);
    for (const Entry* entry : entries_) {
        const auto age = std::chrono::duration_cast<std::chrono::milliseconds>(now - entry->since_);
        json.begin_object().member("uid", entry->uid_).member("namespace", entry->name_space_);
        json.key("millis").integer(age.count()).end_object();
    }
    return json.end_array().end_object().take();
}

}  // namespace drawbridge::server
