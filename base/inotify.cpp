#include "base/inotify.hpp"

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <unistd.h>

namespace drawbridge::base {

bool take_inotify_events(int inotify, const TakeInotify& take) {
    constexpr std::size_t buffer_bytes = 16384;
    alignas(inotify_event) std::array<char, buffer_bytes> buffer{};
    while (true) {
        const ssize_t got = ::read(inotify, buffer.data(), buffer.size());
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return got < 0 && errno == EAGAIN;
        for (std::size_t at = 0; at < static_cast<std::size_t>(got);) {
            inotify_event event{};
            std::memcpy(&event, buffer.data() + at, sizeof event);
            at += sizeof event;
            // The name is filled up with zeros.
            take(event, event.len > 0 ? std::string_view(buffer.data() + at) : std::string_view());
            at += event.len;
        }
    }
}

}  // namespace drawbridge::base
