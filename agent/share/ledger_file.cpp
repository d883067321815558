#include "agent/share/ledger_file.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <fcntl.h>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>
#include <utility>

namespace drawbridge::agent {
namespace {

using base::ErrorKind;
using base::Result;

tl::unexpected<base::Error> failure(std::string_view action, const std::string& path) {
    const int code = errno;
    return base::fail(
        code == ENOENT || code == ENOTDIR ? ErrorKind::not_found : ErrorKind::internal,
        fmt::format("cannot {}: {}", action, std::generic_category().message(code)), path);
}

struct flock lock_of(std::size_t slot, short kind) {
    struct flock lock {};
    lock.l_type = kind;
    lock.l_whence = SEEK_SET;
    lock.l_start = static_cast<off_t>(DRAWBRIDGE_SLOT_LOCK(slot));
    lock.l_len = 1;
    return lock;
}

}  // namespace

Result<LedgerFile> LedgerFile::open(const std::string& path) {
    const int file = ::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
    if (file < 0) return failure("open the ledger", path);
    LedgerFile opened(file, path);
    struct stat facts {};
    if (::fstat(file, &facts) != 0) return failure("look at the ledger", path);
    if (!S_ISREG(facts.st_mode) || facts.st_size != DRAWBRIDGE_LEDGER_SIZE)
        return base::fail(ErrorKind::internal, "no file of a ledger's size", path);
    return opened;
}

LedgerFile::LedgerFile(LedgerFile&& other) noexcept
    : file_(std::exchange(other.file_, -1)), path_(std::move(other.path_)) {}

LedgerFile::~LedgerFile() {
    if (file_ >= 0) ::close(file_);
}

Result<std::string> LedgerFile::part(std::size_t offset, std::size_t size) const {
    std::string bytes(size, '\0');
    ssize_t got = 0;
    do {
        got = ::pread(file_, bytes.data(), size, static_cast<off_t>(offset));
    } while (got < 0 && errno == EINTR);
    if (got < 0) return failure("read the ledger", path_);
    if (static_cast<std::size_t>(got) != size)
        return base::fail(ErrorKind::internal, "the ledger has been cut", path_);
    return bytes;
}

bool LedgerFile::is_there() const {
    struct stat facts {};
    return ::fstat(file_, &facts) == 0 && facts.st_nlink > 0 &&
           facts.st_size == DRAWBRIDGE_LEDGER_SIZE;
}

Result<LedgerCopy> LedgerFile::read() const {
    const auto head = part(0, ledger_head_bytes);
    if (!head) return tl::unexpected(head.error());
    const auto slots = slots_in_head(*head);
    if (!slots) return tl::unexpected(slots.error());
    const auto used = part(used_offset(0), *slots * sizeof(std::uint64_t));
    if (!used) return tl::unexpected(used.error());
    const auto content = part(slot_offset(0), *slots * sizeof(drawbridge_slot));
    if (!content) return tl::unexpected(content.error());
    return ledger_copy(*used, *content);
}

bool LedgerFile::is_held(std::size_t slot) const {
    struct flock lock = lock_of(slot, F_WRLCK);
    return ::fcntl(file_, F_OFD_GETLK, &lock) != 0 || lock.l_type != F_UNLCK;
}

bool LedgerFile::write(std::size_t offset, std::size_t size) const {
    const std::string zeros(size, '\0');
    return ::pwrite(file_, zeros.data(), size, static_cast<off_t>(offset)) ==
           static_cast<ssize_t>(size);
}

bool LedgerFile::clear(std::size_t slot, const SlotOwner& owner) const {
    struct flock lock = lock_of(slot, F_WRLCK);
    if (::fcntl(file_, F_OFD_SETLK, &lock) != 0) return false;
    bool cleared = false;
    if (const auto now = part(slot_offset(slot), sizeof(drawbridge_slot))) {
        const std::string word(sizeof(std::uint64_t), '\0');
        const LedgerSlot found = ledger_copy(word, *now).front();
        // Its word first, so that no sum counts what nobody holds.
        cleared = found.is_live() && found.owner() == owner &&
                  write(used_offset(slot), sizeof(std::uint64_t)) &&
                  write(slot_offset(slot), sizeof(drawbridge_slot));
    }
    lock = lock_of(slot, F_UNLCK);
    static_cast<void>(::fcntl(file_, F_OFD_SETLK, &lock));
    return cleared;
}

std::vector<std::size_t> reap(const LedgerFile& file, const LedgerCopy& copy,
                              const std::function<ProcessTable()>& processes) {
    std::vector<std::size_t> free;
    for (std::size_t slot = 0; slot < copy.size(); ++slot) {
        if (copy[slot].is_live() && !file.is_held(slot)) free.push_back(slot);
    }
    std::vector<std::size_t> reaped;
    if (free.empty()) return reaped;
    // A process that closes all its descriptors loses its lock and lives.
    const ProcessTable table = processes();
    for (const std::size_t slot : free) {
        const SlotOwner owner = copy[slot].owner();
        if (owner_state(owner, table) == OwnerState::gone && file.clear(slot, owner))
            reaped.push_back(slot);
    }
    return reaped;
}

}  // namespace drawbridge::agent
