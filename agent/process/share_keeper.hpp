#pragma once
// Keeps the shares of running containers once a second, for as long as the agent runs.

#include "agent/device_source.hpp"
#include "agent/share_measure.hpp"
#include "agent/share_upkeep.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>

namespace drawbridge::agent {

/// On a thread of its own: containers wait for nothing that the kubelet's calls wait for.
class ShareKeeper {
public:
    /// `executor` is that of the timer.
    ShareKeeper(const boost::asio::any_io_executor& executor, Files& files,
                const ShareFolders& folders, const base::Clock& clock)
        : book_(folders, clock),
          upkeep_({files, folders, book_, clock, [] { return read_process_table(); }}),
          measure_({files, folders, book_, [] { return read_process_table(); }, read_mounts}),
          timer_(executor) {}

    void start();
    /// Once the timer's executor has ended; waits for the round that is under way.
    void stop();
    /// Compares the ledgers with what the driver says of its processes; one thread at a time.
    void measure(DeviceSource& source);
    /// What is known of the ledgers; any thread.
    [[nodiscard]] ShareBook& book() { return book_; }

private:
    void round();

    ShareBook book_;
    ShareUpkeep upkeep_;
    ShareMeasure measure_;
    std::map<std::string, std::int64_t> told_;  ///< strangers that were told of
    boost::asio::steady_timer timer_;
    boost::asio::thread_pool pool_{1};
    unsigned rounds_ = 0;
};

}  // namespace drawbridge::agent
