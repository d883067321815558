#pragma once
// Random pods with legacy GPU requests: their meaning for the oracle, and JSON text as hostile as
// an API server allows.

#include "tests/translate/hami_oracle.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace drawbridge::oracle {

/// A source of choices that comes out the same on every platform for one seed (splitmix64).
class Choice {
public:
    explicit Choice(std::uint64_t seed) : state_(seed) {}

    /// 0 .. bound-1.
    std::size_t below(std::size_t bound) { return static_cast<std::size_t>(next() % bound); }
    /// True in `percent` of 100 cases.
    bool chance(std::size_t percent) { return below(100) < percent; }
    template <class T>
    const T& of(const std::vector<T>& values) {
        return values[below(values.size())];
    }

private:
    std::uint64_t next() {
        std::uint64_t mixed = state_ += 0x9E3779B97F4A7C15U;
        mixed = (mixed ^ (mixed >> 30U)) * 0xBF58476D1CE4E5B9U;
        mixed = (mixed ^ (mixed >> 27U)) * 0x94D049BB133111EBU;
        return mixed ^ (mixed >> 31U);
    }

    std::uint64_t state_;
};

/// The pod as the oracle sees it, with what surrounds it in the JSON text.
struct GeneratedPod {
    PodInput input;
    bool strange = false;     ///< with unknown fields, existing claims, empty parents, escapes
    std::uint64_t dress = 0;  ///< decides the surroundings
};

[[nodiscard]] GeneratedPod generate_pod(std::uint64_t seed);

/// The pod as JSON text. Another `order` gives the same value with its members in another order.
[[nodiscard]] std::string to_json(const GeneratedPod& pod, std::uint64_t order);

/// Raw pieces of the text of a strange pod that no translation may touch.
[[nodiscard]] std::vector<std::string> untouchable_pieces();

/// Settings and clusters that pods are tried under; `seed` picks one.
struct Site {
    std::string name;
    translate::Settings settings;
    translate::Cluster cluster;
};
[[nodiscard]] const std::vector<Site>& sites();

}  // namespace drawbridge::oracle
