#include "kube/client/watch_state.hpp"

#include "kube/client/backoff.hpp"

namespace drawbridge::kube::client {

WatchAction WatchState::start() {
    return next_action(WatchDo::list);
}

WatchAction WatchState::resume(const WatchEvent& event, double random) {
    switch (event.step) {
        case WatchStep::page_listed:
            return page_listed(event);
        case WatchStep::stream_opened:
            return {.what = WatchDo::read};
        case WatchStep::changed:
            failures_ = 0;
            if (!event.resource_version.empty()) resource_version_ = event.resource_version;
            return {.what = WatchDo::read};
        case WatchStep::list_failed:
            return after_wait(WatchDo::list, random);
        case WatchStep::version_expired:
            // The first time this is the normal end of an old version, and listing at once is
            // right.
            if (failures_ > 0) return after_wait(WatchDo::list, random);
            failures_ = 1;
            return next_action(WatchDo::list);
        case WatchStep::stream_failed:
            return after_wait(WatchDo::watch, random);
        case WatchStep::stream_ended:
            if (!event.long_lived) return after_wait(WatchDo::watch, random);
            failures_ = 0;
            return next_action(WatchDo::watch);
        case WatchStep::waited:
            break;
    }
    return next_action(pending_);
}

WatchAction WatchState::page_listed(const WatchEvent& event) {
    if (!event.continue_token.empty()) {
        return {.what = WatchDo::list, .continue_token = event.continue_token};
    }
    resource_version_ = event.resource_version;
    return next_action(WatchDo::watch);
}

WatchAction WatchState::after_wait(WatchDo next, double random) {
    pending_ = next;
    ++failures_;
    return {.what = WatchDo::wait, .delay = backoff(failures_, random)};
}

WatchAction WatchState::next_action(WatchDo next) const {
    if (next == WatchDo::list) return {.what = WatchDo::list};
    return {.what = WatchDo::watch, .resource_version = resource_version_};
}

}  // namespace drawbridge::kube::client
