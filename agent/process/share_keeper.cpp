#include "agent/process/share_keeper.hpp"

#include "agent/prepare/share_record.hpp"
#include "base/log.hpp"

#include <boost/asio/post.hpp>

#include <chrono>
#include <cstdint>

namespace drawbridge::agent {
namespace {

constexpr std::chrono::seconds interval{1};
constexpr unsigned reap_rounds = 2;

MeasureParts measure_parts(Files& files, PrepareFlow& flow, ShareBook& book,
                           const base::Clock& clock) {
    const auto allocated = [&flow](const std::string& name) {
        const auto found = find_share(flow, name);
        return found ? found->share.amounts.memory_bytes : -1;
    };
    return {.files = files,
            .folders = flow.folders(),
            .book = book,
            .processes = [](std::span<const std::uint32_t> pids) { return read_processes(pids); },
            .mounts = read_mounts,
            .allocated = allocated,
            .clock = clock};
}

}  // namespace

ShareKeeper::ShareKeeper(const boost::asio::any_io_executor& executor, Files& files,
                         PrepareFlow& flow, const base::Clock& clock)
    : book_(flow.folders(), clock),
      upkeep_({files, flow.folders(), book_, clock, [] { return read_process_table(); }}),
      measure_(measure_parts(files, flow, book_, clock)),
      timer_(executor),
      measure_timer_(executor) {}

void ShareKeeper::round() {
    upkeep_.beat();
    if (rounds_++ % reap_rounds != 0) return upkeep_.look();
    for (const ReapedShare& reaped : upkeep_.reap()) {
        base::log_event(
            base::Level::info, "reaped",
            {{"share", reaped.share}, {"slots", static_cast<std::int64_t>(reaped.slots)}});
    }
}

void ShareKeeper::measure() {
    Suspects found = measure_.measure(
        [&] { return parts_->source.processes().value_or(std::vector<DeviceProcess>()); });
    for (const auto& [share, suspect] : found) {
        const Suspect before = told_[share];
        if (suspect == before) continue;
        parts_->tell(share, before, suspect);
        if (before.strangers == 0 && suspect.strangers > 0) {
            base::log_event(base::Level::warn, "bypass",
                            {{"share", share}, {"processes", suspect.strangers}});
        }
        if (before.overrun_bytes == 0 && suspect.overrun_bytes > 0) {
            base::log_event(base::Level::warn, "overrun",
                            {{"share", share}, {"bytes", suspect.overrun_bytes}});
        }
    }
    told_ = std::move(found);
}

void ShareKeeper::start(KeeperParts parts) {
    parts_.emplace(std::move(parts));
    keep();
    // Where no driver tells of processes, there is nothing to compare every second.
    if (parts_->source.processes()) keep_measuring();
}

void ShareKeeper::keep() {
    boost::asio::post(pool_, [this] {
        round();
        boost::asio::post(timer_.get_executor(), [this] {
            timer_.expires_after(interval);
            timer_.async_wait([this](const boost::system::error_code& error) {
                if (!error) keep();
            });
        });
    });
}

void ShareKeeper::keep_measuring() {
    boost::asio::post(parts_->devices, [this] {
        measure();
        boost::asio::post(measure_timer_.get_executor(), [this] {
            measure_timer_.expires_after(interval);
            measure_timer_.async_wait([this](const boost::system::error_code& error) {
                if (!error) keep_measuring();
            });
        });
    });
}

void ShareKeeper::stop() {
    pool_.join();
}

}  // namespace drawbridge::agent
