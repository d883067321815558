#include "agent/share/share_folders.hpp"

#include "preload/abi.h"
#include "tests/agent/faulty_files.hpp"

#include <doctest/doctest.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

using namespace drawbridge::agent;
using drawbridge::base::ErrorKind;

namespace {

constexpr std::int64_t gib = std::int64_t{1} << 30;
const std::string limits_file = "/shares/s/limits";
const std::string ledger_file = "/shares/s/ledger";

ShareLimits limits(std::int64_t memory = 4 * gib) {
    return {.claim_uid = "uid",
            .boot_id = "01020304-0506-0708-090a-0b0c0d0e0f10",
            .device_uuid = "GPU-a",
            .amounts = {memory, 30, 1},
            .physical_bytes = 8 * gib};
}

/// A share whose ledger some process has written.
class Used {
public:
    Used() : folders(files, "/shares") {
        REQUIRE(folders.create("s", limits()));
        ledger = files.all().at(ledger_file);
        ledger.back() = '\x5a';
        files.put(ledger_file, ledger);
    }
    [[nodiscard]] std::string page() const { return files.all().at(limits_file); }

    FaultyFiles files;
    ShareFolders folders;
    std::string ledger;
};

struct Damage {
    const char* name;
    std::function<std::string(std::string page)> make;
};

std::string with_byte(std::string page, std::size_t at) {
    page[at] = static_cast<char>(page[at] ^ 0x40);
    return page;
}

const std::vector<Damage> damages = {
    {"empty", [](const std::string&) { return std::string(); }},
    {"cut", [](std::string page) { return page.substr(0, 100); }},
    {"longer", [](std::string page) { return page + "more"; }},
    {"noise", [](std::string page) { return std::string(page.size(), '\x5a'); }},
    {"magic", [](std::string page) { return with_byte(std::move(page), 0); }},
    {"size",
     [](std::string page) {
         return with_byte(std::move(page), offsetof(drawbridge_header, file_size));
     }},
    {"boot",
     [](std::string page) {
         return with_byte(std::move(page), offsetof(drawbridge_limits, boot_id));
     }},
    {"memory", [](std::string page) {
         return with_byte(std::move(page), offsetof(drawbridge_limits, memory_bytes));
     }}};

}  // namespace

TEST_CASE("limits that were damaged are mended, and the ledger beside them is left alone") {
    for (const Damage& damage : damages) {
        CAPTURE(damage.name);
        Used share;
        const std::string whole = share.page();
        share.files.put(limits_file, damage.make(whole));
        REQUIRE(share.folders.create("s", limits()));
        const std::string mended = share.page();
        REQUIRE(mended.size() == whole.size());
        const auto read = read_limits(mended);
        REQUIRE(read);
        CHECK(read->generation % 2 == 0);
        const auto [offset, size] = guarded_fields();
        CHECK(mended.substr(offset, size) == whole.substr(offset, size));
        CHECK(share.files.all().at(ledger_file) == share.ledger);
    }
}

TEST_CASE("limits that went are made again beside their ledger") {
    Used share;
    share.files.drop(limits_file);
    REQUIRE(share.folders.create("s", limits(gib)));
    CHECK(read_limits(share.page())->memory_bytes == gib);
    CHECK(share.files.all().at(ledger_file) == share.ledger);
}

TEST_CASE("a ledger that a tenant cut, grew or filled with noise is left alone") {
    for (const std::string& ledger :
         {std::string(), std::string(100, 'x'), std::string(DRAWBRIDGE_LEDGER_SIZE + 1, 'x')}) {
        Used share;
        share.files.put(ledger_file, ledger);
        REQUIRE(share.folders.create("s", limits()));
        CHECK(share.files.all().at(ledger_file) == ledger);
    }
}

TEST_CASE("limits in another version of the layout are not written over") {
    Used share;
    std::string page = share.page();
    page[offsetof(drawbridge_header, major)] = 2;
    share.files.put(limits_file, page);
    const auto made = share.folders.create("s", limits());
    REQUIRE_FALSE(made);
    CHECK(made.error().kind == ErrorKind::unavailable);
    CHECK(share.page() == page);
}

TEST_CASE("mending that ends anywhere is ended by the next look") {
    for (const Damage& damage : damages) {
        for (int crash = 0; crash < 3; ++crash) {
            CAPTURE(damage.name);
            CAPTURE(crash);
            Used share;
            share.files.put(limits_file, damage.make(share.page()));
            share.files.crash_after = crash;
            share.files.crash_before = true;
            try {
                static_cast<void>(share.folders.change("s", limits()));
            } catch (const Crash&) {
            }
            share.files.crash_after = -1;
            REQUIRE(share.folders.change("s", limits()));
            const auto again = share.folders.change("s", limits());
            CHECK((again && !*again));
            CHECK(read_limits(share.page())->memory_bytes == 4 * gib);
            CHECK(share.files.all().at(ledger_file) == share.ledger);
        }
    }
}
