#include "base/atomic_file.hpp"

#include "tests/folder.hpp"

#include <doctest/doctest.h>

#include <fcntl.h>
#include <filesystem>
#include <iterator>
#include <string>
#include <sys/stat.h>
#include <unistd.h>

namespace drawbridge::base {
namespace {

namespace fs = std::filesystem;

using test::Folder;

std::ptrdiff_t entries(const Folder& folder) {
    return std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator());
}

TEST_CASE("a file that ends with zeros has all of them, and its room on the disk") {
    const Folder folder;
    const std::string path = folder / "file";
    for (const std::size_t used : {std::size_t{0}, std::size_t{5}, std::size_t{9000}}) {
        const std::string text = std::string(used, 'x') + std::string(300'000, '\0');
        REQUIRE(write_file_atomically(path, text).has_value());
        CHECK(read_file(path, text.size()) == text);
        struct stat about {};
        REQUIRE(::stat(path.c_str(), &about) == 0);
        CHECK(about.st_blocks * 512 >= about.st_size);
    }
}

TEST_CASE("what was written is read, and replaced whole") {
    const Folder folder;
    const std::string path = folder / "file";
    for (const std::string& text :
         {std::string("first, longer"), std::string("second"), std::string(),
          std::string(300'000, 'x'), std::string("\0\n", 2)}) {
        REQUIRE(write_file_atomically(path, text).has_value());
        CHECK(read_file(path, 1U << 20U).value_or("unread") == text);
        CHECK(entries(folder) == 1);
    }
}

TEST_CASE("the mode is the one asked for, whatever the umask") {
    const Folder folder;
    const mode_t before = ::umask(077);
    const bool open = write_file_atomically(folder / "open", "x", 0644).has_value();
    const bool secret = write_file_atomically(folder / "secret", "x", 0600).has_value();
    ::umask(before);
    REQUIRE((open && secret));
    struct stat about {};
    REQUIRE(::stat((folder / "open").c_str(), &about) == 0);
    CHECK((about.st_mode & 07777U) == 0644);
    REQUIRE(::stat((folder / "secret").c_str(), &about) == 0);
    CHECK((about.st_mode & 07777U) == 0600);
}

TEST_CASE("a reader that holds the old file keeps the old content") {
    const Folder folder;
    REQUIRE(write_file_atomically(folder / "file", "old").has_value());
    const int held = ::open((folder / "file").c_str(), O_RDONLY | O_CLOEXEC);
    REQUIRE(held >= 0);
    REQUIRE(write_file_atomically(folder / "file", "new").has_value());
    std::string seen(3, ' ');
    CHECK(::read(held, seen.data(), seen.size()) == 3);
    ::close(held);
    CHECK(seen == "old");
}

TEST_CASE("a failed write leaves no file behind") {
    const Folder folder;
    fs::create_directory(folder / "taken");
    REQUIRE(write_file_atomically(folder / "taken/inside", "x").has_value());
    const auto onto_folder = write_file_atomically(folder / "taken", "x");
    REQUIRE(!onto_folder.has_value());
    CHECK(onto_folder.error().path == folder / "taken");
    CHECK(entries(folder) == 1);

    const auto nowhere = write_file_atomically(folder / "missing/file", "x");
    REQUIRE(!nowhere.has_value());
    CHECK(nowhere.error().kind == ErrorKind::not_found);
    CHECK(entries(folder) == 1);
    CHECK(!write_file_atomically(folder / "file/", "x").has_value());
    CHECK(entries(folder) == 1);
}

TEST_CASE("reading is bounded") {
    const Folder folder;
    const std::string path = folder / "file";
    REQUIRE(write_file_atomically(path, "12345").has_value());
    CHECK(read_file(path, 5).value_or("") == "12345");
    CHECK(read_file(path, std::string::npos).value_or("") == "12345");
    for (const std::size_t limit : {0U, 1U, 4U}) {
        const auto text = read_file(path, limit);
        REQUIRE(!text.has_value());
        CHECK(text.error().kind == ErrorKind::invalid_input);
    }
    CHECK(!read_file("/dev/zero", 100'000).has_value());
    CHECK(read_file("/dev/null", 0).value_or("unread").empty());
    CHECK(!read_file("/proc/self/status", 1U << 20U).value_or("").empty());
}

TEST_CASE("folders and missing files are told apart") {
    const Folder folder;
    const auto directory = read_file(folder / ".", 10);
    REQUIRE(!directory.has_value());
    CHECK(directory.error().kind == ErrorKind::invalid_input);
    const auto missing = read_file(folder / "missing", 10);
    REQUIRE(!missing.has_value());
    CHECK(missing.error().kind == ErrorKind::not_found);
    CHECK(missing.error().message.find("missing") != std::string::npos);
}

}  // namespace
}  // namespace drawbridge::base
