#pragma once
// What a command tells on standard error: diagnostics, verdicts and own failures, as text or as
// JSON lines.

#include "base/result.hpp"
#include "cli/object.hpp"
#include "translate/diagnostic.hpp"

#include <string>

namespace drawbridge::cli {

enum class NoticeForm { text, json };

/// Collects notices; the caller prints the text at the end.
class Notices {
public:
    Notices(NoticeForm form, bool colour) : form_(form), colour_(colour) {}

    void diagnostic(const Origin& origin, const Identity& identity,
                    const translate::Diagnostic& diagnostic);
    void verdict(const Origin& origin, const Identity& identity, translate::Verdict verdict);
    /// A failure of our own: the command ends with status 1.
    void failure(const base::Error& error);

    [[nodiscard]] const std::string& text() const { return text_; }

private:
    NoticeForm form_;
    bool colour_;
    std::string text_;
};

}  // namespace drawbridge::cli
