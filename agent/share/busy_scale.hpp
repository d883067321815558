#pragma once
// How much GPU time a share's launches are charged for each nanosecond between their events
// (enforcement.md 4.8). Pure.

#include <cstddef>
#include <cstdint>
#include <optional>

namespace drawbridge::agent {

/// Events tell how long work took, the time that other shares had of the GPU meanwhile included;
/// the driver tells how long it ran. What is charged is led slowly to what the driver counts.
class BusyScale {
public:
    static constexpr std::uint32_t one = 1U << 16U;  ///< 16.16 fixed point
    static constexpr std::uint64_t window_ns = 5'000'000'000;

    /// A look at a share, one a second. Counts never fall.
    struct Look {
        std::uint64_t now_ns = 0;
        std::uint64_t charged_ns = 0;                         ///< by its processes
        std::optional<std::uint64_t> busy_ns = std::nullopt;  ///< by the driver, where it tells
        std::size_t active = 1;                               ///< shares that work on the GPU
    };

    /// What the scale is from now on; `lying` is what stands in its limits. Before it could be
    /// compared for the first time, the shares that work are taken to have equal parts.
    [[nodiscard]] std::uint32_t look(const Look& look, std::uint32_t lying);

private:
    [[nodiscard]] bool is_steady(const Look& look);

    std::optional<Look> from_;
    std::uint64_t charged_ns_ = 0;  ///< at the last look
    int working_ = 0;               ///< looks in a row at which more was charged
    bool compared_ = false;
};

}  // namespace drawbridge::agent
