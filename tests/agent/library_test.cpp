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
    store.offer("one");
    const std::string one = store.current();
    REQUIRE(store.ensure(one));
    CHECK(store.has(one));
    files.put(store.files(one).library, "as it was found");
    REQUIRE(store.ensure(one));
    CHECK(files.all().at(store.files(one).library) == "as it was found");
    store.offer("two");
    CHECK(store.current() != one);
    REQUIRE(store.ensure(store.current()));
    CHECK(store.list().size() == 2);
    CHECK(files.all().at(store.files(store.current()).library) == "two");
    CHECK(files.all().at(store.files(one).preload) == library_path_inside() + "\n");
    store.offer("one");
    CHECK(store.current() == one);
}

TEST_CASE("half a build is made whole, and only the current one can be made") {
    FaultyFiles files;
    LibraryStore store(files, "/lib");
    store.offer("one");
    const std::string one = store.current();
    REQUIRE(store.ensure(one));
    files.drop(store.files(one).library);
    CHECK_FALSE(store.has(one));
    REQUIRE(store.ensure(one));
    CHECK(store.has(one));
    REQUIRE(store.remove(one));
    CHECK(store.list().empty());
    store.offer("two");
    CHECK_FALSE(store.ensure(one));
}

TEST_CASE("what is no build is left alone") {
    FaultyFiles files;
    LibraryStore store(files, "/lib");
    files.put("/lib/README/x", "");
    files.put("/lib/../x", "");
    CHECK(store.list().empty());
}
