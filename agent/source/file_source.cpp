#include "agent/device/device_list.hpp"
#include "agent/source/device_source.hpp"
#include "base/atomic_file.hpp"

#include <fmt/format.h>

#include <optional>
#include <utility>

namespace drawbridge::agent {
namespace {

constexpr std::size_t max_list = 1U << 20U;

class FileSource final : public DeviceSource {
public:
    explicit FileSource(std::string path) : path_(std::move(path)) {}

    base::Result<std::vector<Device>> read() override {
        const auto text = base::read_file(path_, max_list);
        if (!text) return tl::unexpected(text.error());
        if (devices_ && *text == text_) return *devices_;
        devices_.reset();
        auto devices = parse_device_list(*text);
        if (!devices) {
            devices.error().message =
                fmt::format("{}: {}: {}", path_, devices.error().path, devices.error().message);
            return devices;
        }
        text_ = *text;
        devices_ = *devices;
        return devices;
    }
    base::Result<DriverEdits> edits() override { return DriverEdits{}; }
    std::string name() const override { return path_; }

private:
    std::string path_;
    std::string text_;
    std::optional<std::vector<Device>> devices_;  ///< of that text
};

}  // namespace

std::unique_ptr<DeviceSource> make_file_source(std::string path) {
    return std::make_unique<FileSource>(std::move(path));
}

}  // namespace drawbridge::agent
