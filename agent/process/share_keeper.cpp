#include "agent/process/share_keeper.hpp"

#include "agent/prepare/share_record.hpp"
#include "base/log.hpp"

#include <boost/asio/post.hpp>

#include <chrono>
#include <unistd.h>
#include <utility>

namespace drawbridge::agent {
namespace {

// While a share has a process, and while none has: then the driver is asked for processes that go
// past the library, where it tells, and all shares are looked at once in a while.
constexpr std::chrono::seconds interval{1};
constexpr std::chrono::seconds quiet_interval{5};
constexpr std::chrono::seconds sweep_interval{300};
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

ShareKeeper::ShareKeeper(Files& files, PrepareFlow& flow, const base::Clock& clock)
    : folders_(flow.folders()),
      clock_(clock),
      book_(folders_, clock),
      upkeep_({files, folders_, book_, clock, [] { return read_process_table(); },
               [&flow] { return flow.view()->rules.value_or(ShareRules()).pauses; }}),
      measure_(measure_parts(files, flow, book_, clock)) {}

ShareKeeper::~ShareKeeper() {
    stop();
}

std::uint64_t ShareKeeper::now() const {
    return nanoseconds(clock_.steady());
}

void ShareKeeper::round() {
    wake(watch_->take());
    const auto awake = wakefulness_.awake(now());
    if (!awake.empty()) look(awake);
    if (measures_) measure_later(awake);
    wait(awake.empty() && watch_->sees_listing());
}

void ShareKeeper::wake(const LedgerNews& news) {
    const bool sweep = news.lost || now() >= sweep_ns_;
    if (sweep) sweep_ns_ = now() + std::chrono::nanoseconds(sweep_interval).count();
    if (sweep || news.listing) list();
    const auto shares = wakefulness_.all();
    const auto fresh = watch_->watch(shares);
    if (sweep) {
        for (const std::string& share : shares)
            wakefulness_.wake(share);
    }
    for (const std::string& share : news.opened)
        wakefulness_.opened(share, now());
    // Somebody may have opened these unseen, and have no slot yet.
    for (const std::string& share : news.lost ? shares : fresh)
        wakefulness_.opened(share, now());
}

/// Each ledger is opened before it is watched, so that who opens it next is somebody else.
void ShareKeeper::list() {
    const auto shares = folders_.list();
    if (!shares) return;
    wakefulness_.list(*shares);
    book_.keep_only(*shares);
    for (const std::string& share : *shares)
        static_cast<void>(book_.ledgers().open(share));
}

void ShareKeeper::look(const std::vector<std::string>& awake) {
    upkeep_.beat(awake);
    const bool reap = rounds_++ % reap_rounds == 0;
    for (const SeenShare& seen : upkeep_.look(awake, reap)) {
        wakefulness_.looked(seen.share, seen.has_process, now());
        if (seen.reaped == 0) continue;
        base::log_event(base::Level::info, "reaped",
                        {{"share", seen.share}, {"slots", static_cast<std::int64_t>(seen.reaped)}});
    }
}

/// While a share is awake its ledger may be opened as often as its processes like: the next round
/// comes when its time is there.
void ShareKeeper::wait(bool is_quiet) {
    const auto quiet = measures_ ? quiet_interval : sweep_interval;
    timer_.expires_after(is_quiet ? quiet : interval);
    timer_.async_wait([this](const boost::system::error_code&) {
        if (news_.is_open()) news_.cancel();
        round();
    });
    if (!is_quiet || !news_.is_open()) return;
    news_.async_wait(boost::asio::posix::stream_descriptor::wait_read,
                     [this](const boost::system::error_code& error) {
                         if (!error) timer_.cancel();
                     });
}

/// Where nothing is handed out, nobody asks a driver that may be slow to answer; and where it is
/// slow, one question is out.
void ShareKeeper::measure_later(const std::vector<std::string>& awake) {
    if (measuring_.exchange(true)) return;
    boost::asio::post(parts_->devices, [this, awake, ask = !wakefulness_.all().empty()] {
        measure(awake, ask);
        measuring_ = false;
    });
}

void ShareKeeper::measure(const std::vector<std::string>& shares, bool ask) {
    Suspects found = measure_.measure(shares, [&] {
        auto processes = ask ? parts_->source.processes() : std::nullopt;
        return std::move(processes).value_or(std::vector<DeviceProcess>());
    });
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
    // Where no driver tells of processes, there is nothing to compare.
    measures_ = parts_->source.processes().has_value();
    watch_.emplace(folders_);
    if (watch_->descriptor() >= 0) news_.assign(::dup(watch_->descriptor()));
    boost::asio::post(io_, [this] { round(); });
    thread_ = std::thread([this] { io_.run(); });
}

void ShareKeeper::stop() {
    io_.stop();
    if (thread_.joinable()) thread_.join();
}

}  // namespace drawbridge::agent
