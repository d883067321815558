#include "agent/claim/record_store.hpp"

#include "agent/claim/claim_record.hpp"
#include "tests/agent/faulty_files.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace drawbridge::agent;

namespace {

ClaimRecord record(std::string_view uid, std::int64_t time = 1) {
    return {.claim = {"ns", "name", std::string(uid)}, .time = time};
}

/// Counts what is read.
class CountedFiles final : public Files {
public:
    drawbridge::base::Result<void> write(const std::string& path, std::string_view text,
                                         WriteHow how, mode_t mode) override {
        return files.write(path, text, how, mode);
    }
    drawbridge::base::Result<std::unique_ptr<Staged>> stage(const std::string& path,
                                                            std::string_view text,
                                                            mode_t mode) override {
        return files.stage(path, text, mode);
    }
    drawbridge::base::Result<void> patch(const std::string& path, std::size_t offset,
                                         std::string_view bytes) override {
        return files.patch(path, offset, bytes);
    }
    drawbridge::base::Result<std::string> read(const std::string& path, std::size_t most) override {
        ++reads;
        return files.read(path, most);
    }
    std::optional<FileStamp> stamp(const std::string& path) override { return files.stamp(path); }
    std::unique_ptr<FolderWatch> watch(const std::string& folder) override {
        return files.watch(folder);
    }
    drawbridge::base::Result<void> remove(const std::string& path) override {
        return files.remove(path);
    }
    drawbridge::base::Result<std::vector<std::string>> list(const std::string& path) override {
        return files.list(path);
    }

    FaultyFiles files;
    int reads = 0;
};

std::vector<std::int64_t> times(const RecordStore& store) {
    std::vector<std::int64_t> found;
    const auto stored = store.load_all();
    REQUIRE(stored);
    for (const ClaimRecord& one : stored->records)
        found.push_back(one.time);
    return found;
}

}  // namespace

TEST_CASE("records that stay as they are are read once") {
    CountedFiles files;
    RecordStore store(files, "/claims");
    REQUIRE(store.save(record("a")));
    REQUIRE(store.save(record("b")));
    CHECK(times(store) == std::vector<std::int64_t>{1, 1});
    CHECK(files.reads == 2);
    CHECK(times(store) == std::vector<std::int64_t>{1, 1});
    CHECK(files.reads == 2);
}

TEST_CASE("what another agent writes or removes is seen") {
    CountedFiles files;
    RecordStore store(files, "/claims");
    RecordStore other(files, "/claims");
    REQUIRE(store.save(record("a")));
    REQUIRE(store.save(record("b")));
    CHECK(times(store) == std::vector<std::int64_t>{1, 1});
    REQUIRE(other.save(record("b", 2)));
    CHECK(times(store) == std::vector<std::int64_t>{1, 2});
    REQUIRE(other.erase("a"));
    CHECK(times(store) == std::vector<std::int64_t>{2});
    REQUIRE(other.save(record("a", 3)));
    CHECK(times(store) == std::vector<std::int64_t>{3, 2});
    files.files.put("/claims/b.json", "damaged");
    const auto stored = store.load_all();
    REQUIRE(stored);
    CHECK(stored->unreadable == std::vector<std::string>{"b"});
}

TEST_CASE("what changes is read again, and what cannot be read at each look") {
    CountedFiles files;
    RecordStore store(files, "/claims");
    REQUIRE(store.save(record("a")));
    REQUIRE(store.save(record("b")));
    CHECK(times(store) == std::vector<std::int64_t>{1, 1});
    REQUIRE(store.save(record("b", 2)));
    CHECK(times(store) == std::vector<std::int64_t>{1, 2});
    CHECK(files.reads == 3);
    files.files.put("/claims/a.json", "damaged");
    CHECK(times(store) == std::vector<std::int64_t>{2});
    CHECK(times(store) == std::vector<std::int64_t>{2});
    CHECK(files.reads == 5);
}

TEST_CASE("where no folder can be watched all records are read at each look") {
    CountedFiles files;
    files.files.blind = true;
    RecordStore store(files, "/claims");
    REQUIRE(store.save(record("a")));
    CHECK(times(store) == std::vector<std::int64_t>{1});
    files.files.put("/claims/b.json", encode_record(record("b", 2)));
    CHECK(times(store) == std::vector<std::int64_t>{1, 2});
    files.files.drop("/claims/a.json");
    CHECK(times(store) == std::vector<std::int64_t>{2});
    CHECK(files.reads == 4);
}
