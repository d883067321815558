#include "agent/share/busy_scale.hpp"

#include <algorithm>

namespace drawbridge::agent {
namespace {

constexpr double most_step = 1.25;
constexpr double least = 0.1;
constexpr double most = 1.2;
// Less than this part of the time is told too roughly, in whole percents.
constexpr std::uint64_t telling_part = 20;

std::uint32_t stepped(std::uint32_t scale, double ratio) {
    const double step = std::clamp(ratio, 1 / most_step, most_step);
    const double next = std::clamp(scale * step, least * BusyScale::one, most * BusyScale::one);
    return static_cast<std::uint32_t>(next + 0.5);
}

}  // namespace

/// The driver tells a second late: what is compared begins after that and ends with the work.
bool BusyScale::is_steady(const Look& look) {
    working_ = look.charged_ns > charged_ns_ ? working_ + 1 : 0;
    charged_ns_ = look.charged_ns;
    return working_ > 2;
}

std::uint32_t BusyScale::look(const Look& look, std::uint32_t lying) {
    if (!from_) {
        from_ = look;
        compared_ = lying != one && lying != 0;  // by an agent before this one
    }
    const std::uint32_t scale =
        compared_ ? lying : one / static_cast<std::uint32_t>(std::max<std::size_t>(look.active, 1));
    if (!is_steady(look) || !look.busy_ns || !from_->busy_ns) {
        from_ = look;
        return scale;
    }
    if (look.now_ns - from_->now_ns < window_ns) return scale;
    const std::uint64_t charged = look.charged_ns - std::min(look.charged_ns, from_->charged_ns);
    const std::uint64_t busy = *look.busy_ns - std::min(*look.busy_ns, *from_->busy_ns);
    const std::uint64_t telling = (look.now_ns - from_->now_ns) / telling_part;
    from_ = look;
    // A driver that counts nothing is no measure of what was charged.
    if (charged < telling || busy == 0) return scale;
    compared_ = true;
    return stepped(scale, static_cast<double>(busy) / static_cast<double>(charged));
}

}  // namespace drawbridge::agent
