#pragma once
// The settings in effect, swapped as a whole under their readers.

#include "server/snapshot.hpp"
#include "translate/settings.hpp"

#include <memory>
#include <utility>

namespace drawbridge::server {

/// Holds the current settings; null until a valid document was read. Any thread may read or
/// replace them.
class SettingsHolder {
public:
    [[nodiscard]] std::shared_ptr<const translate::Settings> current() const {
        return snapshot_.current();
    }
    void replace(translate::Settings settings) {
        snapshot_.replace(std::make_shared<const translate::Settings>(std::move(settings)));
    }

private:
    Snapshot<const translate::Settings> snapshot_;
};

}  // namespace drawbridge::server
