// What a real driver answered to cuGetProcAddress.
#pragma once

namespace standin {

/// From this CUDA version on, until the next row of the same name and flags.
struct Answer {
    const char* name;
    unsigned flags;  // one bit for each value of flags, 0 to 4
    int version;
    void* symbol;
    int status;      // CUresult
    int found;       // CUdriverProcAddressQueryResult, -1: not written
    bool untouched;  // the result is left as it was
};
extern const Answer recorded_answers[];
extern const unsigned recorded_answer_count;

}  // namespace standin
