#include "agent/api/api_text.hpp"

#include "base/text.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <ctime>

namespace drawbridge::agent {

std::string api_time(std::int64_t unix_seconds) {
    return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}",
                       fmt::gmtime(static_cast<std::time_t>(unix_seconds)));
}

std::string api_micro_time(std::chrono::system_clock::time_point time) {
    using std::chrono::microseconds;
    const auto micros = std::chrono::floor<microseconds>(time).time_since_epoch();
    const auto seconds = std::chrono::floor<std::chrono::seconds>(micros);
    return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:06}Z",
                       fmt::gmtime(static_cast<std::time_t>(seconds.count())),
                       (micros - seconds).count());
}

std::string bounded_text(std::string_view text, std::size_t most) {
    std::string out;
    while (!text.empty()) {
        const std::size_t length = base::utf8_sequence_length(text);
        const std::string_view next = length == 0 ? "?" : text.substr(0, length);
        if (out.size() + next.size() > most) break;
        out += next;
        text.remove_prefix(length == 0 ? 1 : length);
    }
    return out;
}

}  // namespace drawbridge::agent
