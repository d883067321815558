#include "agent/rpc/rpc_server.hpp"

#include "agent/rpc/rpc_client.hpp"
#include "base/descriptor.hpp"
#include "tests/folder.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <future>
#include <memory>
#include <set>
#include <string>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

using namespace drawbridge::agent::rpc;
using drawbridge::base::Descriptor;
using drawbridge::base::ErrorKind;
using drawbridge::base::Result;

namespace {

constexpr std::chrono::seconds patience{30};

/// A server with a method that answers at once, and one whose calls are kept.
class Served {
public:
    Served() : server_(methods()) { REQUIRE(server_.listen({socket()})); }

    [[nodiscard]] std::string socket() const { return folder_ / "s.sock"; }
    [[nodiscard]] Result<std::string> ask(const std::string& method) const {
        return call_rpc(socket(), method, "question", patience);
    }
    /// A call to the method whose calls are kept, once the server has it.
    std::future<Result<std::string>> ask_and_wait(std::chrono::milliseconds at_most = patience) {
        auto answer = std::async(std::launch::async, [this, at_most] {
            return call_rpc(socket(), "/t.T/Keep", "question", at_most);
        });
        kept = arrived_.get_future().get();
        arrived_ = {};
        return answer;
    }
    std::future<void> stop(std::chrono::milliseconds grace) {
        return std::async(std::launch::async, [this, grace] { server_.stop(grace); });
    }

    std::shared_ptr<RpcCall> kept;

private:
    std::vector<RpcMethod> methods() {
        return {{.name = "/t.T/Echo",
                 .unary =
                     [](const std::string& request, const std::shared_ptr<RpcCall>& call) {
                         call->finish({RpcCode::ok, "to " + request});
                         call->finish({RpcCode::ok, "again"});
                     },
                 .stream = {}},
                {.name = "/t.T/Refuse",
                 .unary =
                     [](const std::string&, const std::shared_ptr<RpcCall>& call) {
                         call->finish({RpcCode::not_found, "nothing here"});
                     },
                 .stream = {}},
                {.name = "/t.T/Keep",
                 .unary = [this](const std::string&,
                                 std::shared_ptr<RpcCall> call) { arrived_.set_value(call); },
                 .stream = {}}};
    }

    drawbridge::test::Folder folder_;
    std::promise<std::shared_ptr<RpcCall>> arrived_;
    RpcServer server_;
};

/// A unix socket, and what binds or connects it to a path.
class Socket {
public:
    template <class Place>
    Socket(Place place, const std::string& path)
        : file_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
        sockaddr_un name{};
        name.sun_family = AF_UNIX;
        path.copy(static_cast<char*>(name.sun_path), sizeof name.sun_path - 1);
        REQUIRE(place(file_.get(), reinterpret_cast<const sockaddr*>(&name), sizeof name) == 0);
    }
    [[nodiscard]] int get() const { return file_.get(); }

private:
    Descriptor file_;
};

int open_sockets() {
    int count = 0;
    for (const auto& file : std::filesystem::directory_iterator("/proc/self/fd")) {
        std::error_code gone;
        const auto target = std::filesystem::read_symlink(file.path(), gone).string();
        if (target.starts_with("socket:")) ++count;
    }
    return count;
}

}  // namespace

TEST_CASE("calls are answered, refused, or of no method") {
    const Served served;
    CHECK(served.ask("/t.T/Echo").value_or("") == "to question");
    const auto refused = served.ask("/t.T/Refuse");
    REQUIRE_FALSE(refused);
    CHECK(refused.error().message.ends_with("nothing here"));
    const auto unknown = served.ask("/t.T/Other");
    REQUIRE_FALSE(unknown);
    CHECK(unknown.error().message.ends_with("no such method"));
    struct stat facts {};
    REQUIRE(::stat(served.socket().c_str(), &facts) == 0);
    CHECK((facts.st_mode & 0777U) == 0600);
}

TEST_CASE("a call that nobody answers ends at its deadline, on both sides") {
    Served served;
    auto answer = served.ask_and_wait(std::chrono::milliseconds(300)).get();
    REQUIRE_FALSE(answer);
    CHECK(answer.error().kind == ErrorKind::timed_out);
    for (int tries = 0; tries < 3000 && !served.kept->is_cancelled(); ++tries)
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    CHECK(served.kept->is_cancelled());
    served.kept.reset();
}

// They take more than half of what a plugin in Go takes on an idle node
// (docs/performance_agent.md).
TEST_CASE("gRPC has no threads that wake for nothing") {
    const Served served;
    CHECK(served.ask("/t.T/Echo"));
    std::set<std::string> names;
    for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task")) {
        std::string name;
        std::getline(std::ifstream(thread.path() / "comm"), name);
        names.insert(name);
    }
    CHECK_FALSE(names.empty());
    CHECK_FALSE(names.contains("grpc_global_tim"));
    CHECK_FALSE(names.contains("timer_manager"));
}

TEST_CASE("a server that stops lets the calls that it has be answered") {
    Served served;
    auto answer = served.ask_and_wait();
    auto stopped = served.stop(patience);
    CHECK_FALSE(served.kept->is_cancelled());
    served.kept->finish({RpcCode::ok, "late"});
    CHECK(answer.get().value_or("") == "late");
    stopped.get();
    CHECK(served.ask("/t.T/Echo").error().kind == ErrorKind::unavailable);
    CHECK_FALSE(std::filesystem::exists(served.socket()));
}

TEST_CASE("a server does not wait for ever for who never answers") {
    Served served;
    auto answer = served.ask_and_wait();
    served.stop(std::chrono::milliseconds(0)).get();
    CHECK_FALSE(answer.get());
    CHECK(served.kept->is_cancelled());
    served.kept->finish({RpcCode::ok, "nobody waits"});
}

TEST_CASE("behind a caller who has gone another one is served") {
    Served served;
    const auto gone = call_rpc(served.socket(), "/t.T/Keep", "", std::chrono::milliseconds(1));
    REQUIRE_FALSE(gone);
    CHECK(gone.error().kind == ErrorKind::timed_out);
    CHECK(served.ask("/t.T/Echo").value_or("") == "to question");
}

TEST_CASE("a call to who takes none ends at its deadline, and keeps nothing for long") {
    const drawbridge::test::Folder folder;
    const Socket mute(::bind, folder / "mute.sock");
    REQUIRE(::listen(mute.get(), 100) == 0);
    const auto ask = [&] {
        return call_rpc(folder / "mute.sock", "/t.T/Echo", "", std::chrono::milliseconds(100));
    };
    const int before = open_sockets();
    const auto answer = ask();
    REQUIRE_FALSE(answer);
    CHECK(answer.error().kind == ErrorKind::timed_out);
    CHECK(answer.error().message == "/t.T/Echo: no answer within 100 ms");
    // Each call has its connection until gRPC sees that this leads nowhere.
    int most = 0;
    int open = before + 1;
    for (int tries = 0; tries < 90 && open > most; ++tries) {
        most = open;
        static_cast<void>(ask());
        open = open_sockets();
    }
    CHECK(open <= most);
}

TEST_CASE("a server ends beside who is connected and says nothing") {
    Served served;
    const Socket silent(::connect, served.socket());
    CHECK(served.ask("/t.T/Echo"));
    CHECK(served.stop(std::chrono::milliseconds(100)).wait_for(patience) ==
          std::future_status::ready);
}
