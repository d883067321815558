#pragma once
// Judges a translation by what the oracle says a pod is to get.

#include "tests/translate/claim_reader.hpp"
#include "tests/translate/hami_oracle.hpp"

#include <string>
#include <vector>

namespace drawbridge::oracle {

/// The memory sizes that a percentage is taken of, in bytes.
[[nodiscard]] std::vector<std::int64_t> sizes_of(const translate::Settings& settings,
                                                 const translate::Cluster& cluster);

/// The devices that claims are tried on: one or two of each memory size of the site, of different
/// types, and one of a size that is not listed. `slots`: the split count of the nodes.
[[nodiscard]] std::vector<ModelDevice> model_fleet(const translate::Settings& settings,
                                                   const translate::Cluster& cluster,
                                                   std::int64_t slots = 10);

/// Whether a claim gives each user's share, amount by amount the greatest, on the right devices,
/// each time another. `Wrong` says what is not so.
void judge_claim(const Claim& claim, const std::vector<Share>& users, const Texts& annotations,
                 const translate::Settings& settings, const translate::Cluster& cluster);

/// What is wrong with a translation of a new pod; empty if nothing.
[[nodiscard]] std::string judge(const PodInput& input, const std::string& pod,
                                const PodAnswer& right, const translate::Translation& translation,
                                const translate::Settings& settings,
                                const translate::Cluster& cluster);

/// Parses and translates; the text is valid JSON.
[[nodiscard]] translate::Translation translate_text(const std::string& pod,
                                                    const translate::Settings& settings,
                                                    const translate::Cluster& cluster,
                                                    const Texts& namespace_labels = {});

}  // namespace drawbridge::oracle
