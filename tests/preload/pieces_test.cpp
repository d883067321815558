#include "preload/pieces.hpp"

#include <doctest/doctest.h>

#include <array>
#include <map>
#include <memory>
#include <random>

using namespace preload;

namespace {

constexpr std::uint64_t side = 6;

/// What the list is to hold, cell by cell.
struct Cells {
    using Place = std::array<std::uint64_t, 5>;
    std::map<Place, std::uint64_t> handle_at;

    template <class Change>
    static void each(std::uint64_t owner, std::uint64_t part, const Box& box, Change change) {
        for (std::uint64_t x = box.from[0]; x < box.to[0]; ++x)
            for (std::uint64_t y = box.from[1]; y < box.to[1]; ++y)
                for (std::uint64_t z = box.from[2]; z < box.to[2]; ++z)
                    change(Place{owner, part, x, y, z});
    }
};

struct Random {
    std::mt19937_64 engine{11};
    std::uint64_t below(std::uint64_t end) { return engine() % end; }
    Box box() {
        Box made;
        for (int axis = 0; axis < 3; ++axis) {
            made.from[axis] = below(side);
            made.to[axis] = made.from[axis] + 1 + below(side - made.from[axis]);
        }
        return made;
    }
};

}  // namespace

TEST_CASE("pieces hold what cells hold, over random boxes that are put over each other and cut") {
    auto list = std::make_unique<PieceList>();
    Cells cells;
    Random random;
    std::map<std::uint64_t, std::int64_t> pieces_of;  // as the callbacks tell
    const auto count = [&](const Memory& memory, std::uint64_t more, std::uint64_t less) {
        pieces_of[memory.handle] +=
            static_cast<std::int64_t>(more) - static_cast<std::int64_t>(less);
    };
    for (std::uint64_t step = 1; step <= 20000; ++step) {
        const std::uint64_t owner = random.below(3);
        const std::uint64_t part = random.below(2);
        const Box box = random.box();
        if (step % 97 == 0) {
            list->drop(owner, [&](const Memory& memory) { --pieces_of[memory.handle]; });
            std::erase_if(cells.handle_at,
                          [&](const auto& cell) { return cell.first[0] == owner; });
        } else {
            list->cut(owner, part, box, step, count);
            Cells::each(owner, part, box, [&](const auto& at) { cells.handle_at.erase(at); });
        }
        if (step % 97 != 0 && random.below(2) == 0) {
            REQUIRE(list->promise(1));
            list->keep({owner, part, box, {step, 1}, step});
            ++pieces_of[step];
            Cells::each(owner, part, box, [&](const auto& at) { cells.handle_at[at] = step; });
        }
        std::map<std::uint64_t, bool> held;
        for (const auto& [at, handle] : cells.handle_at)
            held[handle] = true;
        std::uint64_t sum = 0;
        for (auto at = pieces_of.begin(); at != pieces_of.end();) {
            REQUIRE(at->second >= 0);
            REQUIRE((at->second > 0) == held.contains(at->first));
            sum += static_cast<std::uint64_t>(at->second);
            at = at->second == 0 ? pieces_of.erase(at) : std::next(at);
        }
        REQUIRE(list->size() == sum);
    }
    list->forget();
}

TEST_CASE("a range that would end beyond all numbers ends with them") {
    CHECK(range_of(5, 3).to[0] == 8);
    CHECK(range_of(UINT64_MAX - 1, 3).to[0] == UINT64_MAX);
}

TEST_CASE("a cut takes no piece that came after its number") {
    auto list = std::make_unique<PieceList>();
    for (std::uint64_t number : {1u, 2u, 3u}) {
        REQUIRE(list->promise(1));
        list->keep({1, 0, range_of(0, 8), {100 + number, 1}, number});
    }
    std::uint64_t sum = 0;
    list->cut(1, 0, range_of(0, 8), 2,
              [&](const Memory& memory, std::uint64_t, std::uint64_t) { sum += memory.handle; });
    CHECK(sum == 101 + 102);
    CHECK(list->size() == 1);
    list->forget();
}

TEST_CASE("dropping what is held may use the list") {
    auto list = std::make_unique<PieceList>();
    for (std::uint64_t at = 0; at < 2000; ++at) {
        REQUIRE(list->promise(1));
        list->keep({1 + at % 2, 0, range_of(at, 1), {at, 1}});
    }
    std::uint64_t told = 0;
    list->drop(1, [&](const Memory&) {
        if (told++ == 0) list->drop(2, [&](const Memory&) { ++told; });
    });
    CHECK(told == 2000);
    CHECK(list->size() == 0);
    list->forget();
}

TEST_CASE("room that was promised is there, however much others take") {
    auto list = std::make_unique<PieceList>();
    REQUIRE(list->promise(600));
    REQUIRE(list->promise(600));
    for (std::uint64_t at = 0; at < 1200; ++at)
        list->keep({1, 0, range_of(at, 1), {7, 1}});
    CHECK(list->size() == 1200);
    REQUIRE(list->promise(1));
    list->withdraw(1);
    list->forget();
}
