#include "kube/claim_model.hpp"

#include "kube/quantity.hpp"

#include <algorithm>

namespace drawbridge::kube {

namespace {

using base::JsonWriter;

// ---------------------------------------------------------------------------------- writing

void write_names(JsonWriter& writer, std::string_view key, const std::vector<std::string>& names) {
    if (names.empty()) return;
    writer.key(key).begin_array();
    for (const std::string& name : names)
        writer.string(name);
    writer.end_array();
}

/// The members of a request that say what it wants; an object is open.
void write_body(JsonWriter& writer, const DeviceAlternative& alternative) {
    writer.member("deviceClassName", alternative.device_class);
    if (!alternative.selectors.empty()) {
        writer.key("selectors").begin_array();
        for (const std::string& expression : alternative.selectors) {
            writer.begin_object().key("cel").begin_object().member("expression", expression);
            writer.end_object().end_object();
        }
        writer.end_array();
    }
    if (alternative.count != 1) writer.key("count").integer(alternative.count);
    if (!alternative.capacity.empty()) {
        writer.key("capacity").begin_object().key("requests").begin_object();
        for (const auto& [name, amount] : alternative.capacity)
            writer.member(name, amount);
        writer.end_object().end_object();
    }
}

void write_request(JsonWriter& writer, const DeviceRequest& request) {
    writer.begin_object().member("name", request.name);
    const auto& alternatives = request.alternatives;
    if (alternatives.size() == 1 && alternatives.front().name.empty()) {
        writer.key("exactly").begin_object();
        write_body(writer, alternatives.front());
        writer.end_object();
    } else {
        writer.key("firstAvailable").begin_array();
        for (const DeviceAlternative& alternative : alternatives) {
            writer.begin_object().member("name", alternative.name);
            write_body(writer, alternative);
            writer.end_object();
        }
        writer.end_array();
    }
    writer.end_object();
}

void write_constraint(JsonWriter& writer, const DeviceConstraint& constraint) {
    writer.begin_object();
    write_names(writer, "requests", constraint.requests);
    if (!constraint.match_attribute.empty()) {
        writer.member("matchAttribute", constraint.match_attribute);
    }
    if (!constraint.distinct_attribute.empty()) {
        writer.member("distinctAttribute", constraint.distinct_attribute);
    }
    writer.end_object();
}

void write_config(JsonWriter& writer, const OpaqueConfig& config) {
    writer.begin_object();
    write_names(writer, "requests", config.requests);
    writer.key("opaque").begin_object().member("driver", config.driver);
    writer.key("parameters").raw(config.parameters).end_object().end_object();
}

template <class T>
void write_list(JsonWriter& writer, std::string_view key, const std::vector<T>& list,
                void (*write)(JsonWriter&, const T&)) {
    if (list.empty()) return;
    writer.key(key).begin_array();
    for (const T& item : list)
        write(writer, item);
    writer.end_array();
}

// ---------------------------------------------------------------------------------- comparing

bool same_json(const std::string& left, const std::string& right) {
    if (left == right) return true;
    const auto left_document = base::parse_json(left);
    const auto right_document = base::parse_json(right);
    return left_document && right_document &&
           same_value(left_document->root(), right_document->root());
}

bool same_amount(const std::string& left, const std::string& right) {
    if (left == right) return true;
    const auto left_amount = parse_quantity(left);
    const auto right_amount = parse_quantity(right);
    return left_amount && right_amount && *left_amount == *right_amount;
}

bool same(const DeviceAlternative& left, const DeviceAlternative& right) {
    return left.name == right.name && left.device_class == right.device_class &&
           left.count == right.count && left.selectors == right.selectors &&
           std::ranges::equal(left.capacity, right.capacity, [](const auto& a, const auto& b) {
               return a.first == b.first && same_amount(a.second, b.second);
           });
}

bool same(const DeviceRequest& left, const DeviceRequest& right) {
    return left.name == right.name &&
           std::ranges::equal(left.alternatives, right.alternatives,
                              [](const auto& a, const auto& b) { return same(a, b); });
}

bool same(const DeviceConstraint& left, const DeviceConstraint& right) {
    return left.requests == right.requests && left.match_attribute == right.match_attribute &&
           left.distinct_attribute == right.distinct_attribute;
}

bool same(const OpaqueConfig& left, const OpaqueConfig& right) {
    return left.requests == right.requests && left.driver == right.driver &&
           same_json(left.parameters, right.parameters);
}

}  // namespace

std::string to_json(const ClaimSpec& spec) {
    JsonWriter writer;
    writer.begin_object();
    write_list(writer, "requests", spec.requests, write_request);
    write_list(writer, "constraints", spec.constraints, write_constraint);
    write_list(writer, "config", spec.config, write_config);
    return writer.end_object().take();
}

std::string to_json(const ClaimTemplate& claim_template, std::string_view name_space,
                    TemplateWriter written_by) {
    JsonWriter writer;
    writer.begin_object().member("apiVersion", "resource.k8s.io/v1");
    writer.member("kind", "ResourceClaimTemplate").key("metadata").begin_object();
    writer.member("name", claim_template.name);
    if (!name_space.empty()) writer.member("namespace", name_space);
    if (written_by == TemplateWriter::server) {
        writer.key("labels").begin_object();
        writer.member("app.kubernetes.io/managed-by", "drawbridge").end_object();
    }
    writer.end_object().key("spec").begin_object().key("spec").begin_object();
    writer.key("devices").raw(to_json(claim_template.spec));
    return writer.end_object().end_object().end_object().take();
}

bool same_content(const ClaimSpec& left, const ClaimSpec& right) {
    const auto equal = [](const auto& a, const auto& b) { return same(a, b); };
    return std::ranges::equal(left.requests, right.requests, equal) &&
           std::ranges::equal(left.constraints, right.constraints, equal) &&
           std::ranges::equal(left.config, right.config, equal);
}

}  // namespace drawbridge::kube
