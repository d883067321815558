#pragma once
// A value that is swapped as a whole under its readers.

#include <memory>
#include <mutex>
#include <utility>

namespace drawbridge::server {

/// Any thread may read or replace it; a reader keeps what it got. A mutex and not
/// `std::atomic<std::shared_ptr>`, since that of libstdc++ 12 lets a read race with the next write:
/// its `load` ends with a relaxed unlock.
template <class T>
class Snapshot {
public:
    explicit Snapshot(std::shared_ptr<T> value = nullptr) : value_(std::move(value)) {}

    [[nodiscard]] std::shared_ptr<T> current() const {
        const std::lock_guard lock(mutex_);
        return value_;
    }
    void replace(std::shared_ptr<T> value) {
        const std::lock_guard lock(mutex_);
        value_.swap(value);  // the old one ends with the parameter, after the lock
    }

private:
    mutable std::mutex mutex_;
    std::shared_ptr<T> value_;
};

}  // namespace drawbridge::server
