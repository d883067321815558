#include "agent/claim/record_store.hpp"

#include "agent/claim/claim_record.hpp"
#include "tests/agent/faulty_files.hpp"
#include "tests/folder.hpp"

#include <doctest/doctest.h>

#include <filesystem>
#include <string>

using namespace drawbridge::agent;

namespace {

ClaimRecord record(std::string_view uid, std::int64_t time = 1) {
    return {.claim = {"ns", "name", std::string(uid)}, .time = time};
}

/// Counts what is read, and has files whose stamp may not be relied upon.
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
    drawbridge::base::Result<FileStamp> stamp(const std::string& path) override {
        auto found = files.stamp(path);
        if (found) found->settled = settled;
        return found;
    }
    drawbridge::base::Result<void> remove(const std::string& path) override {
        return files.remove(path);
    }
    drawbridge::base::Result<std::vector<std::string>> list(const std::string& path) override {
        return files.list(path);
    }

    FaultyFiles files;
    int reads = 0;
    bool settled = true;
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

TEST_CASE("a file that was changed a moment ago may change again behind the same stamp") {
    CountedFiles files;
    files.settled = false;
    RecordStore store(files, "/claims");
    REQUIRE(store.save(record("a")));
    CHECK(times(store) == std::vector<std::int64_t>{1});
    CHECK(times(store) == std::vector<std::int64_t>{1});
    CHECK(files.reads == 2);
}

TEST_CASE("a stamp is another for each content, and settles with time") {
    const drawbridge::test::Folder folder;
    const std::string path = folder / "file";
    DiskFiles files;
    REQUIRE(files.write(path, "one", WriteHow::atomic, 0600));
    const auto first = files.stamp(path);
    REQUIRE(files.write(path, "two", WriteHow::atomic, 0600));
    const auto second = files.stamp(path);
    REQUIRE(first);
    REQUIRE(second);
    CHECK_FALSE(*first == *second);
    CHECK_FALSE(second->settled);
    // Files of the program itself have been there for long.
    const auto old = files.stamp(std::filesystem::read_symlink("/proc/self/exe").string());
    REQUIRE(old);
    CHECK(old->settled);
    CHECK(files.stamp(folder / "none").error().kind == drawbridge::base::ErrorKind::not_found);
}
