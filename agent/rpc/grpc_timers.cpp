#include "agent/rpc/grpc_timers.hpp"

#include <condition_variable>
#include <grpc/event_engine/event_engine.h>
#include <grpc/grpc.h>
#include <grpcpp/version_info.h>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

// gRPC 1.51 has two threads for timers, which wake once a second each, whatever there is to do:
// more than half of what a plugin in Go takes on an idle node. One is of its event engine, which a
// program may replace. The other has no switch in a public header, so that this holds for one
// version: built for another one, gRPC keeps its threads.
#define DRAWBRIDGE_KNOWS_GRPC (GRPC_CPP_VERSION_MAJOR == 1 && GRPC_CPP_VERSION_MINOR == 51)

#if DRAWBRIDGE_KNOWS_GRPC
// As gRPC 1.51 declares them in src/core/lib/iomgr/timer_manager.h.
void grpc_timer_manager_set_threading(bool enabled);
void grpc_timer_manager_tick();
#endif

namespace drawbridge::agent::rpc {

#if DRAWBRIDGE_KNOWS_GRPC
namespace {

namespace engine = grpc_event_engine::experimental;
using Task = absl::AnyInvocable<void()>;

/// What runs soon or later, on a thread that is there from the first such task on and sleeps until
/// the next one is due.
class Later {
public:
    static Later& get() {
        static auto* later = new Later;  // stays, as gRPC does
        return *later;
    }

    /// When it is due, and which one of those it is.
    using Key = std::pair<std::chrono::nanoseconds, std::intptr_t>;

    Key run_after(std::chrono::nanoseconds wait, Task task) {
        const std::lock_guard lock(mutex_);
        const Key key{Clock::now().time_since_epoch() + wait, ++last_};
        tasks_.emplace(key, std::move(task));
        changed_.notify_one();
        return key;
    }
    bool cancel(const Key& key) {
        std::map<Key, Task>::node_type task;  // ends behind the lock: it may call us
        const std::lock_guard lock(mutex_);
        task = tasks_.extract(key);
        return !task.empty();
    }
    bool is_here() const { return std::this_thread::get_id() == thread_.get_id(); }

private:
    using Clock = std::chrono::steady_clock;

    Later() : thread_([this] { serve(); }) {}
    [[noreturn]] void serve() {
        std::unique_lock lock(mutex_);
        for (;;) {
            if (tasks_.empty()) {
                changed_.wait(lock);
            } else if (const Clock::time_point due(tasks_.begin()->first.first);
                       due > Clock::now()) {
                changed_.wait_until(lock, due);
            } else {
                auto task = tasks_.extract(tasks_.begin());
                lock.unlock();
                task.mapped()();
                task = {};  // with what the task holds
                lock.lock();
            }
        }
    }

    std::mutex mutex_;
    std::condition_variable changed_;
    std::map<Key, Task> tasks_;
    std::intptr_t last_ = 0;
    std::thread thread_;
};

/// gRPC 1.51 asks its engine for nothing but tasks; sockets and names go past it.
class Engine final : public engine::EventEngine {
public:
    absl::StatusOr<std::unique_ptr<Listener>> CreateListener(
        Listener::AcceptCallback, absl::AnyInvocable<void(absl::Status)>,
        const engine::EndpointConfig&, std::unique_ptr<engine::MemoryAllocatorFactory>) override {
        return no_sockets();
    }
    ConnectionHandle Connect(OnConnectCallback on_connect, const ResolvedAddress&,
                             const engine::EndpointConfig&, engine::MemoryAllocator,
                             Duration) override {
        on_connect(no_sockets());
        return {};
    }
    bool CancelConnect(ConnectionHandle) override { return false; }
    std::unique_ptr<DNSResolver> GetDNSResolver(const DNSResolver::ResolverOptions&) override {
        return nullptr;
    }
    bool IsWorkerThread() override { return Later::get().is_here(); }
    void Run(Closure* closure) override { Run(task_of(closure)); }
    void Run(Task task) override { RunAfter(Duration(0), std::move(task)); }
    TaskHandle RunAfter(Duration when, Closure* closure) override {
        return RunAfter(when, task_of(closure));
    }
    TaskHandle RunAfter(Duration when, Task task) override {
        const auto [due, number] = Later::get().run_after(when, std::move(task));
        return {number, due.count()};
    }
    bool Cancel(TaskHandle handle) override {
        return Later::get().cancel({std::chrono::nanoseconds(handle.keys[1]), handle.keys[0]});
    }

private:
    static absl::Status no_sockets() { return absl::UnimplementedError("no sockets here"); }
    static Task task_of(Closure* closure) {
        return [closure] { closure->Run(); };
    }
};

}  // namespace

void start_grpc() {
    static std::once_flag once;
    std::call_once(once, [] {
        engine::SetEventEngineFactory([] { return std::make_unique<Engine>(); });
        grpc_init();  // for good: each start anew would bring the thread back
        grpc_timer_manager_set_threading(false);
    });
}

void tick_grpc_timers() {
    grpc_timer_manager_tick();
}

#else

void start_grpc() {}
void tick_grpc_timers() {}

#endif

}  // namespace drawbridge::agent::rpc
