#include "agent/folder_watch.hpp"

#include <array>
#include <cstring>
#include <sys/inotify.h>
#include <unistd.h>
#include <utility>

namespace drawbridge::agent {
namespace {

constexpr std::uint32_t file_events =
    IN_CREATE | IN_MOVED_TO | IN_MOVED_FROM | IN_DELETE | IN_MODIFY | IN_CLOSE_WRITE;
/// The folder lies elsewhere now, or is gone: another one may lie in its place.
constexpr std::uint32_t folder_events = IN_MOVE_SELF | IN_DELETE_SELF | IN_UNMOUNT | IN_IGNORED;
constexpr std::size_t buffer_bytes = 16384;

}  // namespace

InotifyFolderWatch::InotifyFolderWatch(std::string folder)
    : folder_(std::move(folder)), inotify_(::inotify_init1(IN_NONBLOCK | IN_CLOEXEC)) {}

void InotifyFolderWatch::take_event(std::uint32_t mask, const char* name,
                                    std::set<std::string>& names) {
    if ((mask & IN_Q_OVERFLOW) != 0) complete_ = false;
    if ((mask & folder_events) != 0) {
        ::inotify_rm_watch(inotify_.get(), watch_);
        watch_ = -1;
        complete_ = false;
    } else if (name[0] != '\0') {
        names.insert(name);
    }
}

std::optional<std::set<std::string>> InotifyFolderWatch::changed() {
    complete_ = watch_ >= 0;
    // Before the caller looks: what changes behind his look is told by the next call.
    if (watch_ < 0)
        watch_ = ::inotify_add_watch(inotify_.get(), folder_.c_str(),
                                     file_events | IN_MOVE_SELF | IN_DELETE_SELF | IN_ONLYDIR);
    std::set<std::string> names;
    alignas(inotify_event) std::array<char, buffer_bytes> buffer{};
    while (true) {
        const ssize_t got = ::read(inotify_.get(), buffer.data(), buffer.size());
        if (got <= 0) break;
        for (std::size_t at = 0; at < static_cast<std::size_t>(got);) {
            inotify_event event{};
            std::memcpy(&event, buffer.data() + at, sizeof event);
            const char* name = event.len > 0 ? buffer.data() + at + sizeof event : "";
            if (event.wd == watch_ || (event.mask & IN_Q_OVERFLOW) != 0)
                take_event(event.mask, name, names);
            at += sizeof event + event.len;
        }
    }
    if (!complete_) return std::nullopt;
    return names;
}

}  // namespace drawbridge::agent
