#include "agent/cdi/library_store.hpp"
#include "tests/agent/faulty_files.hpp"

#include <doctest/doctest.h>

#include <cstring>
#include <elf.h>
#include <string>

using namespace drawbridge::agent;

namespace {

/// The head of a shared library for this machine, which has read its own.
std::string library() {
    DiskFiles disk;
    auto own = disk.read("/proc/self/exe", std::size_t{1} << 30);
    REQUIRE(own);
    Elf64_Ehdr header{};
    std::memcpy(&header, own->data(), sizeof header);
    header.e_type = ET_DYN;
    header.e_shoff = sizeof header;
    header.e_shnum = 1;
    std::string bytes(sizeof header + header.e_shentsize, '\0');
    std::memcpy(bytes.data(), &header, sizeof header);
    return bytes;
}

std::string with(void (*change)(Elf64_Ehdr&)) {
    std::string bytes = library();
    Elf64_Ehdr header{};
    std::memcpy(&header, bytes.data(), sizeof header);
    change(header);
    std::memcpy(bytes.data(), &header, sizeof header);
    return bytes;
}

}  // namespace

TEST_CASE("only a whole shared library of this machine is given to containers") {
    CHECK(check_library(library()));
    CHECK_FALSE(check_library(""));
    CHECK_FALSE(check_library("#!/bin/sh\n"));
    CHECK_FALSE(check_library(library().substr(0, 40)));
    CHECK_FALSE(check_library(library().substr(0, library().size() - 1)));
    CHECK_FALSE(check_library(with([](Elf64_Ehdr& header) { header.e_type = ET_EXEC; })));
    CHECK_FALSE(check_library(with([](Elf64_Ehdr& header) { header.e_machine = EM_386; })));
    CHECK_FALSE(check_library(with([](Elf64_Ehdr& h) { h.e_ident[EI_CLASS] = ELFCLASS32; })));
    CHECK_FALSE(check_library(with([](Elf64_Ehdr& header) { header.e_shoff = UINT64_MAX; })));
}

TEST_CASE("a build is named after its content, and laid down once") {
    FaultyFiles files;
    LibraryStore store(files, "/lib");
    CHECK(store.current().empty());
    CHECK(store.files("").library.empty());
    store.offer({.library = "one"});
    const std::string one = store.current();
    REQUIRE(store.ensure(one));
    CHECK(store.has(one));
    files.put(store.files(one).library, "as it was found");
    REQUIRE(store.ensure(one));
    CHECK(files.all().at(store.files(one).library) == "as it was found");
    store.offer({.library = "two"});
    CHECK(store.current() != one);
    REQUIRE(store.ensure(store.current()));
    CHECK(store.list().size() == 2);
    CHECK(files.all().at(store.files(store.current()).library) == "two");
    CHECK(files.all().at(store.files(one).preload) == library_path_inside() + "\n");
    store.offer({.library = "one"});
    CHECK(store.current() == one);
}

TEST_CASE("half a build is made whole, and only the current one can be made") {
    FaultyFiles files;
    LibraryStore store(files, "/lib");
    store.offer({.library = "one"});
    const std::string one = store.current();
    REQUIRE(store.ensure(one));
    files.drop(store.files(one).library);
    CHECK_FALSE(store.has(one));
    REQUIRE(store.ensure(one));
    CHECK(store.has(one));
    REQUIRE(store.remove(one));
    CHECK(store.list().empty());
    store.offer({.library = "two"});
    CHECK_FALSE(store.ensure(one));
}

TEST_CASE("a build with the front is another one, and a claim's build says whether it has it") {
    FaultyFiles files;
    LibraryStore store(files, "/lib");
    store.offer({.library = "one"});
    CHECK(store.current(true).empty());
    store.offer({.library = "one", .front = "front"});
    const std::string plain = store.current();
    const std::string fronted = store.current(true);
    CHECK(plain != fronted);
    REQUIRE(store.ensure(plain));
    CHECK(store.files(plain).front.empty());
    const std::string front = store.files(fronted).front;  // before it lies there
    REQUIRE(store.ensure(fronted));
    CHECK(files.all().at(front) == "front");
    CHECK(files.all().at(store.files(fronted).library) == "one");
    LibraryStore next(files, "/lib");  // an agent with another build
    next.offer({.library = "two", .front = "other front"});
    CHECK(next.has(fronted));
    CHECK(next.files(fronted).front == front);
    CHECK(next.files(plain).front.empty());
    CHECK(next.current(true) != fronted);
    files.drop(front);
    CHECK_FALSE(store.has(fronted));
    REQUIRE(store.ensure(fronted));
    CHECK(store.has(fronted));
}

TEST_CASE(
    "a library is read with the front that lies beside it, and neither may be anything else") {
    FaultyFiles files;
    files.put("/l/libdrawbridge.so", library());
    const auto alone = read_library(files, "/l/libdrawbridge.so");
    REQUIRE(alone);
    CHECK(alone->front.empty());
    files.put("/l/libdrawbridge-libcuda.so", library() + "front");
    const auto both = read_library(files, "/l/libdrawbridge.so");
    REQUIRE(both);
    CHECK(both->library == library());
    CHECK(both->front == library() + "front");
    files.put("/l/libdrawbridge-libcuda.so", "text");
    CHECK_FALSE(read_library(files, "/l/libdrawbridge.so"));
}

TEST_CASE("what is no build is left alone") {
    FaultyFiles files;
    LibraryStore store(files, "/lib");
    files.put("/lib/README/x", "");
    files.put("/lib/../x", "");
    CHECK(store.list().empty());
}
