#include "base/json.hpp"

#include "base/text.hpp"
#include "base/throwing_allocator.hpp"

// RapidJSON asserts where a value is asked for as what it is not. Here every kind is looked at
// before, so that an assertion could only turn foreign input into the end of the process.
#define RAPIDJSON_ASSERT(x) static_cast<void>(x)
#if defined(__SSE2__)
#define RAPIDJSON_SSE2
#endif
#include <fmt/format.h>
#include <rapidjson/document.h>
#include <rapidjson/error/en.h>
#include <rapidjson/reader.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <iterator>
#include <utility>

namespace drawbridge::base {
namespace {

using Utf8 = rapidjson::UTF8<>;
using Pool = rapidjson::MemoryPoolAllocator<ThrowingAllocator>;
using Value = rapidjson::GenericValue<Utf8, Pool>;
using Document = rapidjson::GenericDocument<Utf8, Pool, ThrowingAllocator>;
using Reader = rapidjson::GenericReader<Utf8, Utf8, ThrowingAllocator>;

// The bytes are checked before (`find_no_json`), not by kParseValidateEncodingFlag: that flag
// switches the scan of strings by 16 bytes off and costs more than all the rest; and without the
// check NUL would be taken for the end, and 0x1A to 0x1F overlooked in long strings.
// Numbers come as text: the reader's own exact conversion counts the leading zeros of a zero
// (`0e101`), which is undefined.
// The reader recurses, which takes an eighth less time than its table of states; how deep, the
// guard bounds by `JsonLimits::max_depth`.
constexpr unsigned parse_flags =
    rapidjson::kParseInsituFlag | rapidjson::kParseNumbersAsStringsFlag;

// The scan by 16 bytes reads in aligned steps, up to 15 bytes behind the end of the text.
constexpr std::size_t padding = 16;

/// Bytes of a JSON pointer in an error.
constexpr std::size_t max_pointer = 1024;

std::string_view text_of(const Value& string) {
    return {string.GetString(), string.GetStringLength()};
}

/// Stands between the reader and the document: knows the place in the document at any time, and
/// ends the parse where a limit is passed or a name comes twice.
class Guard : public rapidjson::BaseReaderHandler<rapidjson::UTF8<>, Guard> {
public:
    Guard(Document& document, const JsonLimits& limits, bool check_strings)
        : document_(document), limits_(limits), check_strings_(check_strings) {
        open_.reserve(16);
        keys_.reserve(64);
    }

    // The names are those that RapidJSON calls.
    // NOLINTBEGIN(readability-identifier-naming)
    bool Null() { return begin_value() && document_.Null(); }
    bool Bool(bool b) { return begin_value() && document_.Bool(b); }
    bool Default() { return false; }  // other numbers than raw ones: never called
    bool RawNumber(const char* text, rapidjson::SizeType length, bool) {
        return begin_value() && number({text, length});
    }

    bool String(const char* text, rapidjson::SizeType length, bool copy) {
        return begin_value() && check_string({text, length}) &&
               document_.String(text, length, copy);
    }

    bool Key(const char* text, rapidjson::SizeType length, bool copy) {
        keys_.emplace_back(text, length);
        return check_string(keys_.back()) && document_.Key(text, length, copy);
    }

    bool StartObject() { return descend(false) && document_.StartObject(); }
    bool StartArray() { return descend(true) && document_.StartArray(); }

    bool EndObject(rapidjson::SizeType count) {
        std::string_view* const end = keys_.data() + keys_.size();
        if (const auto* twice = find_repeated(end - count, end); twice != nullptr) {
            const std::string_view name = *twice;
            keys_.push_back(name);
            return refuse("a member name that is there already", name.data(), pointer(true));
        }
        keys_.resize(open_.back().first_key);
        open_.pop_back();
        return document_.EndObject(count);
    }

    bool EndArray(rapidjson::SizeType count) {
        open_.pop_back();
        return document_.EndArray(count);
    }
    // NOLINTEND(readability-identifier-naming)

    /// Why this guard ended the parse; empty if it did not.
    [[nodiscard]] const std::string& reason() const { return reason_; }
    /// Where in the text it saw the reason; null if the reader's own place is right.
    [[nodiscard]] const char* place() const { return place_; }
    /// How many bytes the reader stands behind what was refused: it has taken a bracket already.
    [[nodiscard]] std::size_t bracket() const { return bracket_; }
    /// The JSON pointer it ended at; for errors of the grammar the last place known.
    [[nodiscard]] std::string path() const { return reason_.empty() ? pointer(false) : path_; }

private:
    struct Open {
        bool is_array;
        std::size_t elements;   ///< of an array, the one that is being read included
        std::size_t first_key;  ///< of an object, in `keys_`
    };

