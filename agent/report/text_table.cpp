#include "agent/report/text_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

namespace drawbridge::agent {

std::string lay_out(const std::vector<TableRow>& rows) {
    std::vector<std::size_t> widths(rows.front().size());
    for (const TableRow& row : rows) {
        for (std::size_t i = 0; i < row.size(); ++i)
            widths[i] = std::max(widths[i], row[i].size());
    }
    std::string out;
    for (const TableRow& row : rows) {
        std::string line;
        for (std::size_t i = 0; i < row.size(); ++i)
            line += fmt::format("{:<{}}  ", row[i], widths[i]);
        line.resize(line.find_last_not_of(' ') + 1);
        out += line + '\n';
    }
    return out;
}

std::string or_dash(base::JsonView text) {
    const std::string_view found = text.string_or("");
    return std::string(found.empty() ? "-" : found);
}

}  // namespace drawbridge::agent
