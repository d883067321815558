// What a test makes of the points in preload/marks.hpp: DRAWBRIDGE_MARK=NAME:SIGNAL sends the
// process that signal when it comes by that point for the first time, DRAWBRIDGE_MARK=NAME:SIGNAL:N
// for the Nth.
#include "preload/marks.hpp"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

namespace preload {
namespace {

constexpr const char* names[] = {"in_flight",  "charged",      "denying",       "arbitrating",
                                 "denied",     "made",         "settled",       "forgotten",
                                 "freed",      "claim_locked", "claim_cleared", "claim_filled",
                                 "claim_live", "reap_locked",  "reaped"};
static_assert(sizeof names / sizeof *names == static_cast<size_t>(Mark::reaped) + 1);

int passes;

}  // namespace

void pass(Mark mark) {
    const char* wish = getenv("DRAWBRIDGE_MARK");
    char name[32] = {};
    int number = 0;
    int times = 1;
    if (wish == nullptr || sscanf(wish, "%31[^:]:%d:%d", name, &number, &times) < 2) return;
    if (strcmp(name, names[static_cast<size_t>(mark)]) != 0) return;
    if (__atomic_add_fetch(&passes, 1, __ATOMIC_RELAXED) == times) raise(number);
}

}  // namespace preload
