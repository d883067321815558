#pragma once
// What of physical memory is bound or mapped where no address says so: ranges of a multicast
// object, boxes of a sparse array. One call may take a part of what another one made.

#include "preload/os.hpp"

#include <stdint.h>

namespace preload {

/// From and to (exclusive) on three axes.
struct Box {
    uint64_t from[3] = {0, 0, 0};
    uint64_t to[3] = {1, 1, 1};
};

/// A range on the first axis; it ends at the largest number where it would go beyond.
inline Box range_of(uint64_t offset, uint64_t bytes) {
    Box box;
    box.from[0] = offset;
    if (__builtin_add_overflow(offset, bytes, &box.to[0])) box.to[0] = UINT64_MAX;
    return box;
}

/// Physical memory: a handle, and which of those that had this handle one after the other. A `life`
/// of 0 is none that is known.
struct Memory {
    uint64_t handle = 0;
    uint16_t life = 0;
};

/// `owner` is the object that holds the memory, `part` where in it: boxes of different parts never
/// meet. The later one has the greater number.
struct Piece {
    uint64_t owner = 0;
    uint64_t part = 0;
    Box box;
    Memory memory;
    uint64_t number = 0;
    Piece* next = nullptr;
};

inline bool meet(const Box& a, const Box& b) {
    for (int axis = 0; axis < 3; ++axis)
        if (a.from[axis] >= b.to[axis] || b.from[axis] >= a.to[axis]) return false;
    return true;
}

/// What is left of a box without a hole that meets it: up to six boxes; how many.
inline int rest_of(Box box, const Box& hole, Box (&rest)[6]) {
    int count = 0;
    for (int axis = 0; axis < 3; ++axis) {
        if (box.from[axis] < hole.from[axis]) {
            rest[count] = box;
            rest[count++].to[axis] = box.from[axis] = hole.from[axis];
        }
        if (box.to[axis] > hole.to[axis]) {
            rest[count] = box;
            rest[count++].from[axis] = box.to[axis] = hole.to[axis];
        }
    }
    return count;
}

/// A hash table by owner and part; the caller holds a lock. Zero-initialised means empty.
class PieceList {
public:
    /// Makes sure of room for so many pieces. False where no memory could be had.
    bool promise(uint64_t count) {
        while (free_count_ < promised_ + count)
            if (!grow()) return false;
        promised_ += count;
        return true;
    }
    /// Gives promised room back.
    void withdraw(uint64_t count) { promised_ -= count; }

    /// Adds a piece for which there is a promise.
    void keep(const Piece& piece) {
        --promised_;
        link(piece);
    }

    /// Takes out what lies in a box, of pieces up to a number. `change(memory, more, less)`: in how
    /// many pieces more and less the memory now is. A piece that no memory is there to split stays
    /// whole.
    template <class Change>
    void cut(uint64_t owner, uint64_t part, const Box& hole, uint64_t number, Change change) {
        Piece** place = &bucket(owner, part);
        while (*place != nullptr) {
            Piece& piece = **place;
            Box rest[6];
            const bool is_met = piece.owner == owner && piece.part == part &&
                                piece.number <= number && meet(piece.box, hole);
            const int count = is_met ? rest_of(piece.box, hole, rest) : 0;
            const uint64_t more = count > 1 ? static_cast<uint64_t>(count) - 1 : 0;
            if (!is_met || !promise(more)) {
                place = &piece.next;
                continue;
            }
            Piece left = piece;
            if (count == 0) {
                unlink(place);
            } else {
                piece.box = rest[0];
                place = &piece.next;
                for (int next = 1; next < count; ++next) {
                    left.box = rest[next];
                    keep(left);
                }
            }
            change(left.memory, more, count == 0 ? 1 : 0);
        }
    }

    /// Takes out all pieces of an owner and tells `each(memory)` of them, which may use this list.
    template <class Each>
    void drop(uint64_t owner, Each each) {
        Piece* gone = nullptr;
        for (uint64_t at = 0; count_ != 0 && at < buckets; ++at)
            for (Piece** place = &heads_[at]; *place != nullptr;)
                if ((*place)->owner == owner)
                    move(place, gone);
                else
                    place = &(*place)->next;
        while (gone != nullptr) {
            const Memory memory = gone->memory;
            Piece* next = gone->next;
            give(gone);
            gone = next;
            each(memory);
        }
    }

    uint64_t size() const { return count_; }

    void forget() {
        while (chunks_ != nullptr) {
            Chunk* next = chunks_->next;
            unmap(chunks_, sizeof(Chunk));
            chunks_ = next;
        }
        *this = PieceList{};
    }

private:
    static constexpr uint64_t buckets = 1024;
    struct Chunk {
        Chunk* next;
        Piece pieces[512];
    };

    Piece*& bucket(uint64_t owner, uint64_t part) {
        return heads_[(owner * 31 + part) * 0x9E3779B97F4A7C15ull >> 54];
    }

    void link(const Piece& piece) {
        Piece* place = free_;
        free_ = place->next;
        --free_count_;
        *place = piece;
        Piece*& head = bucket(piece.owner, piece.part);
        place->next = head;
        head = place;
        ++count_;
    }

    void move(Piece** place, Piece*& list) {
        Piece* piece = *place;
        *place = piece->next;
        piece->next = list;
        list = piece;
        --count_;
    }

    void give(Piece* piece) {
        piece->next = free_;
        free_ = piece;
        ++free_count_;
    }

    void unlink(Piece** place) {
        Piece* alone = nullptr;
        move(place, alone);
        give(alone);
    }

    bool grow() {
        auto* chunk = static_cast<Chunk*>(pages(sizeof(Chunk)));
        if (chunk == nullptr) return false;
        chunk->next = chunks_;
        chunks_ = chunk;
        for (Piece& piece : chunk->pieces)
            give(&piece);
        return true;
    }

    Piece* heads_[buckets] = {};
    Piece* free_ = nullptr;
    Chunk* chunks_ = nullptr;
    uint64_t free_count_ = 0;
    uint64_t promised_ = 0;
    uint64_t count_ = 0;
};

}  // namespace preload
