#pragma once
// Reading and writing JSON of foreign origin, within limits; the only door to RapidJSON.

#include "base/result.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace drawbridge::base {

/// Bounds of one document. The defaults are those of an admission review (style.md Part 4).
struct JsonLimits {
    std::size_t max_bytes = 7U << 20U;
    std::size_t max_depth = 128;  ///< arrays and objects inside each other
    /// A value of one digit takes 16 bytes, so the size of the text alone bounds little.
    std::size_t max_values = 1'000'000;
};

enum class JsonKind { missing, null, boolean, number, string, array, object };

struct JsonMember;

/// A place in a parsed document; cheap to copy, valid as long as its `JsonDocument`. A place that
/// does not exist is a view too (`missing`), so that look-ups chain without checks.
class JsonView {
public:
    JsonView() = default;
    explicit JsonView(const void* value) : value_(value) {}

    [[nodiscard]] JsonKind kind() const;
    [[nodiscard]] bool is_missing() const { return value_ == nullptr; }
    /// Missing or null, which Kubernetes reads alike.
    [[nodiscard]] bool is_absent() const;
    [[nodiscard]] bool is_string() const { return kind() == JsonKind::string; }
    [[nodiscard]] bool is_array() const { return kind() == JsonKind::array; }
    [[nodiscard]] bool is_object() const { return kind() == JsonKind::object; }

    /// The member of an object; missing where this is no object or has no such member.
    [[nodiscard]] JsonView operator[](std::string_view key) const;
    /// The place at a JSON pointer (RFC 6901), missing if there is none.
    [[nodiscard]] JsonView find(std::string_view pointer) const;

    /// Elements of an array; nothing for other kinds.
    [[nodiscard]] std::size_t size() const;
    [[nodiscard]] JsonView at(std::size_t index) const;
    /// Members of an object in the order of the text; nothing for other kinds.
    [[nodiscard]] std::vector<JsonMember> members() const;

    [[nodiscard]] std::optional<std::string_view> as_string() const;
    [[nodiscard]] std::optional<bool> as_bool() const;
    /// Only a number without fraction that fits.
    [[nodiscard]] std::optional<std::int64_t> as_int() const;
    [[nodiscard]] std::string_view string_or(std::string_view fallback) const;
    /// A string as it is; a number as Kubernetes' clients would write it (Go's shortest form);
    /// nullopt for the rest.
    [[nodiscard]] std::optional<std::string> scalar_text() const;

    /// This place as compact JSON text. Numbers that fit neither 64-bit integer nor double exactly
    /// may change form.
    [[nodiscard]] std::string to_json() const;

private:
    const void* value_ = nullptr;
};

struct JsonMember {
    std::string_view key;
    JsonView value;
};

/// A parsed document; owns all text that its views show.
class JsonDocument {
public:
    JsonDocument();
    JsonDocument(JsonDocument&&) noexcept;
    JsonDocument& operator=(JsonDocument&&) noexcept;
    ~JsonDocument();

    [[nodiscard]] JsonView root() const;

private:
    friend Result<JsonDocument> parse_json(std::string text, const JsonLimits& limits);
    struct State;
    std::unique_ptr<State> state_;
};

/// Parses one JSON value (RFC 8259). Refused, each with the place: over the limits, invalid UTF-8,
/// duplicate member names, anything behind the value but white space.
[[nodiscard]] Result<JsonDocument> parse_json(std::string text, const JsonLimits& limits = {});

/// Whether two places hold the same value, whatever the order of members.
[[nodiscard]] bool same_value(JsonView left, JsonView right);

/// Writes compact JSON into one string. The caller keeps the order of calls right; a wrong order is
/// our own mistake.
class JsonWriter {
public:
    JsonWriter& begin_object();
    JsonWriter& end_object();
    JsonWriter& begin_array();
    JsonWriter& end_array();
    JsonWriter& key(std::string_view name);
    JsonWriter& string(std::string_view text);
    JsonWriter& integer(std::int64_t value);
    JsonWriter& number(double value);
    JsonWriter& boolean(bool value);
    JsonWriter& null();
    /// Text that is JSON already.
    JsonWriter& raw(std::string_view json);
    /// `key` and `string` in one.
    JsonWriter& member(std::string_view name, std::string_view text);

    [[nodiscard]] const std::string& text() const { return text_; }
    [[nodiscard]] std::string take() { return std::move(text_); }

private:
    void separate();
    std::string text_;
    bool first_ = true;  ///< nothing written yet in the innermost array or object
    bool after_key_ = false;
};

/// Appends `text` as a quoted JSON string; invalid UTF-8 becomes U+FFFD.
void append_json_string(std::string& out, std::string_view text);

/// `text` made of JSON text with two-space indentation, member order and every scalar's bytes kept.
[[nodiscard]] std::string indent_json(std::string_view json, std::size_t depth = 0);

/// One reference token of a JSON pointer, `~` and `/` escaped (RFC 6901).
[[nodiscard]] std::string escape_pointer(std::string_view token);

}  // namespace drawbridge::base
