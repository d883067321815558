// Streams of the stand-in, and look-ups by name.
#include "tests/preload/standin/count.hpp"
#include "tests/preload/standin/driver.hpp"
#include "tests/preload/standin/look_ups.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace standin {

int driver_version() {
    const char* text = std::getenv("DRAWBRIDGE_STANDIN_VERSION");
    return text == nullptr ? profile : std::atoi(text);
}

namespace {

// Whether a driver of this version has any function of a row's name and flags; it answers for
// others as for a name that nobody knows (seen on libcuda 535).
bool knows(const Answer& asked, std::uint64_t flags) {
    for (unsigned at = 0; at < recorded_answer_count; ++at) {
        const Answer& row = recorded_answers[at];
        if ((row.flags >> flags & 1) != 0 && row.symbol != nullptr &&
            row.version <= driver_version() && std::strcmp(row.name, asked.name) == 0)
            return true;
    }
    return false;
}

}  // namespace

}  // namespace standin

using namespace standin;

extern "C" {

int cuStreamCreate(void** stream, unsigned) {
    COUNT_CALL("cuStreamCreate");
    NEEDS_INIT();
    if (current() == nullptr) return invalid_context;
    auto* made = new Stream{current()};
    driver().streams.insert(made);
    *stream = made;
    return success;
}

int cuStreamDestroy_v2(Stream* stream) {
    COUNT_CALL("cuStreamDestroy_v2");
    NEEDS_INIT();
    if (driver().streams.erase(stream) == 0) return invalid_handle;
    delete stream;
    return success;
}

int cuStreamGetCtx(Stream* stream, void** context) {
    COUNT_CALL("cuStreamGetCtx");
    NEEDS_INIT();
    *context = driver().streams.count(stream) != 0 ? stream->context : current();
    return success;
}

int cuStreamSynchronize(Stream*) {
    COUNT_CALL("cuStreamSynchronize");
    wait_for_work();
    NEEDS_INIT();
    synchronize();
    return success;
}

int cuStreamSynchronize_ptsz(Stream* stream) {
    COUNT_CALL("cuStreamSynchronize_ptsz");
    return cuStreamSynchronize(stream);
}

int cuThreadExchangeStreamCaptureMode(int* mode) {
    COUNT_CALL("cuThreadExchangeStreamCaptureMode");
    static thread_local int now = 0;
    std::swap(*mode, now);
    return success;
}

int cuGetProcAddress_v2(const char* symbol, void** pfn, int version_asked, std::uint64_t flags,
                        int* status) {
    COUNT_CALL("cuGetProcAddress_v2");
    // libcuda 535 (12.2) takes a version that it does not know for its own, 580 (13.0) refuses it;
    // those between were not asked.
    if (driver_version() < 13000) version_asked = std::min(version_asked, driver_version());
    const Answer* found = nullptr;
    for (unsigned at = 0; at < recorded_answer_count; ++at) {
        const Answer& row = recorded_answers[at];
        if ((row.flags >> flags & 1) != 0 && row.version <= version_asked &&
            std::strcmp(row.name, symbol) == 0)
            found = &row;
    }
    if (found != nullptr && found->symbol == nullptr && !found->untouched && !knows(*found, flags))
        found = nullptr;
    if (flags > 4 || found == nullptr || found->untouched || version_asked > driver_version()) {
        // A name that no recording knows is answered like the one that no driver knows.
        const bool unknown = found == nullptr && flags <= 2 && version_asked <= driver_version();
        if (!unknown) return invalid_value;
        *pfn = nullptr;
        if (status != nullptr) *status = 1;
        return success;
    }
    *pfn = found->symbol;
    if (status != nullptr && found->found >= 0) *status = found->found;
    return found->status;
}

int cuGetProcAddress(const char* symbol, void** pfn, int version_asked, std::uint64_t flags) {
    COUNT_CALL("cuGetProcAddress");
    void* found = nullptr;
    const int status = cuGetProcAddress_v2(symbol, &found, version_asked, flags, nullptr);
    if (status == success && found == nullptr) return 500;
    if (status == success) *pfn = found;
    return status;
}

/// The stand-in's own newest function of a name that look-ups know, whoever else offers one; null
/// where it has none.
void* standin_own(const char* name) {
    void* found = nullptr;
    cuGetProcAddress_v2(name, &found, driver_version(), 0, nullptr);
    return found;
}
}
