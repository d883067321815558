#pragma once
// Records that are out of a table while a driver call runs that may end what they stand for.

#include "preload/os.hpp"
#include "preload/table.hpp"

#include <stdint.h>

namespace preload {

class Aside {
public:
    Aside() = default;
    ~Aside() { unmap(records_, room_ * sizeof(Record)); }
    Aside(const Aside&) = delete;
    Aside& operator=(const Aside&) = delete;

    /// False where no memory could be had.
    bool add(const Record& record) {
        if (count_ == room_ && !grow()) return false;
        records_[count_++] = record;
        return true;
    }

    template <class Each>
    void each(Each tell) const {
        for (uint64_t at = 0; at < count_; ++at)
            tell(records_[at]);
    }

private:
    bool grow() { return grow_pages(records_, count_, room_, 100); }

    Record* records_ = nullptr;
    uint64_t count_ = 0;
    uint64_t room_ = 0;
};

}  // namespace preload
