#include "agent/folder_watch.hpp"

#include "base/inotify.hpp"

#include <cstdint>
#include <string_view>
#include <utility>

namespace drawbridge::agent {
namespace {

constexpr std::uint32_t file_events =
    IN_CREATE | IN_MOVED_TO | IN_MOVED_FROM | IN_DELETE | IN_MODIFY | IN_CLOSE_WRITE;
/// It may be back in its place, and who looked meanwhile has missed all files.
constexpr std::uint32_t folder_events = IN_MOVE_SELF;

}  // namespace

/// Watches the folder that the path leads to now, and says whether that is the one watched so far.
/// Nothing need have happened to that one: a folder above it may have been renamed, a link changed,
/// another file system mounted. To ask for the same watch again gives it again. IN_MASK_ADD, since
/// otherwise the kernel takes all events out of the mask before it puts them back.
bool InotifyFolderWatch::follow_path() {
    if (inotify_.get() < 0) inotify_.reset(::inotify_init1(IN_NONBLOCK | IN_CLOEXEC));
    const int now = ::inotify_add_watch(inotify_.get(), folder_.c_str(),
                                        file_events | folder_events | IN_ONLYDIR | IN_MASK_ADD);
    const int before = std::exchange(watch_, now);
    if (now >= 0 && now == before) return true;
    if (before >= 0) ::inotify_rm_watch(inotify_.get(), before);
    return false;
}

/// False where the kernel has told less than has happened.
bool InotifyFolderWatch::take_events(std::set<std::string>& names) {
    bool is_complete = true;
    const bool is_read = base::take_inotify_events(
        inotify_.get(), [&](const inotify_event& event, std::string_view name) {
            const bool is_own = event.wd == watch_;
            if ((event.mask & IN_Q_OVERFLOW) != 0) is_complete = false;
            if (is_own && (event.mask & folder_events) != 0) is_complete = false;
            if (is_own && !name.empty()) names.emplace(name);
        });
    return is_complete && is_read;
}

std::optional<std::set<std::string>> InotifyFolderWatch::changed() {
    // Before the caller looks: what changes behind his look is told by the next call.
    const bool is_same = follow_path();
    std::set<std::string> names;
    if (!take_events(names) || !is_same) return std::nullopt;
    return names;
}

}  // namespace drawbridge::agent
