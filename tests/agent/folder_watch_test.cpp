#include "agent/folder_watch.hpp"

#include "tests/folder.hpp"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <set>
#include <string>
#include <sys/resource.h>

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
    fs::rename(folder / "aside", watched);
    CHECK(watch->changed() == std::nullopt);
    CHECK(watch->changed() == Names(std::set<std::string>{}));
    fs::rename(watched, folder / "aside");
    fs::create_directory(watched);
    CHECK(watch->changed() == std::nullopt);
    put(folder / "aside/c", "1");
    put(watched + "/d", "1");
    CHECK(watch->changed() == Names({"d"}));
}

TEST_CASE("of a folder whose path leads elsewhere anything may have changed") {
    const drawbridge::test::Folder folder;
    const fs::path root = folder / "root";
    fs::create_directories(root / "plugin/claims");
    fs::create_directory_symlink("root", folder / "link");
    DiskFiles files;
    const auto watch = files.watch(folder / "link/plugin/claims");
    CHECK(watch->changed() == std::nullopt);
    CHECK(watch->changed() == Names(std::set<std::string>{}));

    // Nothing happens to the folder itself, nor to what is in it.
    fs::rename(root / "plugin", root / "aside");
    fs::create_directories(root / "plugin/claims");
    CHECK(watch->changed() == std::nullopt);
    put(root / "aside/claims/a", "1");
    put(root / "plugin/claims/b", "1");
    CHECK(watch->changed() == Names({"b"}));

    fs::create_directories(folder / "other/plugin/claims");
    fs::remove(folder / "link");
    fs::create_directory_symlink("other", folder / "link");
    CHECK(watch->changed() == std::nullopt);
    fs::remove(folder / "link");
    CHECK(watch->changed() == std::nullopt);
    CHECK(watch->changed() == std::nullopt);
    fs::create_directory_symlink("root", folder / "link");
    CHECK(watch->changed() == std::nullopt);
    put(root / "plugin/claims/c", "1");
    CHECK(watch->changed() == Names({"c"}));
}

TEST_CASE("a folder that could not be watched for want of descriptors is, once there are some") {
    const drawbridge::test::Folder folder;
    DiskFiles files;
    rlimit usual{};
    REQUIRE(::getrlimit(RLIMIT_NOFILE, &usual) == 0);
    const rlimit none{.rlim_cur = 0, .rlim_max = usual.rlim_max};
    REQUIRE(::setrlimit(RLIMIT_NOFILE, &none) == 0);
    const auto watch = files.watch(folder / "");
    const auto first = watch->changed();
    const auto second = watch->changed();
    REQUIRE(::setrlimit(RLIMIT_NOFILE, &usual) == 0);
    CHECK(first == std::nullopt);
    CHECK(second == std::nullopt);
    CHECK(watch->changed() == std::nullopt);
    put(folder / "a", "1");
    CHECK(watch->changed() == Names({"a"}));
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
