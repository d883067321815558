#pragma once
// Reads a JSON document of a fixed form: the first thing that is wrong is kept, with its place.

#include "base/json.hpp"
#include "base/result.hpp"
#include "kube/json_patch.hpp"

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace drawbridge::agent {

/// A place in a document, with the pointer that names it.
struct Spot {
    base::JsonView view = {};
    kube::PointerPath path = {};

    [[nodiscard]] Spot operator[](std::string_view key) const { return {view[key], path / key}; }
    [[nodiscard]] Spot at(std::size_t index) const { return {view.at(index), path / index}; }
    [[nodiscard]] bool is_absent() const { return view.is_absent(); }
};

/// Bounds of a whole number.
struct Range {
    std::int64_t least = 0;
    std::int64_t most = INT64_MAX;
};

/// Every function gives something usable when the document is wrong; `error` tells at the end
/// whether it was. What is missing or null gives the fallback.
class JsonReader {
public:
    /// Text that must be there and not be empty.
    std::string text(const Spot& spot);
    std::string text_or(const Spot& spot, std::string_view fallback);
    /// A whole number that must be there.
    std::int64_t whole(const Spot& spot, Range range);
    std::int64_t whole_or(const Spot& spot, Range range, std::int64_t fallback);
    /// A number above zero and at most `most`.
    double factor_or(const Spot& spot, double most, double fallback);
    bool boolean_or(const Spot& spot, bool fallback);
    /// A Kubernetes quantity of whole bytes, at least 1; must be there.
    std::int64_t bytes(const Spot& spot);
    /// The elements of a list that may be missing.
    std::vector<Spot> list(const Spot& spot);
    std::vector<std::string> texts(const Spot& spot);
    /// Refuses what is no object, or has members beside `known`.
    void members(const Spot& spot, std::initializer_list<std::string_view> known);
    /// Refuses another `apiVersion` or `kind`.
    void kind(const Spot& root, std::string_view version, std::string_view kind);

    void refuse(const Spot& spot, std::string reason);
    [[nodiscard]] bool ok() const { return !error_; }
    /// The first fault; only where there is one.
    [[nodiscard]] tl::unexpected<base::Error> error() const { return tl::unexpected(*error_); }

private:
    std::optional<base::Error> error_;
};

}  // namespace drawbridge::agent
