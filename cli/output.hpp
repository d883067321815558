#pragma once
// What a translation prints on standard output: templates before the documents that need them,
// documents changed or as they came.

#include "base/result.hpp"
#include "kube/claim_model.hpp"
#include "kube/json_patch.hpp"
#include "kube/manifest.hpp"

#include <set>
#include <string>
#include <utility>
#include <vector>

namespace drawbridge::cli {

enum class OutputForm { yaml, json };

/// Builds the output, document by document. Nothing is printed before all is known to be right.
class Output {
public:
    explicit Output(OutputForm form) : form_(form) {}

    /// A template, unless one of this namespace and name was written or is in the input.
    void claim_template(const kube::ClaimTemplate& claim_template, const std::string& name_space);
    /// Remembers a template that the input holds itself.
    void known_template(const std::string& name_space, const std::string& name) {
        known_.emplace(name_space, name);
    }

    /// A document that needs no change.
    void unchanged(const kube::Manifest& manifest);
    /// A changed document, without the elements `left_out` of its `/items`; tells whether its text
    /// had to be written anew.
    [[nodiscard]] base::Result<bool> changed(const kube::Manifest& manifest,
                                             const kube::JsonPatch& patch,
                                             const std::vector<std::size_t>& left_out = {});
    /// One more document as it is to be printed; for JSON output an object of the flat List.
    void part(std::string text);

    /// All of it. `-o json`: one `v1` List; `-o yaml`: documents with `---` between them.
    [[nodiscard]] std::string text() const;
    [[nodiscard]] OutputForm form() const { return form_; }

private:
    OutputForm form_;
    std::set<std::pair<std::string, std::string>> known_;
    std::vector<std::string> parts_;
};

}  // namespace drawbridge::cli
