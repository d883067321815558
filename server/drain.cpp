#include "server/drain.hpp"

namespace drawbridge::server {

void Drain::on_signal(Time now) {
    phase_ = phase_ == DrainPhase::serving ? DrainPhase::leaving : DrainPhase::stopped;
    since_ = now;
}

DrainPhase Drain::step(Time now, std::size_t open_connections) {
    if (phase_ == DrainPhase::leaving && now >= next()) {
        phase_ = DrainPhase::finishing;
        since_ = now;
    } else if (phase_ == DrainPhase::finishing && (open_connections == 0 || now >= next())) {
        phase_ = DrainPhase::stopped;
    }
    return phase_;
}

Drain::Time Drain::next() const {
    switch (phase_) {
        case DrainPhase::leaving:
            return since_ + times_.leaving;
        case DrainPhase::finishing:
            return since_ + times_.finishing;
        case DrainPhase::serving:
            break;
        case DrainPhase::stopped:
            return since_;
    }
    return Time::max();
}

}  // namespace drawbridge::server
