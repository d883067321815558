#pragma once
// What the library asks of streams, so that the program's own work with them stays as it was.

namespace preload {

/// Makes driver calls that capture modes forbid possible, for as long as it lives.
class RelaxedCapture {
public:
    RelaxedCapture();
    ~RelaxedCapture();
    RelaxedCapture(const RelaxedCapture&) = delete;
    RelaxedCapture& operator=(const RelaxedCapture&) = delete;

private:
    int mode_ = 2;
};

/// Has a stream's context be the current one, for as long as it lives; that of a default stream is.
class InContextOf {
public:
    explicit InContextOf(void* stream);
    ~InContextOf();
    InContextOf(const InContextOf&) = delete;
    InContextOf& operator=(const InContextOf&) = delete;

    /// False where the driver would not tell, or not let it be.
    bool is_current() const { return is_current_; }

private:
    bool is_current_ = true;
    bool is_pushed_ = false;
};

/// Device on which a stream runs, -1 where that cannot be had.
int device_of_stream(void* stream);

/// Whether a stream is being captured, or cannot be asked because another one is.
bool is_capturing(void* stream, bool per_thread);

}  // namespace preload
