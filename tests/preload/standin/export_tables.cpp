// The tables of functions that a CUDA runtime (cudart) asks the driver for by UUID; NVIDIA
// documents none of them. Their UUIDs and lengths are those that programs were recorded to ask for
// and to get (../recorded, trace.tsv), and that NVIDIA's libcuda 535 gives without a GPU. What the
// functions take and answer is known from free implementations of the driver (ZLUDA's dark_api) and
// from what cudart 11.7 and 11.8 do with it. A function that none of our programs calls answers
// "not supported".
//
// One table is left out on purpose, d4082055-bde6-704b-8d34-ba123c66e1f2: by it a runtime has a
// driver of CUDA 11.2 or newer prove that it is NVIDIA's own, which this one is not. A driver that
// is older, by its version and by the room in its hook table, is not asked.
#include "tests/preload/standin/count.hpp"
#include "tests/preload/standin/driver.hpp"

#include <algorithm>
#include <cstring>

using namespace standin;

namespace {

using Word = const void*;

enum Name { cudart, hooks, thread_storage, context_storage };

const char* const counted_as[] = {"cudart table: other", "hook table: other",
                                  "thread storage: other", "context storage: other"};

template <Name table>
int other() {
    COUNT_CALL(counted_as[table]);
    return not_supported;
}

template <class Function>
Word word(Function* function) {
    return reinterpret_cast<Word>(function);
}

/// Most tables begin with their length in bytes.
template <Name table, std::size_t size>
struct Table {
    Word words[size];

    Table(bool has_length, std::initializer_list<std::pair<std::size_t, Word>> functions) {
        std::fill(words, words + size, word(other<table>));
        if (has_length) words[0] = reinterpret_cast<Word>(sizeof words);
        for (const auto& [at, function] : functions)
            words[at] = function;
    }
};

/// The handle of a device's primary context, whether it is in use or not.
int primary_context(Context** context, int device) {
    COUNT_CALL("cudart table: primary context");
    NEEDS_INIT();
    if (context == nullptr) return invalid_value;
    if (!known(device)) return invalid_device;
    *context = primary_of(device);
    return success;
}

/// Room for entries in which a runtime notes what a profiler wants to be told of; no profiler is
/// here. `now` is how many libcuda 535 has room for, `before` how many a driver before CUDA 11.2
/// had, by what free implementations of that time answered and cudart 11.8 is content with.
template <std::uint64_t now, std::uint64_t before>
int room(void** start, std::uint64_t* entries) {
    COUNT_CALL("hook table: room");
    static std::uint64_t kept[now];
    *start = kept;
    *entries = driver_version() < 11020 ? before : now;
    return success;
}

/// Null stands for the calling thread's current context.
Context* alive(Context* context) {
    if (context == nullptr) context = current();
    return context != nullptr && driver().contexts.count(context) != 0 ? context : nullptr;
}

/// Keeps a value with a context. `farewell` is called when the context goes, not when the value is
/// dropped.
int put(Context* context, void* key, void* value, Stored::Farewell farewell) {
    COUNT_CALL("context storage: put");
    NEEDS_INIT();
    context = alive(context);
    if (context == nullptr) return invalid_context;
    context->storage[key] = {value, farewell};
    return success;
}

int drop(Context* context, void* key) {
    COUNT_CALL("context storage: drop");
    NEEDS_INIT();
    context = alive(context);
    if (context == nullptr) return invalid_context;
    return context->storage.erase(key) != 0 ? success : invalid_handle;
}

int get(void** value, Context* context, void* key) {
    COUNT_CALL("context storage: get");
    NEEDS_INIT();
    context = alive(context);
    if (context == nullptr) return invalid_context;
    const auto found = context->storage.find(key);
    if (found == context->storage.end()) return invalid_handle;
    *value = found->second.value;
    return success;
}

Word table_of(const unsigned char* id) {
    static const Table<cudart, 13> of_cudart(true, {{2, word(primary_context)}});
    static const Table<hooks, 7> of_hooks(true,
                                          {{2, word(room<1024, 512>)}, {6, word(room<14, 14>)}});
    static const Table<thread_storage, 3> of_threads(true, {});
    static const Table<context_storage, 4> of_contexts(
        false, {{0, word(put)}, {1, word(drop)}, {2, word(get)}});
    static const struct {
        unsigned char id[17];
        Word words;
    } tables[] = {
        {"\x6b\xd5\xfb\x6c\x5b\xf4\xe7\x4a\x89\x87\xd9\x39\x12\xfd\x9d\xf9", of_cudart.words},
        {"\xa0\x94\x79\x8c\x2e\x74\x2e\x74\x93\xf2\x08\x00\x20\x0c\x0a\x66", of_hooks.words},
        {"\x42\xd8\x5a\x81\x23\xf6\xcb\x47\x82\x98\xf6\xe7\x8a\x3a\xec\xdc", of_threads.words},
        {"\xc6\x93\x33\x6e\x11\x21\xdf\x11\xa8\xc3\x68\xf3\x55\xd8\x95\x93", of_contexts.words},
    };
    for (const auto& one : tables)
        if (std::memcmp(one.id, id, 16) == 0) return one.words;
    return nullptr;
}

}  // namespace

extern "C" {

int cuGetExportTable(Word* table, const unsigned char* id) {
    COUNT_CALL("cuGetExportTable");
    if (table == nullptr || id == nullptr) return invalid_value;
    *table = table_of(id);
    return *table == nullptr ? invalid_value : success;  // as libcuda 535 answers
}
}
