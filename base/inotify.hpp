#pragma once
// The queue of an inotify instance.

#include <functional>
#include <string_view>
#include <sys/inotify.h>

namespace drawbridge::base {

/// An event, and the name of the file in a watched folder that it is about; empty where it is about
/// what is watched itself.
using TakeInotify = std::function<void(const inotify_event& event, std::string_view name)>;

/// Takes all events that wait in a queue that does not block. False where it could not be read to
/// its end.
bool take_inotify_events(int inotify, const TakeInotify& take);

}  // namespace drawbridge::base
