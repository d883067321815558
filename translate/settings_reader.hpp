#pragma once
// A visitor that fills fields from a JSON object and collects what is wrong with it.

#include "base/json.hpp"
#include "translate/settings.hpp"
#include "translate/settings_fields.hpp"
#include "translate/settings_problems.hpp"
#include "translate/settings_rules.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace drawbridge::translate {

/// Reads the members of one object. A member that is missing or null, or that is wrong, leaves its
/// field as it is; a list or map that is there replaces the whole field.
class FieldReader {
public:
    /// `place` is where the object lies, as it stands in messages.
    FieldReader(base::JsonView object, std::string place, Problems& problems)
        : problems_(problems), frames_{{object, std::move(place), {}}} {}

    void text(std::string_view key, std::string& field, const TextRule& rule);
    void texts(std::string_view key, std::vector<std::string>& field, const TextRule& rule);
    void modes(std::string_view key, std::map<std::string, ModeTarget>& field);
    void integer(std::string_view key, std::int64_t& field, const IntegerRule& rule);
    void boolean(std::string_view key, bool& field);
    void labels(std::string_view key, std::set<std::pair<std::string, std::string>>& field);
    void sizes(std::string_view key, std::vector<std::int64_t>& field);
    void workloads(std::string_view key, std::vector<WorkloadKind>& field);

    template <class T, std::size_t Count>
    void choice(std::string_view key, T& field, const std::array<Choice<T>, Count>& words) {
        const base::JsonView found = member(key);
        if (found.is_absent() || !expect(found, base::JsonKind::string, place_of(key))) return;
        std::vector<std::string_view> known;
        for (const auto& [word, value] : words) {
            if (word == found.as_string()) {
                field = value;
                return;
            }
            known.push_back(word);
        }
        problems_.add(place_of(key), unknown_name("value", found.string_or(""), known));
    }

    template <class Fields>
    void section(std::string_view key, const Fields& fields) {
        const base::JsonView value = member(key);
        if (value.is_absent() || !expect(value, base::JsonKind::object, place_of(key))) return;
        frames_.push_back({value, place_of(key), {}});
        fields();
        report_unknown();
        frames_.pop_back();
    }

    /// Marks a member as known that is read elsewhere.
    void skip(std::string_view key) { frames_.back().known.push_back(key); }
    /// Reports each member that nothing asked for.
    void report_unknown();

private:
    /// An object that is being read.
    struct Frame {
        base::JsonView object;
        std::string place;
        std::vector<std::string_view> known;
    };

    [[nodiscard]] std::string place_of(std::string_view key) const;
    [[nodiscard]] base::JsonView member(std::string_view key);
    /// The text of `value` if it is one that keeps the rule; reports it otherwise.
    [[nodiscard]] std::optional<std::string> checked(base::JsonView value, std::string_view place,
                                                     const TextRule& rule);
    void read_mode(std::string_view name, base::JsonView value,
                   std::map<std::string, ModeTarget>& modes);
    void read_workload(base::JsonView value, const std::string& place,
                       std::vector<WorkloadKind>& workloads);
    /// Whether `value` is of that kind, and no longer than `max` elements; reports it otherwise.
    [[nodiscard]] bool expect(base::JsonView value, base::JsonKind kind, std::string_view place,
                              std::size_t max = rules::max_list);

    Problems& problems_;
    std::vector<Frame> frames_;
};

}  // namespace drawbridge::translate
