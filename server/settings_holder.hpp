#pragma once
// The settings in effect, swapped as a whole under their readers.

#include "translate/settings.hpp"

#include <atomic>
#include <memory>
#include <utility>

namespace drawbridge::server {

/// Holds the current settings; null until a valid document was read. Any thread may read or
/// replace them.
class SettingsHolder {
public:
    [[nodiscard]] std::shared_ptr<const translate::Settings> current() const {
        return current_.load();
    }
    void replace(translate::Settings settings) {
        current_.store(std::make_shared<const translate::Settings>(std::move(settings)));
    }

private:
    std::atomic<std::shared_ptr<const translate::Settings>> current_;
};

}  // namespace drawbridge::server
