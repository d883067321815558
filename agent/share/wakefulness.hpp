#pragma once
// Which shares are looked at again and again, and which are left alone until somebody opens their
// ledger. Pure.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace drawbridge::agent {

/// A share sleeps once it has had no process for a while. A process is there only where its slot
/// is taken in the ledger, which it must open for that: then the share is awake again.
class Wakefulness {
public:
    /// How long a share stays awake behind its last process, and for the one that has opened its
    /// ledger and has no slot yet.
    static constexpr std::uint64_t linger_ns = 10'000'000'000;

    /// The shares that there are. One that was not known is awake until it was looked at.
    void list(const std::vector<std::string>& shares);
    /// It is awake until it was looked at.
    void wake(const std::string& share);
    /// Somebody has opened the share's ledger.
    void opened(const std::string& share, std::uint64_t now_ns);
    /// Its ledger was read, and a process was in it or not.
    void looked(const std::string& share, bool has_process, std::uint64_t now_ns);

    /// Sorted.
    [[nodiscard]] std::vector<std::string> awake(std::uint64_t now_ns) const;
    /// Sorted.
    [[nodiscard]] std::vector<std::string> all() const;

private:
    struct State {
        bool due = true;  ///< not looked at yet
        std::uint64_t until_ns = 0;
    };
    std::map<std::string, State> states_;
};

}  // namespace drawbridge::agent
