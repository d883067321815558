#include "agent/cdi/driver_places.hpp"

#include "base/atomic_file.hpp"
#include "base/descriptor.hpp"

#include <fmt/format.h>

#include <array>
#include <cerrno>
#include <fcntl.h>
#include <filesystem>
#include <linux/openat2.h>
#include <sys/syscall.h>
#include <system_error>
#include <unistd.h>

namespace drawbridge::agent {
namespace {

namespace fs = std::filesystem;

using base::Descriptor;

/// Where the GPU Operator shows its driver container's root on the host.
constexpr std::string_view operator_root = "/run/nvidia/driver";
constexpr std::string_view nvidia_vendor = "0x10de";
constexpr std::string_view display_class = "0x03";
constexpr std::size_t max_small_file = 4096;

/// Opens what a path names below a folder, as if that were the root.
int open_below(int folder, const std::string& path) {
    open_how how{};
    how.flags = O_PATH | O_CLOEXEC;
    how.resolve = RESOLVE_IN_ROOT;
    return static_cast<int>(::syscall(SYS_openat2, folder, path.c_str(), &how, sizeof how));
}

/// Where an open file lies; empty where that is not known.
std::string place_of(const Descriptor& file) {
    std::error_code failure;
    return fs::read_symlink(fmt::format("/proc/self/fd/{}", file.get()), failure).string();
}

bool begins_with(const std::string& file, std::string_view text) {
    return base::read_file(file, max_small_file).value_or("").starts_with(text);
}

}  // namespace

DriverPlaces driver_places(const std::string& host_root, const DriverRoot& named) {
    if (!named.seen.empty()) return {.roots = {named}, .host_root = host_root, .expected = true};
    if (host_root.empty()) return {};
    const DriverRoot own{.seen = host_root, .host = ""};
    const DriverRoot container{.seen = fmt::format("{}{}", host_root, operator_root),
                               .host = std::string(operator_root)};
    return {.roots = {own, container}, .host_root = host_root};
}

bool has_nvidia_device(const std::string& host_root) {
    std::error_code failure;
    for (const auto& entry : fs::directory_iterator(host_root + "/sys/bus/pci/devices", failure)) {
        const std::string device = entry.path().string();
        if (begins_with(device + "/vendor", nvidia_vendor) &&
            begins_with(device + "/class", display_class))
            return true;
    }
    return false;
}

std::optional<std::string> in_root(const std::string& root, std::string_view path) {
    const std::string whole = fmt::format("{}{}", root, path);
    std::error_code failure;
    if (root.empty()) return fs::exists(whole, failure) ? std::optional(whole) : std::nullopt;
    const Descriptor folder(::open(root.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (folder.get() < 0) return std::nullopt;
    const Descriptor file(open_below(folder.get(), std::string(path)));
    // A kernel before 5.6: links that lead out of the root are followed to where they lead here.
    if (file.get() < 0 && errno == ENOSYS)
        return fs::exists(whole, failure) ? std::optional(whole) : std::nullopt;
    if (file.get() < 0) return std::nullopt;
    const std::string real_root = place_of(folder);
    const std::string real = place_of(file);
    if (real_root.empty() || !real.starts_with(real_root)) return std::nullopt;
    return root + real.substr(real_root.size());
}

}  // namespace drawbridge::agent
