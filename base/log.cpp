#include "base/log.hpp"

#include "base/json.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <exception>
#include <mutex>
#include <unistd.h>
#include <utility>

namespace drawbridge::base {
namespace {

constexpr std::array<std::string_view, 4> level_names = {"debug", "info", "warn", "error"};

std::atomic<Level> lowest_level{Level::info};

struct Output {
    std::mutex mutex;
    LogSink sink;
};

// Never destroyed: threads may still log while the process ends.
Output& output() {
    static auto* const instance = new Output;
    return *instance;
}

void write_to_stderr(std::string_view line) {
    while (!line.empty()) {
        const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
        if (written < 0 && errno == EINTR) continue;
        if (written <= 0) return;
        line.remove_prefix(static_cast<std::size_t>(written));
    }
}

/// RFC 3339 in UTC with milliseconds.
std::string timestamp(std::chrono::system_clock::time_point time) {
    const auto seconds = std::chrono::floor<std::chrono::seconds>(time);
    const auto millis = std::chrono::floor<std::chrono::milliseconds>(time - seconds);
    return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03}Z",
                       fmt::gmtime(std::chrono::system_clock::to_time_t(seconds)), millis.count());
}

void append_value(JsonWriter& line, std::string_view value) {
    line.string(value);
}
void append_value(JsonWriter& line, std::int64_t value) {
    line.integer(value);
}
void append_value(JsonWriter& line, double value) {
    line.number(value);
}
void append_value(JsonWriter& line, bool value) {
    line.boolean(value);
}

}  // namespace

std::string_view level_name(Level level) {
    return level_names[static_cast<std::size_t>(level)];
}

std::optional<Level> level_from_name(std::string_view name) {
    for (std::size_t i = 0; i < level_names.size(); ++i) {
        if (level_names[i] == name) return static_cast<Level>(i);
    }
    return std::nullopt;
}

void set_log_sink(LogSink sink) {
    Output& out = output();
    const std::lock_guard lock(out.mutex);
    out.sink = std::move(sink);
}

void set_log_level(Level level) {
    lowest_level.store(level, std::memory_order_relaxed);
}

Level log_level() {
    return lowest_level.load(std::memory_order_relaxed);
}

bool log_enabled(Level level) {
    return level >= log_level();
}

std::string format_log_line(std::chrono::system_clock::time_point time, Level level,
                            std::string_view msg, std::span<const Field> fields) {
    JsonWriter line;
    line.begin_object();
    line.member("ts", timestamp(time)).member("level", level_name(level)).member("msg", msg);
    for (const Field& field : fields) {
        line.key(field.key);
        std::visit([&](auto value) { append_value(line, value); }, field.value);
    }
    line.end_object();
    return line.take() + '\n';
}

void log_event(Level level, std::string_view msg, std::span<const Field> fields) {
    if (!log_enabled(level)) return;
    const std::string line = format_log_line(std::chrono::system_clock::now(), level, msg, fields);
    Output& out = output();
    const std::lock_guard lock(out.mutex);
    if (!out.sink) return write_to_stderr(line);
    try {
        out.sink(line);
    } catch (const std::exception&) {
        write_to_stderr(line);
    }
}

void log_event(Level level, std::string_view msg, std::initializer_list<Field> fields) {
    log_event(level, msg, std::span<const Field>(fields.begin(), fields.size()));
}

}  // namespace drawbridge::base
