#pragma once
// Keeps the shares of running containers once a second, for as long as the agent runs.

#include "agent/prepare/prepare_flow.hpp"
#include "agent/share/share_measure.hpp"
#include "agent/share/share_upkeep.hpp"
#include "agent/source/device_source.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>

namespace drawbridge::agent {

/// What the keeper needs of its surroundings once they are there.
struct KeeperParts {
    boost::asio::any_io_executor devices;  ///< nobody else asks `source` meanwhile
    DeviceSource& source;                  ///< asked once by `start` itself
    /// A share's processes are suspected of more, or less, than before.
    std::function<void(const std::string& share, const Suspect& before, const Suspect& now)> tell;
};

/// On a thread of its own: containers wait for nothing that the kubelet's calls wait for.
class ShareKeeper {
public:
    /// `executor` is that of the timer.
    ShareKeeper(const boost::asio::any_io_executor& executor, Files& files, PrepareFlow& flow,
                const base::Clock& clock);

    void start(KeeperParts parts);
    /// Once the timer's executor has ended; waits for the round that is under way.
    void stop();
    /// What is known of the ledgers; any thread.
    [[nodiscard]] ShareBook& book() { return book_; }

private:
    void keep();
    void round();
    void keep_measuring();
    void measure();

    ShareBook book_;
    ShareUpkeep upkeep_;
    ShareMeasure measure_;
    Suspects told_;
    std::optional<KeeperParts> parts_;
    boost::asio::steady_timer timer_;
    boost::asio::steady_timer measure_timer_;
    boost::asio::thread_pool pool_{1};
    unsigned rounds_ = 0;
};

}  // namespace drawbridge::agent
