#include "agent/report/top_view.hpp"

#include "agent/report/text_table.hpp"
#include "base/json.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace drawbridge::agent {
namespace {

std::int64_t figure(base::JsonView view, std::string_view member) {
    return view[member].as_int().value_or(0);
}

std::string memory_of(std::int64_t used, std::int64_t limit) {
    const std::int64_t percent = limit > 0
                                     ? static_cast<std::int64_t>(100.0 * static_cast<double>(used) /
                                                                 static_cast<double>(limit))
                                     : 0;
    return fmt::format("{} / {} MiB {}%", used >> 20, limit >> 20, percent);
}

TableRow share_row(base::JsonView share) {
    const base::JsonView rates = share["perSecond"];
    const std::int64_t cores = figure(share, "cores");
    return {"",
            or_dash(share["namespace"]),
            or_dash(share["pod"]),
            or_dash(share["container"]),
            or_dash(share["claim"]),
            memory_of(figure(share, "usedBytes"), figure(share, "memoryBytes")),
            cores == 0 ? "-" : fmt::format("{}%", cores),
            std::to_string(figure(share, "processes")),
            std::to_string(figure(rates, "launches")),
            fmt::format("{}%", figure(rates, "throttledMilliseconds") / 10),
            std::to_string(figure(rates, "denied"))};
}

/// Memory that the GPU's shares have charged; one that several containers have counts once.
std::int64_t used_of(base::JsonView shares) {
    std::int64_t used = 0;
    std::vector<std::string> seen;
    for (std::size_t i = 0; i < shares.size(); ++i) {
        const base::JsonView share = shares.at(i);
        std::string key =
            fmt::format("{} {}", share["claimUID"].string_or(""), figure(share, "share"));
        if (std::ranges::find(seen, key) != seen.end()) continue;
        seen.push_back(std::move(key));
        used += figure(share, "usedBytes");
    }
    return used;
}

}  // namespace

base::Result<std::string> top_view(const std::string& status) {
    const auto document = base::parse_json(status);
    if (!document) return tl::unexpected(document.error());
    const base::JsonView devices = document->root()["devices"];
    if (devices.size() == 0) return std::string("no devices\n");
    std::vector<TableRow> rows = {{"DEVICE", "NAMESPACE", "POD", "CONTAINER", "CLAIM", "MEMORY",
                                   "CORES", "PROCESSES", "LAUNCHES/S", "THROTTLED", "DENIED/S"}};
    for (std::size_t i = 0; i < devices.size(); ++i) {
        const base::JsonView device = devices.at(i);
        const base::JsonView shares = device["shares"];
        TableRow row(rows.front().size());
        row[0] = or_dash(device["name"]);
        row[5] = memory_of(used_of(shares), figure(device, "memoryBytes"));
        rows.push_back(std::move(row));
        for (std::size_t k = 0; k < shares.size(); ++k)
            rows.push_back(share_row(shares.at(k)));
    }
    return lay_out(rows);
}

std::string fit_screen(std::string_view text, std::size_t rows, std::size_t columns) {
    std::vector<std::string> lines;
    while (!text.empty()) {
        const std::size_t end = text.find('\n');
        lines.emplace_back(text.substr(0, end));
        text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    }
    if (rows != 0 && lines.size() > rows) {
        const std::size_t hidden = lines.size() - rows + 1;
        lines.resize(rows);
        lines.back() = fmt::format("... {} more lines", hidden);
    }
    std::string out;
    for (const std::string& line : lines)
        out += (columns != 0 ? line.substr(0, columns) : line) + '\n';
    return out;
}

}  // namespace drawbridge::agent
