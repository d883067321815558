#include "agent/folder_watch.hpp"

#include "tests/folder.hpp"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <set>
#include <string>

using namespace drawbridge::agent;
namespace fs = std::filesystem;

namespace {

using Names = std::optional<std::set<std::string>>;

void put(const std::string& path, const std::string& text) {
    std::ofstream(path) << text;
}

}  // namespace

TEST_CASE("files that come, change or go are told by name, by whatever they are changed") {
    const drawbridge::test::Folder folder;
    const std::string watched = folder / "claims";
    fs::create_directory(watched);
    put(watched + "/old", "1");
    DiskFiles files;
    const auto watch = files.watch(watched);
    CHECK(watch->changed() == std::nullopt);  // what was there before it looked, it does not know
    CHECK(watch->changed() == Names(std::set<std::string>{}));

    put(watched + "/old", "2");
    CHECK(watch->changed() == Names({"old"}));
    CHECK(watch->changed() == Names(std::set<std::string>{}));
    put(folder / "elsewhere", "3");
    fs::rename(folder / "elsewhere", watched + "/come");
    CHECK(watch->changed() == Names({"come"}));
    fs::create_hard_link(watched + "/come", watched + "/linked");
    fs::rename(watched + "/come", folder / "gone");
    fs::remove(watched + "/old");
    CHECK(watch->changed() == Names({"come", "linked", "old"}));
    REQUIRE(files.write(watched + "/new", "4", WriteHow::atomic, 0600));
    const auto told = watch->changed();
    REQUIRE(told);
    CHECK(told->contains("new"));
}

TEST_CASE("of a folder that comes, goes or is replaced anything may have changed") {
    const drawbridge::test::Folder folder;
    const std::string watched = folder / "claims";
    DiskFiles files;
    const auto watch = files.watch(watched);
    CHECK(watch->changed() == std::nullopt);
    fs::create_directory(watched);
    CHECK(watch->changed() == std::nullopt);
    CHECK(watch->changed() == Names(std::set<std::string>{}));

    fs::remove(watched);
    CHECK(watch->changed() == std::nullopt);
    fs::create_directory(watched);
    put(watched + "/a", "1");
    CHECK(watch->changed() == std::nullopt);
    put(watched + "/b", "1");
    CHECK(watch->changed() == Names({"b"}));

    fs::rename(watched, folder / "aside");
    fs::create_directory(watched);
    CHECK(watch->changed() == std::nullopt);
    CHECK(watch->changed() == std::nullopt);
    put(folder / "aside/c", "1");
    put(watched + "/d", "1");
    CHECK(watch->changed() == Names({"d"}));
}

TEST_CASE("more changes than the kernel keeps are told as anything") {
    const drawbridge::test::Folder folder;
    DiskFiles files;
    const auto watch = files.watch(folder / "");
    CHECK(watch->changed() == std::nullopt);
    std::size_t kept = 0;
    std::ifstream("/proc/sys/fs/inotify/max_queued_events") >> kept;
    REQUIRE(kept > 0);
    for (std::size_t at = 0; at <= kept; ++at) {
        // One after the other they are different events: the kernel keeps equal ones once.
        put(folder / (at % 2 == 0 ? "a" : "b"), "1");
    }
    CHECK(watch->changed() == std::nullopt);
    put(folder / "c", "1");
    CHECK(watch->changed() == Names({"c"}));
}
