#include "translate/code.hpp"

#include <algorithm>
#include <array>

namespace drawbridge::translate {

namespace {

constexpr std::array table = {
#define DRAWBRIDGE_CODE(id, name, severity, reason, ...) \
    CodeInfo{Code::id, name, Severity::severity, Reason::reason, __VA_ARGS__},
#include "translate/codes.inc"
#undef DRAWBRIDGE_CODE
};

static_assert(std::ranges::is_sorted(table, {}, &CodeInfo::name),
              "codes.inc is in the order of the names");

}  // namespace

std::span<const CodeInfo> all_codes() {
    return table;
}

const CodeInfo& info(Code code) {
    return table[static_cast<std::size_t>(code)];
}

std::string_view name(Code code) {
    return info(code).name;
}

std::string_view name(Severity severity) {
    switch (severity) {
        case Severity::note:
            return "note";
        case Severity::warning:
            return "warning";
        case Severity::denied:
            return "denied";
    }
    return "";
}

std::optional<Code> code_of(std::string_view name) {
    const auto found = std::ranges::lower_bound(table, name, {}, &CodeInfo::name);
    if (found == table.end() || found->name != name) return std::nullopt;
    return found->code;
}

}  // namespace drawbridge::translate
