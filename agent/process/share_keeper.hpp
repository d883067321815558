#pragma once
// Keeps the shares of running containers once a second, for as long as the agent runs.

#include "agent/prepare/prepare_flow.hpp"
#include "agent/share/ledger_watch.hpp"
#include "agent/share/share_measure.hpp"
#include "agent/share/share_upkeep.hpp"
#include "agent/share/wakefulness.hpp"
#include "agent/source/device_source.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace drawbridge::agent {

/// What the keeper needs of its surroundings once they are there.
struct KeeperParts {
    boost::asio::any_io_executor devices;  ///< nobody else asks `source` meanwhile
    DeviceSource& source;                  ///< asked once by `start` itself
    /// A share's processes are suspected of more, or less, than before.
    std::function<void(const std::string& share, const Suspect& before, const Suspect& now)> tell;
};

/// On a thread of its own: containers wait for nothing that the kubelet's calls wait for. Shares
/// without a process cost nothing until somebody opens their ledger.
class ShareKeeper {
public:
    ShareKeeper(Files& files, PrepareFlow& flow, const base::Clock& clock);
    ShareKeeper(const ShareKeeper&) = delete;
    ShareKeeper& operator=(const ShareKeeper&) = delete;
    ~ShareKeeper();

    /// The folder of all shares is there.
    void start(KeeperParts parts);
    /// Waits for the round that is under way; `devices` has ended.
    void stop();
    /// What is known of the ledgers; any thread.
    [[nodiscard]] ShareBook& book() { return book_; }

private:
    void round();
    void list();
    void wake(const LedgerNews& news);
    void look(const std::vector<std::string>& awake);
    void wait(bool is_quiet);
    void measure_later(const std::vector<std::string>& awake);
    void measure(const std::vector<std::string>& shares, bool ask);
    [[nodiscard]] std::uint64_t now() const;

    const ShareFolders& folders_;
    const base::Clock& clock_;
    ShareBook book_;
    ShareUpkeep upkeep_;
    ShareMeasure measure_;
    Suspects told_;
    std::optional<KeeperParts> parts_;
    bool measures_ = false;
    std::atomic<bool> measuring_ = false;
    std::optional<LedgerWatch> watch_;
    Wakefulness wakefulness_;
    std::uint64_t sweep_ns_ = 0;  ///< when all are looked at again
    unsigned rounds_ = 0;
    boost::asio::io_context io_{1};
    boost::asio::steady_timer timer_{io_};
    boost::asio::posix::stream_descriptor news_{io_};
    std::thread thread_;
};

}  // namespace drawbridge::agent
