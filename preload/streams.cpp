#include "preload/streams.hpp"

#include "preload/process.hpp"
#include "preload/resolve.hpp"

#include <stdint.h>

namespace preload {

RelaxedCapture::RelaxedCapture() {
    if (helpers.exchange_capture_mode != nullptr) helpers.exchange_capture_mode(&mode_);
}

RelaxedCapture::~RelaxedCapture() {
    if (helpers.exchange_capture_mode != nullptr) helpers.exchange_capture_mode(&mode_);
}

InContextOf::InContextOf(void* stream) {
    // 0, 1 and 2 are the default streams of the current context.
    if (reinterpret_cast<uintptr_t>(stream) <= 2 || helpers.stream_context == nullptr) return;
    void* context = nullptr;
    is_current_ = is_pushed_ = helpers.stream_context(stream, &context) == cuda_success &&
                               helpers.context_push(context) == cuda_success;
}

InContextOf::~InContextOf() {
    void* context = nullptr;
    if (is_pushed_) helpers.context_pop(&context);
}

int device_of_stream(void* stream) {
    if (process.device_count == 1) return 0;
    const InContextOf there(stream);
    return there.is_current() ? current_device() : -1;
}

bool is_capturing(void* stream, bool per_thread) {
    auto* ask = per_thread ? helpers.stream_capturing_ptsz : helpers.stream_capturing;
    int state = 0;
    return ask != nullptr && (ask(stream, &state) != cuda_success || state != 0);
}

}  // namespace preload
