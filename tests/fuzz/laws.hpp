#pragma once
// Ends the process when a law is broken, so that the fuzzer keeps the input.

#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

namespace drawbridge::fuzz {

inline void law(bool holds, std::string_view what, std::string_view detail = {}) {
    if (holds) return;
    std::fprintf(stderr, "broken law: %.*s\n%.*s\n", static_cast<int>(what.size()), what.data(),
                 static_cast<int>(detail.size()), detail.data());
    std::abort();
}

}  // namespace drawbridge::fuzz
