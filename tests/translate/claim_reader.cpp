#include "tests/translate/claim_reader.hpp"

#include "kube/claim_model.hpp"
#include "tests/translate/decimal.hpp"

#include <algorithm>

namespace drawbridge::oracle {
namespace {

using nlohmann::json;

/// The object itself, if it has no member but the allowed ones: an API server drops others without
/// a word.
const json& only(const json& object, const std::string& where,
                 const std::set<std::string>& allowed) {
    require(object.is_object(), where + " is no object");
    for (const auto& [key, value] : object.items()) {
        require(allowed.contains(key),
                where + " has the field " + key + ", which does not belong there");
    }
    return object;
}

std::string text_at(const json& object, const std::string& key, const std::string& where) {
    require(object.contains(key) && object[key].is_string(), where + " has no text " + key);
    return object[key];
}

Alternative read_alternative(const json& entry, const std::string& where, bool named) {
    std::set<std::string> allowed{"deviceClassName", "selectors", "allocationMode", "count",
                                  "capacity"};
    if (named) allowed.insert("name");
    only(entry, where, allowed);
    require(!named || is_label(text_at(entry, "name", where)),
            where + ": a subrequest name is no DNS label");
    require(entry.value("allocationMode", "ExactCount") == "ExactCount",
            where + ": allocation mode");
    Alternative read{
        text_at(entry, "deviceClassName", where), entry.value("count", std::int64_t{1}), {}, {}};
    require(read.count > 0, where + ": count");
    for (const auto& selector : entry.value("selectors", json::array())) {
        const auto& cel = only(only(selector, where, {"cel"})["cel"], where, {"expression"});
        read.selectors.push_back(text_at(cel, "expression", where));
        require(read.selectors.back().size() <= 10240, where + ": an expression over 10 KiB");
    }
    require(read.selectors.size() <= 32, where + ": more than 32 selectors");
    const auto capacity = only(entry.value("capacity", json::object()), where, {"requests"});
    const auto amounts = capacity.value("requests", json::object());
    for (const auto& [name, value] : amounts.items()) {
        require(value.is_string(), where + ": capacity " + name + " is no text");
        const auto amount = read_quantity(value.get<std::string>());
        require(amount && amount->whole(), where + ": capacity " + name + " is " + value.dump());
        read.amounts[name] = *amount->whole();
    }
    return read;
}

Request read_request(const json& entry) {
    only(entry, "request", {"name", "exactly", "firstAvailable"});
    Request read{text_at(entry, "name", "request"), {}};
    const auto where = "request " + read.name;
    require(is_label(read.name), where + " is no DNS label");
    require(entry.contains("exactly") != entry.contains("firstAvailable"),
            where + ": one of two forms");
    if (entry.contains("exactly")) {
        read.alternatives.push_back(read_alternative(entry["exactly"], where, false));
        return read;
    }
    std::set<std::string> names;
    for (const auto& part : entry["firstAvailable"]) {
        read.alternatives.push_back(read_alternative(part, where, true));
        require(names.insert(part["name"]).second, where + ": two subrequests of one name");
        require(read.alternatives.back().count == read.alternatives[0].count,
                where + ": different counts");
    }
    require(!names.empty() && names.size() <= 8, where + ": 1 to 8 alternatives are allowed");
    return read;
}

Constraint read_constraint(const json& entry, const std::set<std::string>& names) {
    only(entry, "constraint", {"requests", "matchAttribute", "distinctAttribute"});
    require(entry.contains("matchAttribute") != entry.contains("distinctAttribute"),
            "constraint: one attribute");
    Constraint read;
    read.distinct = entry.contains("distinctAttribute");
    read.attribute =
        text_at(entry, read.distinct ? "distinctAttribute" : "matchAttribute", "constraint");
    require(read.attribute.find('/') != std::string::npos,
            "constraint: attribute without a domain");
    for (const auto& name : entry.value("requests", json::array()))
        read.requests.insert(name.get<std::string>());
    require(std::includes(names.begin(), names.end(), read.requests.begin(), read.requests.end()),
            "constraint on unknown requests");
    if (read.requests.empty()) read.requests = names;
    return read;
}

void read_config(const json& entry, const std::set<std::string>& names,
                 const translate::Settings& settings, Claim& claim) {
    only(entry, "config", {"requests", "opaque"});
    const auto& opaque = only(entry["opaque"], "opaque", {"driver", "parameters"});
    require(text_at(opaque, "driver", "opaque") == settings.target.driver,
            "config for another driver");
    std::set<std::string> named;
    for (const auto& name : entry.value("requests", json::array()))
        named.insert(name.get<std::string>());
    require(named.empty() || named == names, "config that leaves requests out");
    const auto& parameters =
        only(opaque["parameters"], "ShareConfig", {"apiVersion", "kind", "priority", "corePolicy"});
    require(text_at(parameters, "apiVersion", "ShareConfig") == "gpu.drawbridge.dev/v1",
            "ShareConfig version");
    require(text_at(parameters, "kind", "ShareConfig") == "ShareConfig", "ShareConfig kind");
    if (parameters.contains("priority")) {
        require(parameters["priority"] == 0 || parameters["priority"] == 1, "ShareConfig priority");
        claim.priority = parameters["priority"].get<std::int64_t>();
    }
    claim.core_policy = parameters.value("corePolicy", "");
    require(std::set<std::string>{"", "default", "force", "disable"}.contains(claim.core_policy),
            "corePolicy");
}

/// Reads the entries that a translation appended to the pod's own, and who uses them.
void read_entries(const std::map<std::string, Claim>& by_template, ReadPod& pod) {
    const json none = json::array();
    const auto list = [&](const json& holder, const char* key) {
        return holder.contains(key) && !holder[key].is_null() ? holder[key] : none;
    };
    const auto old = list(pod.before["spec"], "resourceClaims");
    const auto now = list(pod.after["spec"], "resourceClaims");
    std::set<std::string> names;
    for (std::size_t i = 0; i < now.size(); ++i) {
        const auto name = text_at(now[i], "name", "resourceClaims entry");
        require(names.insert(name).second, "two resourceClaims of the name " + name);
        if (i < old.size()) {
            require(now[i] == old[i], "the pod's own resourceClaims are not kept");
            continue;
        }
        only(now[i], "resourceClaims entry", {"name", "resourceClaimTemplateName"});
        require(is_label(name), "entry " + name + " is no DNS label");
        const auto wanted = text_at(now[i], "resourceClaimTemplateName", "resourceClaims entry");
        require(by_template.contains(wanted), "template " + wanted + " is not in the answer");
        pod.claims[name] = by_template.at(wanted);
        pod.templates[name] = wanted;
    }
    require(now.size() >= old.size(), "the pod's own resourceClaims are lost");
    const auto before = containers_of(pod.before);
    const auto after = containers_of(pod.after);
    require(before.size() == after.size(), "containers came or went");
    for (std::size_t i = 0; i < after.size(); ++i) {
        const json empty = json::object();
        const auto resources = [&](const json& container) {
            return container.contains("resources") && container["resources"].is_object()
                       ? container["resources"]
                       : empty;
        };
        const auto had = list(resources(before[i]), "claims");
        const auto has = list(resources(after[i]), "claims");
        const std::string container = after[i]["name"];
        require(has.size() >= had.size() && std::equal(had.begin(), had.end(), has.begin()),
                container + ": its own claims are not kept");
        for (std::size_t k = had.size(); k < has.size(); ++k) {
            const auto entry =
                text_at(only(has[k], "claims entry", {"name"}), "name", "claims entry");
            require(pod.claims.contains(entry),
                    container + " uses " + entry + ", which is not ours");
            require(pod.claim_of.emplace(container, entry).second,
                    container + " uses two claims of ours");
        }
    }
}

}  // namespace

void require(bool condition, const std::string& reason) {
    if (!condition) throw Wrong(reason);
}

bool is_label(const std::string& text) {
    const auto alphanumeric = [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
    };
    return !text.empty() && text.size() <= 63 && alphanumeric(text.front()) &&
           alphanumeric(text.back()) && std::all_of(text.begin(), text.end(), [&](char c) {
               return c == '-' || alphanumeric(c);
           });
}

bool Alternative::takes(const ModelDevice& device) const {
    bool all = true;
    for (const auto& selector : selectors) {
        const auto outcome = evaluate_cel(selector, device);
        require(outcome.value.has_value(),
                "selector fails on " + device.name + " (" + outcome.error + "): " + selector);
        all = all && *outcome.value;
    }
    return all;
}

std::map<std::string, std::int64_t> Alternative::charge(const ModelDevice& device) const {
    auto charged = device.capacity;
    for (const auto& [name, amount] : amounts) {
        require(device.capacity.contains(name), "capacity " + name + ", which no device has");
        charged[name] = amount;
    }
    return charged;
}

std::int64_t Claim::count() const {
    std::int64_t sum = 0;
    for (const auto& request : requests)
        sum += request.alternatives[0].count;
    return sum;
}

bool Claim::covers_all(const Constraint& constraint) const {
    return std::all_of(requests.begin(), requests.end(), [&](const auto& request) {
        return constraint.requests.contains(request.name);
    });
}

std::vector<json> containers_of(const json& pod) {
    std::vector<json> all;
    for (const auto* key : {"initContainers", "containers"}) {
        if (!pod["spec"].contains(key) || pod["spec"][key].is_null()) continue;
        for (const auto& container : pod["spec"][key])
            all.push_back(container);
    }
    return all;
}

Claim read_template(const json& claim_template, const translate::Settings& settings) {
    only(claim_template, "template", {"apiVersion", "kind", "metadata", "spec"});
    require(claim_template["apiVersion"] == "resource.k8s.io/v1", "apiVersion of a template");
    require(claim_template["kind"] == "ResourceClaimTemplate", "kind of a template");
    only(claim_template["metadata"], "template metadata", {"name", "namespace", "labels"});
    const auto& devices = only(only(only(claim_template["spec"], "template spec", {"spec"})["spec"],
                                    "claim spec", {"devices"})["devices"],
                               "devices", {"requests", "constraints", "config"});
    Claim claim;
    std::set<std::string> names;
    for (const auto& entry : devices["requests"]) {
        claim.requests.push_back(read_request(entry));
        require(names.insert(claim.requests.back().name).second, "two requests of one name");
    }
    require(!names.empty() && names.size() <= 32 && claim.count() <= 32,
            "1 to 32 devices and requests are allowed");
    for (const auto& entry : devices.value("constraints", json::array())) {
        claim.constraints.push_back(read_constraint(entry, names));
    }
    for (const auto& entry : devices.value("config", json::array()))
        read_config(entry, names, settings, claim);
    return claim;
}

ReadPod read_translation(const std::string& pod, const translate::Translation& translation,
                         const translate::Settings& settings) {
    ReadPod read;
    read.before = json::parse(pod);
    try {
        read.after = read.before.patch(json::parse(translation.patch.to_json()));
    } catch (const json::exception& error) {
        throw Wrong(std::string("the patch does not apply: ") + error.what());
    }
    std::map<std::string, Claim> by_template;
    for (const auto& made : translation.templates) {
        const auto text = kube::to_json(made, "space", kube::TemplateWriter::server);
        const auto parsed = json::parse(text);
        require(parsed["metadata"]["name"] == made.name, "the template's name is not in it");
        require(is_label(made.name) && made.name.starts_with("drawbridge-"),
                "template name " + made.name);
        require(by_template.emplace(made.name, read_template(parsed, settings)).second,
                "a template comes twice");
    }
    read_entries(by_template, read);
    std::set<std::string> unused;
    for (const auto& [name, claim] : by_template)
        unused.insert(name);
    for (const auto& [entry, name] : read.templates)
        unused.erase(name);
    require(unused.empty(), "a template that no entry uses");
    for (const auto& [entry, claim] : read.claims) {
        const bool used =
            std::any_of(read.claim_of.begin(), read.claim_of.end(),
                        [&, name = entry](const auto& use) { return use.second == name; });
        require(used, "entry " + entry + " is used by no container");
    }
    return read;
}

}  // namespace drawbridge::oracle
