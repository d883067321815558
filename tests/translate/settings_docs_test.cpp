// Keeps docs/settings.md true: keys, defaults, examples and profiles are compared with the program.

#include "base/json.hpp"
#include "kube/manifest.hpp"
#include "translate/settings.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

namespace drawbridge::translate {
namespace {

using nlohmann::json;

std::vector<std::string> document_lines() {
    std::ifstream file(DRAWBRIDGE_SOURCE "/docs/settings.md");
    REQUIRE(file);
    std::vector<std::string> lines;
    for (std::string line; std::getline(file, line);)
        lines.push_back(line);
    return lines;
}

/// The texts between back quotes that fill a whole cell, and what stands in the others.
std::vector<std::string> cells(const std::string& line) {
    std::vector<std::string> result;
    std::size_t start = 2;
    for (auto end = line.find(" |", start); end != std::string::npos;
         end = line.find(" |", start)) {
        std::string cell = line.substr(start, end - start);
        if (cell.size() > 2 && cell.front() == '`' && cell.back() == '`')
            cell = cell.substr(1, cell.size() - 2);
        result.push_back(std::move(cell));
        start = end + 3;
    }
    return result;
}

/// Rows of tables with that many columns, by key; titles and rules left out.
std::map<std::string, std::vector<std::string>> rows(std::string_view title) {
    std::map<std::string, std::vector<std::string>> result;
    bool inside = false;
    for (const auto& line : document_lines()) {
        if (line.substr(0, 2) != "| ") {
            inside = inside && line.substr(0, 3) == "|--";
        } else if (line.substr(0, title.size()) == title) {
            inside = true;
        } else if (inside) {
            const auto row = cells(line);
            CHECK_MESSAGE(result.emplace(row.front(), row).second, row.front() << " has two rows");
        }
    }
    return result;
}

/// Every key of a settings document with its value; sections are gone into, maps and lists are
/// values.
std::map<std::string, json> fields_of(const Settings& settings) {
    std::map<std::string, json> fields;
    const json document = json::parse(settings_to_json(settings));
    for (const auto& [key, value] : document.items()) {
        if (!value.is_object()) {
            fields[key] = value;
            continue;
        }
        for (const auto& [inner, inner_value] : value.items())
            fields[fmt::format("{}.{}", key, inner)] = inner_value;
    }
    return fields;
}

base::Result<Settings> read(const std::string& text) {
    const auto document = base::parse_json(text);
    REQUIRE(document);
    return read_settings(document->root());
}

TEST_CASE("docs/settings.md has one row for each key, with its default") {
    const auto table = rows("| Key | Default |");
    const auto fields = fields_of(Settings{});
    CHECK(table.size() == fields.size());
    for (const auto& field : fields) {
        const auto& key = field.first;
        CAPTURE(key);
        REQUIRE(table.count(key) == 1);
        REQUIRE(table.at(key).size() == 4);
        CHECK(table.at(key)[1] == field.second.dump());
        CHECK(table.at(key)[2].size() > 10);
    }
}

TEST_CASE("each example of docs/settings.md is accepted and means what it says") {
    for (const auto& row : rows("| Key | Default |")) {
        const auto& key = row.first;
        CAPTURE(key);
        const json example = json::parse(row.second.at(3));
        json document = {{"apiVersion", "drawbridge.dev/v1"}, {"kind", "Settings"}};
        const auto dot = key.find('.');
        (dot == std::string::npos ? document[key]
                                  : document[key.substr(0, dot)][key.substr(dot + 1)]) = example;
        const auto settings = read(document.dump());
        REQUIRE_MESSAGE(settings, settings.error().message);
        const bool says_the_default = example.dump() == row.second.at(1);
        CHECK((*settings == Settings{}) == says_the_default);
    }
}

TEST_CASE("the table of profiles in docs/settings.md has exactly what differs") {
    const auto table = rows("| Key | `drawbridge` |");
    const std::vector<std::string> profiles = {"drawbridge", "hami", "nvidia"};
    std::vector<std::map<std::string, json>> fields;
    fields.reserve(profiles.size());
    for (const auto& profile : profiles)
        fields.push_back(fields_of(profile_settings(profile).value()));
    for (const auto& field : fields.front()) {
        const auto& key = field.first;
        if (key == "profile") continue;
        CAPTURE(key);
        const bool differs = fields[1].at(key) != field.second || fields[2].at(key) != field.second;
        CHECK((table.count(key) == 1) == differs);
        for (std::size_t i = 0; differs && i < profiles.size(); ++i)
            CHECK(table.at(key).at(i + 1) == fields[i].at(key).dump());
    }
}

TEST_CASE("each YAML block of docs/settings.md is a settings file") {
    std::size_t count = 0;
    std::string block;
    bool inside = false;
    for (const auto& line : document_lines()) {
        if (inside && line == "```") {
            const auto manifests = kube::read_manifests(block);
            REQUIRE_MESSAGE(manifests, manifests.error().message);
            const auto settings = read(manifests->at(0).json);
            CHECK_MESSAGE(settings, settings.error().message);
            ++count;
            block.clear();
        }
        if (inside) block += line + "\n";
        if (line.substr(0, 3) == "```") inside = line == "```yaml";
        if (!inside) block.clear();
    }
    CHECK(count == 2);
}

}  // namespace
}  // namespace drawbridge::translate
