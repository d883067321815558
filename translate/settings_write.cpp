// Settings as a settings document.

#include "base/json.hpp"
#include "translate/settings_fields.hpp"

#include <fmt/format.h>

#include <array>
#include <utility>

namespace drawbridge::translate {
namespace {

/// Bytes with the largest binary suffix that keeps them whole.
std::string quantity_text(std::int64_t bytes) {
    constexpr std::array<std::pair<int, std::string_view>, 4> suffixes = {
        {{40, "Ti"}, {30, "Gi"}, {20, "Mi"}, {10, "Ki"}}};
    for (const auto& [shift, suffix] : suffixes) {
        const std::int64_t unit = std::int64_t{1} << shift;
        if (bytes % unit == 0) return fmt::format("{}{}", bytes / unit, suffix);
    }
    return fmt::format("{}", bytes);
}

/// The visitor that writes each field it is shown.
class FieldWriter {
public:
    explicit FieldWriter(base::JsonWriter& out) : out_(out) {}

    void text(std::string_view key, const std::string& field, const TextRule& /*rule*/) {
        out_.member(key, field);
    }

    void texts(std::string_view key, const std::vector<std::string>& field,
               const TextRule& /*rule*/) {
        out_.key(key).begin_array();
        for (const auto& value : field)
            out_.string(value);
        out_.end_array();
    }

    void modes(std::string_view key, const std::map<std::string, ModeTarget>& field) {
        section(key, [&] {
            for (const auto& [name, mode] : field) {
                section(name, [&, &target = mode] { visit_mode(*this, target); });
            }
        });
    }

    void integer(std::string_view key, std::int64_t field, const IntegerRule& /*rule*/) {
        out_.key(key).integer(field);
    }

    void boolean(std::string_view key, bool field) { out_.key(key).boolean(field); }

    template <class T, std::size_t Count>
    void choice(std::string_view key, T field, const std::array<Choice<T>, Count>& words) {
        for (const auto& [word, value] : words) {
            if (value == field) out_.member(key, word);
        }
    }

    void labels(std::string_view key, const std::set<std::pair<std::string, std::string>>& field) {
        out_.key(key).begin_object();
        for (auto label = field.begin(); label != field.end();) {
            const std::string& name = label->first;
            out_.key(name).begin_array();
            for (; label != field.end() && label->first == name; ++label)
                out_.string(label->second);
            out_.end_array();
        }
        out_.end_object();
    }

    void sizes(std::string_view key, const std::vector<std::int64_t>& field) {
        out_.key(key).begin_array();
        for (const auto bytes : field)
            out_.string(quantity_text(bytes));
        out_.end_array();
    }

    void workloads(std::string_view key, const std::vector<WorkloadKind>& field) {
        out_.key(key).begin_array();
        for (const auto& workload : field) {
            out_.begin_object();
            out_.member("apiGroup", workload.api_group).member("kind", workload.kind);
            texts("paths", workload.pod_template_paths, rules::pod_template_path);
            out_.end_object();
        }
        out_.end_array();
    }

    template <class Fields>
    void section(std::string_view key, const Fields& fields) {
        out_.key(key).begin_object();
        fields();
        out_.end_object();
    }

private:
    base::JsonWriter& out_;
};

}  // namespace

std::string settings_to_json(const Settings& settings) {
    base::JsonWriter out;
    out.begin_object();
    out.member("apiVersion", settings_api_version).member("kind", settings_kind);
    out.member("profile", settings.profile);
    FieldWriter writer(out);
    visit_fields(writer, settings);
    out.end_object();
    return out.take();
}

}  // namespace drawbridge::translate
