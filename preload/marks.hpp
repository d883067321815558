#pragma once
// Points between the steps of the account at which a test stops or kills the process. In the
// library that is installed they are nothing; tests/preload/marks.cpp gives them a body in a build
// of its own.

namespace preload {

/// Every place at which a death or a stop leaves something half done.
enum class Mark {
    in_flight,      ///< marked as being in flight, nothing charged
    charged,        ///< bytes reserved, the driver not asked
    denying,        ///< the lock of denials held
    arbitrating,    ///< and others told to queue for it
    denied,         ///< decided, others still told to queue
    made,           ///< the driver has granted, the reservation is not settled
    settled,        ///< settled, the block not recorded
    forgotten,      ///< the block's record is out, the driver not asked
    freed,          ///< the driver has freed, still charged
    claim_locked,   ///< the byte of a slot held, the slot as it was left
    claim_cleared,  ///< the slot emptied
    claim_filled,   ///< the owner written, not yet live
    claim_live,     ///< live, perhaps beyond the number of slots in use
    reap_locked,    ///< the byte of a dead process's slot held
    reaped,         ///< its slot emptied, the byte still held
};

#ifdef DRAWBRIDGE_MARKS
void pass(Mark mark);
#else
inline void pass(Mark) {}
#endif

}  // namespace preload
