#include "preload/real_libc.hpp"

#include <elf.h>
#include <link.h>
#include <stdint.h>

namespace preload {
namespace {

// The loader gives addresses as numbers.
// NOLINTBEGIN(performance-no-int-to-ptr)

struct Object {
    const char* strings = nullptr;
    const ElfW(Sym) * symbols = nullptr;
    const uint32_t* hash = nullptr;
    const char* soname = "";
};

// The loader relocates the pointers of the dynamic section in place, except in objects that it
// cannot write (the vDSO).
const char* address(ElfW(Addr) base, ElfW(Addr) value) {
    return reinterpret_cast<const char*>(value < base ? base + value : value);
}

Object object_of(ElfW(Addr) base, const ElfW(Dyn) * dynamic) {
    Object object;
    ElfW(Xword) soname = 0;
    for (; dynamic != nullptr && dynamic->d_tag != DT_NULL; ++dynamic) {
        const char* at = address(base, dynamic->d_un.d_ptr);
        if (dynamic->d_tag == DT_STRTAB) object.strings = at;
        if (dynamic->d_tag == DT_SYMTAB) object.symbols = reinterpret_cast<const ElfW(Sym)*>(at);
        if (dynamic->d_tag == DT_GNU_HASH) object.hash = reinterpret_cast<const uint32_t*>(at);
        if (dynamic->d_tag == DT_SONAME) soname = dynamic->d_un.d_val;
    }
    if (object.strings != nullptr) object.soname = object.strings + soname;
    return object;
}

bool can_be_asked(const Object& object) {
    return object.hash != nullptr && object.symbols != nullptr && object.strings != nullptr;
}

// DT_GNU_HASH: bucket count, first symbol, bloom words, shift; then bloom filter, buckets, chains.
const ElfW(Sym) * find(const Object& object, const char* name) {
    uint32_t wanted = 5381;
    for (const char* c = name; *c != '\0'; ++c)
        wanted = wanted * 33 + static_cast<unsigned char>(*c);
    const uint32_t buckets = object.hash[0];
    const uint32_t first = object.hash[1];
    const uint32_t* bucket =
        object.hash + 4 + object.hash[2] * (sizeof(ElfW(Addr)) / sizeof(uint32_t));
    const uint32_t* chain = bucket + buckets;
    for (uint32_t index = bucket[wanted % buckets]; index >= first && index != 0; ++index) {
        const uint32_t hash = chain[index - first];
        const ElfW(Sym)& symbol = object.symbols[index];
        if ((hash | 1) == (wanted | 1) && symbol.st_shndx != SHN_UNDEF &&
            same_text(object.strings + symbol.st_name, name))
            return &symbol;
        if ((hash & 1) != 0) break;
    }
    return nullptr;
}

template <class Function>
void take(ElfW(Addr) base, const Object& object, const char* name, Function& place) {
    const ElfW(Sym)* symbol = place == nullptr ? find(object, name) : nullptr;
    if (symbol != nullptr) place = reinterpret_cast<Function>(base + symbol->st_value);
}

int visit(dl_phdr_info* info, size_t, void* result) {
    const ElfW(Addr) base = info->dlpi_addr;
    const ElfW(Dyn)* dynamic = nullptr;
    for (int i = 0; i < info->dlpi_phnum; ++i)
        if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
            dynamic = reinterpret_cast<const ElfW(Dyn)*>(base + info->dlpi_phdr[i].p_vaddr);
    const Object object = object_of(base, dynamic);
    if (!can_be_asked(object) ||
        !(same_text(object.soname, "libc.so.6") || same_text(object.soname, "libdl.so.2")))
        return 0;
    auto& found = *static_cast<RealLibc*>(result);
    take(base, object, "dlopen", found.dlopen);
    take(base, object, "dlsym", found.dlsym);
    take(base, object, "dlvsym", found.dlvsym);
    take(base, object, "dlerror", found.dlerror);
    return 0;
}

// The C library's own, by the loader's list for debuggers. Whatever comes before the C library
// there was loaded when the process began, and stays as long as it lives.
decltype(&dl_iterate_phdr) real_iterate() {
    decltype(&dl_iterate_phdr) found = nullptr;
    for (const link_map* at = _r_debug.r_map; at != nullptr && found == nullptr; at = at->l_next) {
        const Object object = object_of(at->l_addr, at->l_ld);
        if (can_be_asked(object) && same_text(object.soname, "libc.so.6"))
            take(at->l_addr, object, "dl_iterate_phdr", found);
    }
    return found != nullptr ? found : &dl_iterate_phdr;
}

int visit_own(dl_phdr_info* info, size_t, void* result) {
    const auto here = reinterpret_cast<ElfW(Addr)>(&visit_own);
    for (int i = 0; i < info->dlpi_phnum; ++i) {
        const ElfW(Phdr)& part = info->dlpi_phdr[i];
        if (part.p_type == PT_LOAD && here - info->dlpi_addr - part.p_vaddr < part.p_memsz) {
            *static_cast<const char**>(result) = info->dlpi_name;
            return 1;
        }
    }
    return 0;
}

RealLibc known;
bool looked;

}  // namespace

extern "C" {
__attribute__((visibility("hidden"))) void* (*drawbridge_real_dlsym)(void*, const char*);
__attribute__((visibility("hidden"))) void* (*drawbridge_real_dlvsym)(void*, const char*,
                                                                      const char*);
}

const RealLibc& libc() {
    if (__atomic_load_n(&looked, __ATOMIC_ACQUIRE)) return known;
    RealLibc found = {};
    real_iterate()(&visit, &found);
    if (found.dlopen == nullptr) found.dlopen = [](const char*, int) -> void* { return nullptr; };
    if (found.dlsym == nullptr) found.dlsym = [](void*, const char*) -> void* { return nullptr; };
    if (found.dlvsym == nullptr)
        found.dlvsym = [](void*, const char*, const char*) -> void* { return nullptr; };
    if (found.dlerror == nullptr) found.dlerror = []() -> char* { return nullptr; };
    known = found;
    // Another preloaded library may wrap them too: callers are handed to the next in line, not past
    // it.
    void* next = found.dlsym(reinterpret_cast<void*>(-1L), "dlsym");
    void* next_versioned = found.dlsym(reinterpret_cast<void*>(-1L), "dlvsym");
    drawbridge_real_dlsym =
        next != nullptr ? reinterpret_cast<decltype(found.dlsym)>(next) : found.dlsym;
    drawbridge_real_dlvsym = next_versioned != nullptr
                                 ? reinterpret_cast<decltype(found.dlvsym)>(next_versioned)
                                 : found.dlvsym;
    __atomic_store_n(&looked, true, __ATOMIC_RELEASE);
    return known;
}
// NOLINTEND(performance-no-int-to-ptr)

bool& resolving() {
    static thread_local bool flag;
    return flag;
}

const char* own_path() {
    const char* path = "";
    dl_iterate_phdr(&visit_own, &path);
    return path;
}

}  // namespace preload
