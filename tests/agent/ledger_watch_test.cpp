#include "agent/share/ledger_watch.hpp"

#include "agent/share/open_ledgers.hpp"
#include "tests/folder.hpp"

#include <doctest/doctest.h>

#include <fstream>

using namespace drawbridge::agent;
using Names = std::vector<std::string>;

namespace {

constexpr const char* uuid = "5d000000-0000-0000-0000-000000000001";
const ShareLimits limits{.claim_uid = "u",
                         .boot_id = uuid,
                         .device_uuid = std::string("GPU-") + uuid,
                         .amounts = {std::int64_t{8} << 30, 0, 1},
                         .physical_bytes = std::int64_t{80} << 30};

/// Two shares on disk, and who watches them.
class Shares {
public:
    Shares() : folders(files, folder_.path()), ledgers(folders), watch(folders) {
        for (const char* share : {"a", "b"})
            REQUIRE(folders.create(share, limits));
        CHECK(watch.take().listing);
    }

    void open_by_another(const char* share) {
        std::ifstream(folders.path(share, DRAWBRIDGE_LEDGER_FILE)).get();
    }

private:
    drawbridge::test::Folder folder_;

public:
    DiskFiles files;
    ShareFolders folders;
    OpenLedgers ledgers;
    LedgerWatch watch;
};

}  // namespace

TEST_CASE("who opens a ledger is told, and who has it open is not") {
    Shares shares;
    const auto mine = shares.ledgers.open("a");
    REQUIRE(mine);
    CHECK(shares.watch.watch({"a", "b"}) == Names{"a", "b"});
    CHECK(shares.watch.watch({"a", "b"}).empty());
    REQUIRE((*shares.ledgers.open("a"))->read());
    CHECK(shares.watch.take().opened.empty());
    shares.open_by_another("a");
    shares.open_by_another("a");
    CHECK(shares.watch.take().opened == std::set<std::string>{"a"});
    CHECK(shares.watch.take().opened.empty());
    CHECK(shares.watch.watch({"b"}).empty());
    shares.open_by_another("a");
    CHECK(shares.watch.take().opened.empty());
}

TEST_CASE("a share that was removed and made again is watched, and read, anew") {
    Shares shares;
    REQUIRE(shares.ledgers.open("a"));
    CHECK(shares.watch.watch({"a"}) == Names{"a"});
    auto held = *shares.ledgers.open("a");
    REQUIRE(shares.folders.remove("a"));
    REQUIRE(shares.folders.create("a", limits));
    CHECK_FALSE(held->is_there());
    CHECK(shares.watch.take().listing);
    const auto after = shares.ledgers.open("a");
    REQUIRE(after);
    CHECK((*after)->is_there());
    CHECK(*after != held);
    held.reset();  // an inode is watched for as long as somebody has it open
    CHECK(shares.watch.take().listing);
    CHECK(shares.watch.watch({"a"}) == Names{"a"});
    shares.open_by_another("a");
    CHECK(shares.watch.take().opened == std::set<std::string>{"a"});
}

TEST_CASE("a ledger that is not there yet stays unknown") {
    Shares shares;
    CHECK(shares.watch.watch({"c"}) == Names{"c"});
    CHECK(shares.watch.watch({"c"}) == Names{"c"});
    REQUIRE(shares.folders.create("c", limits));
    CHECK(shares.watch.take().listing);
    CHECK(shares.watch.watch({"c"}) == Names{"c"});
    CHECK(shares.watch.watch({"c"}).empty());
}

TEST_CASE("more opened ledgers than the kernel keeps are told as lost") {
    std::ifstream most("/proc/sys/fs/inotify/max_queued_events");
    std::size_t count = 0;
    most >> count;
    REQUIRE(count > 0);
    Shares shares;
    CHECK(shares.watch.watch({"a", "b"}).size() == 2);
    // The kernel tells the same thing twice in a row once.
    for (std::size_t number = 0; number <= count / 2; ++number) {
        shares.open_by_another("a");
        shares.open_by_another("b");
    }
    CHECK(shares.watch.take().lost);
}

TEST_CASE("where the folder cannot be watched shares may have come each time") {
    Shares shares;
    CHECK(shares.watch.sees_listing());
    CHECK_FALSE(shares.watch.take().listing);
    const ShareFolders missing(shares.files, "/nonexistent/shares");
    LedgerWatch blind(missing);
    CHECK_FALSE(blind.sees_listing());
    CHECK(blind.take().listing);
    CHECK(blind.take().listing);
}
