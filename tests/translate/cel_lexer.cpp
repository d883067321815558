#include "tests/translate/cel_lexer.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace drawbridge::oracle {
namespace {

void append_utf8(std::string& out, std::uint32_t code) {
    if (code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF))
        cel_wrong("an escape of no character");
    if (code < 0x80) {
        out.push_back(static_cast<char>(code));
        return;
    }
    const int more = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
    const std::uint32_t lead = more == 1 ? 0xC0 : more == 2 ? 0xE0 : 0xF0;
    out.push_back(static_cast<char>(lead | (code >> (6 * more))));
    for (int i = more - 1; i >= 0; --i)
        out.push_back(static_cast<char>(0x80 | ((code >> (6 * i)) & 0x3F)));
}

bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

bool is_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

bool is_word(char c) {
    return is_letter(c) || is_digit(c);
}

}  // namespace

void cel_wrong(const std::string& what) {
    throw std::runtime_error(what);
}

CelToken CelLexer::next() {
    while (at_ < text_.size() &&
           std::string_view(" \t\r\n").find(text_[at_]) != std::string_view::npos)
        ++at_;
    if (at_ == text_.size()) return {};
    const char c = text_[at_];
    if (c == '"' || c == '\'') return {CelKind::text, string(c)};
    if (is_digit(c)) return {CelKind::number, run(&is_digit)};
    if (is_letter(c)) return name();
    for (const std::string_view sign : {"&&", "||", "==", "!=", "<=", ">="}) {
        if (text_.substr(at_, 2) == sign) {
            at_ += 2;
            return {CelKind::sign, std::string(sign)};
        }
    }
    if (std::string_view("()[],.!<>?:+-").find(c) == std::string_view::npos)
        cel_wrong("a character of no token");
    ++at_;
    return {CelKind::sign, std::string(1, c)};
}

std::string CelLexer::run(bool (*belongs)(char)) {
    const auto start = at_;
    while (at_ < text_.size() && belongs(text_[at_]))
        ++at_;
    return std::string(text_.substr(start, at_ - start));
}

CelToken CelLexer::name() {
    auto word = run(&is_word);
    const bool prefix = word == "r" || word == "R" || word == "b" || word == "B";
    if (prefix && at_ < text_.size() && (text_[at_] == '"' || text_[at_] == '\'')) {
        cel_wrong("a raw or byte literal, which we do not write");
    }
    return {CelKind::name, std::move(word)};
}

std::string CelLexer::string(char quote) {
    if (text_.substr(at_, 3) == std::string(3, quote))
        cel_wrong("a literal in three quotes, which we do not write");
    std::string out;
    for (++at_; at_ < text_.size() && text_[at_] != quote; ++at_) {
        if (text_[at_] == '\n' || text_[at_] == '\r') cel_wrong("a line break in a literal");
        if (text_[at_] == '\\') {
            escape(out);
        } else {
            out.push_back(text_[at_]);
        }
    }
    if (at_ == text_.size()) cel_wrong("a literal without end");
    ++at_;
    return out;
}

void CelLexer::escape(std::string& out) {
    if (++at_ == text_.size()) cel_wrong("a literal without end");
    const char c = text_[at_];
    constexpr std::string_view plain = "abfnrtv\\\"'`?";
    constexpr std::string_view means = "\a\b\f\n\r\t\v\\\"'`?";
    if (const auto found = plain.find(c); found != plain.npos) {
        out.push_back(means[found]);
    } else if (c == 'x' || c == 'X') {
        append_utf8(out, digits(2, 16, at_ + 1));
    } else if (c == 'u' || c == 'U') {
        append_utf8(out, digits(c == 'u' ? 4 : 8, 16, at_ + 1));
    } else if (c >= '0' && c <= '3') {
        append_utf8(out, digits(3, 8, at_));
    } else {
        cel_wrong("an unknown escape");
    }
}

std::uint32_t CelLexer::digits(std::size_t count, int base, std::size_t from) {
    const auto text = std::string(text_.substr(std::min(from, text_.size()), count));
    const auto* allowed = base == 16 ? "0123456789abcdefABCDEF" : "01234567";
    if (text.size() != count || text.find_first_not_of(allowed) != text.npos)
        cel_wrong("a short escape");
    at_ = from + count - 1;
    return static_cast<std::uint32_t>(std::stoul(text, nullptr, base));
}

}  // namespace drawbridge::oracle