    /// A number as it is written: an integer where it is one and fits, else the nearest double.
    bool number(std::string_view text) {
        const char* const end = text.data() + text.size();
        if (text.find_first_of(".eE") == std::string_view::npos) {
            std::int64_t whole = 0;
            if (std::from_chars(text.data(), end, whole).ec == std::errc()) {
                return document_.Int64(whole);
            }
            std::uint64_t large = 0;
            const auto [stop, error] = std::from_chars(text.data(), end, large);
            if (error == std::errc() && stop == end) return document_.Uint64(large);
        }
        double real = 0;
        if (std::from_chars(text.data(), end, real).ec == std::errc::result_out_of_range) {
            real = std::strtod(std::string(text).c_str(), nullptr);  // tells large from tiny
            if (std::isinf(real)) return refuse("a number too large", text.data(), pointer(false));
        }
        return document_.Double(real);
    }

    bool refuse(std::string reason, const char* place, std::string path) {
        reason_ = std::move(reason);
        place_ = place;
        path_ = std::move(path);
        return false;
    }

    bool begin_value() {
        if (++values_ > limits_.max_values) {
            return refuse(fmt::format("more than {} values", limits_.max_values), nullptr,
                          pointer(true));
        }
        if (!open_.empty()) ++open_.back().elements;
        return true;
    }

    bool descend(bool is_array) {
        bracket_ = 1;
        if (!begin_value()) return false;
        if (open_.size() == limits_.max_depth) {
            return refuse(
                fmt::format("more than {} arrays and objects inside each other", limits_.max_depth),
                nullptr, pointer(true));
        }
        bracket_ = 0;
        open_.push_back({is_array, 0, keys_.size()});
        return true;
    }

    bool check_string(std::string_view text) {
        if (!check_strings_ || is_utf8(text)) return true;
        return refuse("half of a surrogate pair", text.data(), pointer(true));
    }

    /// The JSON pointer of the value that is being read. Whether the last element of an innermost
    /// array is still being read or complete is known only to the caller. Ends early, at an outer
    /// value, before a name that would make it longer than a message should be.
    [[nodiscard]] std::string pointer(bool inside_last_element) const {
        std::string out;
        for (std::size_t i = 0; i < open_.size(); ++i) {
            const bool innermost = i + 1 == open_.size();
            const std::size_t keys_end = innermost ? keys_.size() : open_[i + 1].first_key;
            if (open_[i].is_array) {
                if (open_[i].elements == 0 || (innermost && !inside_last_element)) break;
                out += fmt::format("/{}", open_[i].elements - 1);
            } else if (keys_end > open_[i].first_key) {
                const std::string_view name = keys_[keys_end - 1];
                if (out.size() + name.size() > max_pointer) break;
                out.append(1, '/').append(escape_pointer(name));
            }
        }
        return out;
    }

    Document& document_;
    const JsonLimits& limits_;
    std::size_t values_ = 0;
    bool check_strings_;
    std::vector<Open> open_;
    std::vector<std::string_view> keys_;  ///< of all open objects, the innermost last
    std::string reason_;
    const char* place_ = nullptr;
    std::size_t bracket_ = 0;
    std::string path_;
};

tl::unexpected<Error> refuse(std::string_view reason, std::size_t offset, std::string path = {}) {
    return fail(ErrorKind::invalid_input, fmt::format("JSON, byte {}: {}", offset, reason),
                std::move(path));
}

const Value& as_value(const void* value) {
    return *static_cast<const Value*>(value);
}

void append_number(std::string& out, const Value& value) {
    if (value.IsInt64()) {
        fmt::format_to(std::back_inserter(out), "{}", value.GetInt64());
    } else if (value.IsUint64()) {
        fmt::format_to(std::back_inserter(out), "{}", value.GetUint64());
    } else {
        const std::size_t start = out.size();
        append_go_number(out, value.GetDouble());
        // What was no integer must not be read back as one.
        const bool looks_whole = out.find_first_of(".e", start) == std::string::npos;
        if (looks_whole && std::fabs(value.GetDouble()) < 0x1p64) out += ".0";
    }
}

// Recursion is bounded: no document is deeper than the limit it was parsed with.
void append_value(std::string& out, const Value& value) {
    switch (value.GetType()) {
        case rapidjson::kNullType:
            out += "null";
            break;
        case rapidjson::kFalseType:
            out += "false";
            break;
        case rapidjson::kTrueType:
            out += "true";
            break;
        case rapidjson::kNumberType:
            append_number(out, value);
            break;
        case rapidjson::kStringType:
            append_json_string(out, text_of(value));
            break;
        case rapidjson::kArrayType: {
            char before = '[';
            for (auto it = value.Begin(); it != value.End(); ++it) {
                out += std::exchange(before, ',');
                append_value(out, *it);
            }
            out += before == '[' ? "[]" : "]";
            break;
        }
        case rapidjson::kObjectType: {
            char before = '{';
            for (auto it = value.MemberBegin(); it != value.MemberEnd(); ++it) {
                out += std::exchange(before, ',');
                append_json_string(out, text_of(it->name));
                out += ':';
                append_value(out, it->value);
            }
            out += before == '{' ? "{}" : "}";
            break;
        }
    }
}

}  // namespace

/// The text is parsed in place: strings of the document lie in it.
struct JsonDocument::State {
    // Few and fitting allocations: values seldom need more memory than twice their text.
    explicit State(std::string source)
        : text(std::move(source)),
          pool(std::clamp<std::size_t>(2 * text.size(), 1U << 8U, 1U << 20U)),
          document(&pool, std::clamp<std::size_t>(text.size() / 4, 1U << 10U, 1U << 18U)) {}

