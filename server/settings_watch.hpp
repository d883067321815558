#pragma once
// The settings file, read again when it changes; a bad file keeps the old settings.

#include "server/metrics.hpp"
#include "server/settings_holder.hpp"

#include <functional>
#include <string>

namespace drawbridge::server {

/// Polled once a second on one thread; while nothing changes a poll is one `stat`.
class SettingsWatch {
public:
    using OnChange = std::function<void(const translate::Settings&)>;

    /// An empty path: the built-in settings, for ever.
    SettingsWatch(std::string path, SettingsHolder& holder, Metrics& metrics, OnChange on_change);

    /// Reads the file if it changed since the last look, or in any case where `anyway` (SIGHUP).
    void poll(bool anyway = false);

private:
    void take(translate::Settings settings);
    [[nodiscard]] std::string stamp() const;

    std::string path_;
    SettingsHolder& holder_;
    Metrics& metrics_;
    OnChange on_change_;
    std::string seen_;   ///< stamp of what was read last
    bool read_ = false;  ///< there was a first look, which is no reload
};

}  // namespace drawbridge::server
