#pragma once
// Memory for libraries that write through whatever their allocator gives, null as well.

#include <cstddef>
#include <cstdlib>
#include <new>

namespace drawbridge::base {

/// An allocator in the form of RapidJSON's that throws std::bad_alloc where there is no memory.
struct ThrowingAllocator {
    // NOLINTBEGIN(readability-identifier-naming): the names are those that RapidJSON calls
    static constexpr bool kNeedFree = true;
    void* Malloc(std::size_t size) { return Realloc(nullptr, 0, size); }
    void* Realloc(void* old, std::size_t, std::size_t size) {
        if (size == 0) {
            Free(old);
            return nullptr;
        }
        void* const place = std::realloc(old, size);
        if (place == nullptr) throw std::bad_alloc();
        return place;
    }
    static void Free(void* place) { std::free(place); }
    // NOLINTEND(readability-identifier-naming)
};

}  // namespace drawbridge::base
