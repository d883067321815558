#include "server/settings_watch.hpp"

#include "base/atomic_file.hpp"
#include "base/log.hpp"
#include "translate/cluster_facts.hpp"

#include <fmt/format.h>

#include <sys/stat.h>
#include <utility>

namespace drawbridge::server {
namespace {

constexpr std::size_t max_settings = 4U << 20U;

base::Result<translate::Settings> read(const std::string& path) {
    const auto text = base::read_regular_file(path, max_settings);
    if (!text) return tl::unexpected(text.error());
    return translate::read_settings_text(*text);
}

}  // namespace

SettingsWatch::SettingsWatch(std::string path, SettingsHolder& holder, Metrics& metrics,
                             OnChange on_change)
    : path_(std::move(path)), holder_(holder), metrics_(metrics), on_change_(std::move(on_change)) {
    if (path_.empty()) holder_.replace(translate::Settings{});
}

/// What changes when the file is replaced, rewritten, or reached through another link.
std::string SettingsWatch::stamp() const {
    struct stat facts {};
    if (::stat(path_.c_str(), &facts) != 0) return "missing";
    return fmt::format("{}:{}:{}:{}.{}:{}.{}", facts.st_dev, facts.st_ino, facts.st_size,
                       facts.st_mtim.tv_sec, facts.st_mtim.tv_nsec, facts.st_ctim.tv_sec,
                       facts.st_ctim.tv_nsec);
}

void SettingsWatch::take(translate::Settings settings) {
    const auto current = holder_.current();
    const bool changed = !current || !(*current == settings);
    if (changed) {
        holder_.replace(settings);
        if (on_change_) on_change_(settings);
    }
    base::log_event(base::Level::info, "settings",
                    {{"file", path_}, {"profile", settings.profile}, {"changed", changed}});
}

void SettingsWatch::poll(bool anyway) {
    if (path_.empty()) return;
    std::string now = stamp();
    if (now == seen_ && !anyway) return;
    seen_ = std::move(now);
    auto settings = read(path_);
    const bool first = !std::exchange(read_, true);
    if (settings) {
        if (!first) ++metrics_.settings_reloads.success;
        take(std::move(*settings));
        return;
    }
    ++metrics_.settings_reloads.failure;
    base::log_event(base::Level::warn, "settings",
                    {{"file", path_},
                     {"reason", settings.error().message},
                     {"place", settings.error().path},
                     {"kept", holder_.current() != nullptr}});
}

}  // namespace drawbridge::server
