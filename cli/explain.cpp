#include "cli/explain.hpp"

#include "base/text.hpp"
#include "translate/code.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace drawbridge::cli {

namespace {

using translate::CodeInfo;
using translate::Severity;

std::string indent(std::string_view text) {
    std::string result = "    ";
    for (const char letter : text) {
        result += letter;
        if (letter == '\n') result += "    ";
    }
    return result;
}

std::string_view http_answer(const CodeInfo& code) {
    if (code.severity != Severity::denied) return "";
    return code.reason == translate::Reason::invalid ? "422 Invalid" : "403 Forbidden";
}

std::string nearest(std::string_view name) {
    std::vector<const CodeInfo*> codes;
    for (const CodeInfo& code : translate::all_codes())
        codes.push_back(&code);
    std::ranges::stable_sort(
        codes, {}, [&](const CodeInfo* code) { return base::edit_distance(code->name, name); });
    return fmt::format("{}, {} or {}", codes[0]->name, codes[1]->name, codes[2]->name);
}

}  // namespace

std::string list_codes() {
    std::string text;
    for (const CodeInfo& code : translate::all_codes()) {
        text += fmt::format("{:<26} {}\n", code.name, translate::name(code.severity));
    }
    return text;
}

base::Result<std::string> explain_code(std::string_view asked) {
    const std::string name = base::lower_ascii(asked.substr(0, 64));
    const auto code = translate::code_of(name);
    if (!code) {
        return base::fail(
            base::ErrorKind::not_found,
            fmt::format("there is no code \"{}\"; the nearest are {}", name, nearest(name)));
    }
    const CodeInfo& about = translate::info(*code);
    std::string text = fmt::format("{} ({})\n\n{}\n\nExample:\n\n{}\n\nWhat to do:\n\n{}\n",
                                   about.name, translate::name(about.severity), about.meaning,
                                   indent(about.example), indent(about.fix));
    return text;
}

std::string codes_markdown() {
    std::string text =
        "# Codes\n\nWhat Drawbridge can say of a manifest, in the answer of the webhook, in its "
        "log and metrics, and "
        "on the command line. `drawbridge explain CODE` prints the same.\n\nThis page is made by "
        "`drawbridge explain "
        "--markdown`.\n";
    for (const CodeInfo& code : translate::all_codes()) {
        const std::string_view answer = http_answer(code);
        text += fmt::format("\n## {}\n\n*{}{}{}*\n\n{}\n\n```yaml\n{}\n```\n\n**What to do:** {}\n",
                            code.name, translate::name(code.severity), answer.empty() ? "" : ", ",
                            answer, code.meaning, code.example, code.fix);
    }
    return text;
}

}  // namespace drawbridge::cli
