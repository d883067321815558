#include "agent/process/share_keeper.hpp"

#include "base/log.hpp"

#include <boost/asio/post.hpp>

#include <chrono>
#include <cstdint>

namespace drawbridge::agent {
namespace {

constexpr std::chrono::seconds interval{1};
constexpr unsigned reap_rounds = 2;

}  // namespace

void ShareKeeper::round() {
    upkeep_.beat();
    if (rounds_++ % reap_rounds != 0) return upkeep_.look();
    for (const ReapedShare& reaped : upkeep_.reap()) {
        base::log_event(
            base::Level::info, "reaped",
            {{"share", reaped.share}, {"slots", static_cast<std::int64_t>(reaped.slots)}});
    }
}

void ShareKeeper::measure(DeviceSource& source) {
    auto strangers = measure_.measure([&] { return source.processes(); });
    for (const auto& [share, count] : strangers) {
        if (!told_.contains(share))
            base::log_event(base::Level::warn, "bypass", {{"share", share}, {"processes", count}});
    }
    told_ = std::move(strangers);
}

void ShareKeeper::start() {
    boost::asio::post(pool_, [this] {
        round();
        boost::asio::post(timer_.get_executor(), [this] {
            timer_.expires_after(interval);
            timer_.async_wait([this](const boost::system::error_code& error) {
                if (!error) start();
            });
        });
    });
}

void ShareKeeper::stop() {
    pool_.join();
}

}  // namespace drawbridge::agent
