#pragma once
// What a watch does next: list, watch, resume, wait, list anew. Decides only; the watcher acts.

#include <chrono>
#include <string>

namespace drawbridge::kube::client {

/// What has happened since the last action.
enum class WatchStep {
    page_listed,      ///< one page of the list came
    list_failed,      ///< a page did not come, for any reason; an expired continue token is one
    stream_opened,    ///< the watch was accepted
    changed,          ///< an object or a bookmark came
    version_expired,  ///< 410, as an answer or inside the stream: our resourceVersion is too old
    stream_failed,    ///< the watch was refused, or the stream held something else than it should
    stream_ended,     ///< closed by the server, by the network, or cut for being silent too long
    waited            ///< the wait is over
};

struct WatchEvent {
    WatchStep step = WatchStep::waited;
    std::string resource_version = {};  ///< of the list or the change; may be empty
    std::string continue_token = {};    ///< of a page; empty: it was the last
    bool long_lived = false;  ///< of an ended stream: it was open long enough to be healthy
};

enum class WatchDo { list, watch, read, wait };

struct WatchAction {
    WatchDo what = WatchDo::list;
    std::string resource_version = {};  ///< where the watch begins
    std::string continue_token = {};    ///< where the list goes on; empty: a new list begins
    std::chrono::milliseconds delay{0};
};

/// The rules of list and watch (Kubernetes API concepts, "Efficient detection of changes"): a list
/// gives the resourceVersion the watch begins at; a stream that ends is resumed at the last one
/// seen; 410 means to list anew. Failures in a row wait longer and longer; only a change or a
/// long-lived stream ends the row, so that a server which accepts everything and delivers nothing
/// is not asked in a tight loop.
class WatchState {
public:
    /// The first action.
    [[nodiscard]] WatchAction start();
    /// The next action; `random` in [0, 1) spreads waits.
    [[nodiscard]] WatchAction resume(const WatchEvent& event, double random);

private:
    [[nodiscard]] WatchAction after_wait(WatchDo next, double random);
    [[nodiscard]] WatchAction next_action(WatchDo next) const;
    [[nodiscard]] WatchAction page_listed(const WatchEvent& event);

    std::string resource_version_;
    WatchDo pending_ = WatchDo::list;  ///< what follows the wait
    int failures_ = 0;
};

}  // namespace drawbridge::kube::client