    std::string text;
    Pool pool;
    Document document;
};

JsonDocument::JsonDocument() = default;
JsonDocument::JsonDocument(JsonDocument&&) noexcept = default;
JsonDocument& JsonDocument::operator=(JsonDocument&&) noexcept = default;
JsonDocument::~JsonDocument() = default;

JsonView JsonDocument::root() const {
    return state_ ? JsonView(static_cast<const Value*>(&state_->document)) : JsonView();
}

Result<JsonDocument> parse_json(std::string text, const JsonLimits& limits) {
    if (text.size() > limits.max_bytes) {
        return fail(ErrorKind::invalid_input, fmt::format("JSON: {} bytes, at most {} are allowed",
                                                          text.size(), limits.max_bytes));
    }
    if (const std::size_t at = find_no_json(text); at < text.size()) {
        const bool is_control = static_cast<unsigned char>(text[at]) < 0x20;
        return refuse(is_control ? "a control character" : "no valid UTF-8", at);
    }
    // Halves of surrogate pairs can come in by escapes only.
    const bool check_strings =
        text.find("\\ud") != std::string::npos || text.find("\\uD") != std::string::npos;
    text.append(padding, '\0');

    auto state = std::make_unique<JsonDocument::State>(std::move(text));
    Guard guard(state->document, limits, check_strings);
    rapidjson::InsituStringStream stream(state->text.data());
    Reader reader;
    const auto read = [&](Document&) {
        return !reader.Parse<parse_flags>(stream, guard).IsError();
    };
    state->document.Populate(read);
    if (reader.HasParseError()) {
        const std::string_view reason =
            guard.reason().empty() ? rapidjson::GetParseError_En(reader.GetParseErrorCode())
                                   : std::string_view(guard.reason());
        const std::size_t offset =
            guard.place() != nullptr ? static_cast<std::size_t>(guard.place() - state->text.data())
                                     : reader.GetErrorOffset() - guard.bracket();
        return refuse(reason, offset, guard.path());
    }
    JsonDocument document;
    document.state_ = std::move(state);
    return document;
}

JsonKind JsonView::kind() const {
    // In the order of rapidjson::Type.
    constexpr std::array kinds = {JsonKind::null,   JsonKind::boolean, JsonKind::boolean,
                                  JsonKind::object, JsonKind::array,   JsonKind::string,
                                  JsonKind::number};
    return value_ == nullptr ? JsonKind::missing : kinds[as_value(value_).GetType()];
}

bool JsonView::is_absent() const {
    return value_ == nullptr || as_value(value_).IsNull();
}

JsonView JsonView::operator[](std::string_view key) const {
    if (!is_object()) return {};
    const Value& object = as_value(value_);
    for (auto it = object.MemberBegin(); it != object.MemberEnd(); ++it) {
        if (text_of(it->name) == key) return JsonView(&it->value);
    }
    return {};
}

std::size_t JsonView::size() const {
    return is_array() ? as_value(value_).Size() : 0;
}

JsonView JsonView::at(std::size_t index) const {
    return index < size() ? JsonView(as_value(value_).Begin() + index) : JsonView();
}

std::vector<JsonMember> JsonView::members() const {
    std::vector<JsonMember> out;
    if (!is_object()) return out;
    const Value& object = as_value(value_);
    out.reserve(object.MemberCount());
    for (auto it = object.MemberBegin(); it != object.MemberEnd(); ++it) {
        out.push_back({text_of(it->name), JsonView(&it->value)});
    }
    return out;
}

std::optional<std::string_view> JsonView::as_string() const {
    if (!is_string()) return std::nullopt;
    return text_of(as_value(value_));
}

std::optional<bool> JsonView::as_bool() const {
    if (kind() != JsonKind::boolean) return std::nullopt;
    return as_value(value_).GetBool();
}

std::optional<std::int64_t> JsonView::as_int() const {
    if (value_ == nullptr || !as_value(value_).IsInt64()) return std::nullopt;
    return as_value(value_).GetInt64();
}

std::string_view JsonView::string_or(std::string_view fallback) const {
    return as_string().value_or(fallback);
}

std::optional<std::string> JsonView::scalar_text() const {
    if (is_string()) return std::string(text_of(as_value(value_)));
    if (kind() != JsonKind::number) return std::nullopt;
    const Value& number = as_value(value_);
    if (number.IsInt64()) return std::to_string(number.GetInt64());
    std::string out;
    append_go_number(out, number.GetDouble());
    return out;
}

std::string JsonView::to_json() const {
    std::string out;
    if (value_ != nullptr) append_value(out, as_value(value_));
    return out;
}

}  // namespace drawbridge::base
