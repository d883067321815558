#pragma once
// Cuts a CEL expression into tokens; string literals come out as the text they mean.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace drawbridge::oracle {

enum class CelKind { end, name, number, text, sign };

struct CelToken {
    CelKind kind = CelKind::end;
    std::string text;
};

/// Throws std::runtime_error where the text is no expression of the kind that we write.
class CelLexer {
public:
    explicit CelLexer(std::string_view text) : text_(text) {}

    CelToken next();

private:
    std::string run(bool (*belongs)(char));
    CelToken name();
    std::string string(char quote);
    void escape(std::string& out);
    std::uint32_t digits(std::size_t count, int base, std::size_t from);

    std::string_view text_;
    std::size_t at_ = 0;
};

[[noreturn]] void cel_wrong(const std::string& what);

}  // namespace drawbridge::oracle
