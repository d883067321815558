#include "agent/share/ledger_file.hpp"

#include "agent/share/share_pages.hpp"
#include "base/atomic_file.hpp"
#include "tests/folder.hpp"

#include <doctest/doctest.h>

#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <string>
#include <sys/stat.h>
#include <unistd.h>

using namespace drawbridge::agent;
using drawbridge::base::ErrorKind;

namespace {

constexpr std::uint64_t here = 0xF0000001;

/// A ledger on disk with three live slots of processes 11, 12 and 13.
class Ledger {
public:
    Ledger() {
        std::string page = fresh_ledger();
        put(page, 16, std::uint32_t{3});
        for (std::uint32_t i = 0; i < 3; ++i) {
            put(page, used_offset(i), std::uint64_t{100} + i);
            drawbridge_slot slot{};
            slot.state = DRAWBRIDGE_SLOT_LIVE;
            slot.pid = 11 + i;
            slot.start_time = 500 + i;
            slot.pid_namespace = here;
            slot.denied = 9;
            put(page, slot_offset(i), slot);
        }
        REQUIRE(drawbridge::base::write_file_atomically(path, page, 0666));
    }

    template <class Value>
    static void put(std::string& page, std::size_t at, const Value& value) {
        std::memcpy(page.data() + at, &value, sizeof value);
    }

    drawbridge::test::Folder folder;
    std::string path = folder / "ledger";
};

/// A process that holds its slot's byte.
class Holder {
public:
    Holder(const std::string& path, std::size_t slot) : file_(::open(path.c_str(), O_RDWR)) {
        struct flock lock {};
        lock.l_type = F_WRLCK;
        lock.l_start = static_cast<off_t>(DRAWBRIDGE_SLOT_LOCK(slot));
        lock.l_len = 1;
        REQUIRE(::fcntl(file_, F_OFD_SETLK, &lock) == 0);
    }
    ~Holder() { ::close(file_); }
    Holder(const Holder&) = delete;
    Holder& operator=(const Holder&) = delete;

private:
    int file_;
};

ProcessTable table_of(std::vector<std::uint32_t> pids) {
    ProcessTable table{.own_namespace = here};
    for (const std::uint32_t pid : pids)
        table.processes.push_back({pid, pid, here, pid + 489, false});
    return table;
}

}  // namespace

TEST_CASE("slots that nobody holds and whose owners are gone are freed, and no others") {
    const Ledger ledger;
    const Holder holder(ledger.path, 0);  // its process is not in the table: a lock is enough
    const auto file = LedgerFile::open(ledger.path);
    REQUIRE(file);
    const auto before = file->read();
    REQUIRE(before);
    REQUIRE(before->size() == 3);
    // The second has closed all its descriptors and lives.
    CHECK(reap(*file, *before, [] { return table_of({12}); }) == std::vector<std::size_t>{2});
    const auto after = file->read();
    REQUIRE(after);
    CHECK((*after)[0].used == 100);
    CHECK((*after)[1].used == 101);
    CHECK((*after)[1].is_live());
    CHECK((*after)[2].used == 0);
    CHECK_FALSE((*after)[2].is_live());
    CHECK((*after)[2].content.denied == 0);
    CHECK_FALSE(file->is_held(2));
}

TEST_CASE("the processes are not asked while every slot is held") {
    const Ledger ledger;
    const Holder first(ledger.path, 0);
    const Holder second(ledger.path, 1);
    const Holder third(ledger.path, 2);
    const auto file = LedgerFile::open(ledger.path);
    REQUIRE(file);
    bool asked = false;
    CHECK(reap(*file, *file->read(), [&] {
              asked = true;
              return table_of({});
          }).empty());
    CHECK_FALSE(asked);
}

TEST_CASE("a slot that another process has taken meanwhile is left to it") {
    const Ledger ledger;
    const auto file = LedgerFile::open(ledger.path);
    REQUIRE(file);
    const auto copy = file->read();
    REQUIRE(copy);
    SlotOwner other = (*copy)[1].owner();
    other.start_time = 1;
    CHECK_FALSE(file->clear(1, other));
    const Holder holder(ledger.path, 1);
    CHECK_FALSE(file->clear(1, (*copy)[1].owner()));
    CHECK((*file->read())[1].used == 101);
}

TEST_CASE("what is no ledger is left alone") {
    const Ledger ledger;
    CHECK(LedgerFile::open(ledger.folder / "none").error().kind == ErrorKind::not_found);
    CHECK_FALSE(LedgerFile::open(ledger.folder.path()));
    const auto file = LedgerFile::open(ledger.path);
    REQUIRE(file);
    REQUIRE(::truncate(ledger.path.c_str(), 4200) == 0);
    CHECK_FALSE(file->read());
    CHECK_FALSE(LedgerFile::open(ledger.path));
    std::filesystem::remove(ledger.path);
    REQUIRE(::mkfifo(ledger.path.c_str(), 0666) == 0);
    CHECK_FALSE(LedgerFile::open(ledger.path));
}

TEST_CASE("the number of slots is bounded whatever the head says") {
    std::string head = fresh_ledger().substr(0, ledger_head_bytes);
    Ledger::put(head, 16, std::uint32_t{0xFFFFFFFF});
    CHECK(slots_in_head(head) == 1024);
    Ledger::put(head, 8, std::uint16_t{2});
    CHECK(slots_in_head(head).error().kind == ErrorKind::unavailable);
    Ledger::put(head, 0, std::uint16_t{2});
    CHECK(slots_in_head(head).error().kind == ErrorKind::invalid_input);
    CHECK_FALSE(slots_in_head("short"));
}
