#pragma once
// Numbers that are -1 before they are set, in memory that is all zeroes then.

namespace preload {

/// A number from 0 on, or -1 for none. The library's state begins as zeroes, of which the loader
/// copies nothing: what begins as anything else, every process pays for when it is loaded.
class OrNone {
public:
    // Stands for an int wherever one is wanted.
    constexpr OrNone(int number = -1) : next_(number + 1) {}
    constexpr operator int() const { return next_ - 1; }

private:
    int next_;
};

}  // namespace preload
