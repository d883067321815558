#pragma once
// The log: one JSON object a line, fixed keys first, user text only ever as a value.

#include <chrono>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>

namespace drawbridge::base {

/// error: someone must act; warn: degraded but correct; info: state change; debug: per step.
enum class Level { debug, info, warn, error };

/// `debug`, `info`, `warn` or `error`.
[[nodiscard]] std::string_view level_name(Level level);
/// The level of that name; nullopt if there is none.
[[nodiscard]] std::optional<Level> level_from_name(std::string_view name);

/// One key of a line. Keys are literals of ours, never user text; the view must outlive the call
/// only.
struct Field {
    std::string_view key;
    std::variant<std::string_view, std::int64_t, double, bool> value;
};

/// Takes one whole line, line end included; called by one thread at a time.
using LogSink = std::function<void(std::string_view)>;

/// Where lines go from now on; an empty sink means standard error, one write(2) a line. Returns
/// only after the sink before it was called for the last time.
void set_log_sink(LogSink sink);

/// Lines below `level` are dropped from now on; `info` at first.
void set_log_level(Level level);
[[nodiscard]] Level log_level();
/// Whether a line of that level is written; to spare the making of its fields.
[[nodiscard]] bool log_enabled(Level level);

/// Writes one line if the level allows: `ts`, `level`, `msg`, then the fields in their order. A
/// sink that throws is passed by, the line goes to standard error: the log ends nothing.
void log_event(Level level, std::string_view msg, std::span<const Field> fields);
void log_event(Level level, std::string_view msg, std::initializer_list<Field> fields = {});

/// The line as it is written, for the given time.
[[nodiscard]] std::string format_log_line(std::chrono::system_clock::time_point time, Level level,
                                          std::string_view msg, std::span<const Field> fields);

}  // namespace drawbridge::base
