#include "translate/translate_create.hpp"

#include "translate/assign_claims.hpp"
#include "translate/build_patch.hpp"
#include "translate/build_template.hpp"
#include "translate/earlier_request.hpp"
#include "translate/environment.hpp"
#include "translate/legacy_request.hpp"
#include "translate/notes.hpp"
#include "translate/original.hpp"
#include "translate/placement.hpp"
#include "translate/pod_bounds.hpp"
#include "translate/pod_checks.hpp"
#include "translate/scope.hpp"
#include "translate/unknown_names.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace drawbridge::translate {

namespace {

/// One translation, step by step; each step reads what the ones before it left.
class Creation {
public:
    Creation(const PodReview& review, const Settings& settings, const Cluster& cluster)
        : review_(review),
          settings_(settings),
          cluster_(cluster),
          pod_(read_pod(review.pod)),
          entries_(own_entries(review.pod)),
          earlier_(pod_, entries_),
          sizes_(settings.memory_sizes.empty() ? cluster.memory_sizes : settings.memory_sizes),
          names_(review.pod) {}

    Translation run();

private:
    void find_requests();
    void read_requests();
    void drop_faulty();
    void leave_plain_counts();
    void adjust_to_target(std::size_t index);
    [[nodiscard]] std::size_t add_template(kube::ClaimTemplate made);
    void make_claims();
    void report_fault(const ClaimAssignment& claim, const TemplateFault& fault);
    void note_peak(const ClaimAssignment& claim, const std::vector<std::int64_t>& sizes);
    void take_entry(const ClaimAssignment& claim, const kube::ClaimTemplate& claim_template);
    [[nodiscard]] std::string existing_entry(const ClaimAssignment& claim, std::string_view name);
    void change_pod();
    void reference_existing();
    [[nodiscard]] bool any_device() const {
        return std::ranges::any_of(shapes_, [](const auto& shape) { return shape.has_value(); });
    }
    /// Also where the request for it could not be read: what else is wrong with such a pod is said
    /// in the same answer.
    [[nodiscard]] bool asks_for_device() const {
        return any_device() || std::ranges::any_of(requests_, [](const auto& request) {
                   return request && request->count_unclear;
               });
    }
    [[nodiscard]] bool has_legacy_scheduler() const {
        const std::string& name = settings_.policy.legacy_scheduler;
        return !name.empty() && scheduler_of(review_) == name;
    }

    const PodReview& review_;
    const Settings& settings_;
    const Cluster& cluster_;
    const PodView pod_;
    const std::vector<OwnEntry> entries_;
    const EarlierRequest earlier_;
    const std::vector<std::int64_t>& sizes_;

    Placement placement_;
    std::vector<std::optional<LegacyRequest>> requests_;  ///< one a container
    std::vector<std::optional<ClaimShape>> shapes_;       ///< one a container, only with a device
    std::vector<bool> faulty_;  ///< one a container: its request is denied and means nothing
    bool no_class_ = false;     ///< for the mode asked for: nothing can be said of the claims
    EntryNames names_;
    PodChange change_;
    Translation result_;
};

void Creation::find_requests() {
    const auto names = legacy_names(settings_.resources);
    change_.containers.resize(pod_.containers.size());
    requests_.resize(pod_.containers.size());
    shapes_.resize(pod_.containers.size());
    faulty_.resize(pod_.containers.size());
    for (std::size_t index = 0; index < pod_.containers.size(); ++index) {
        change_.containers[index].strip = find_legacy(pod_.containers[index].json, names);
    }
}

void Creation::read_requests() {
    for (std::size_t index = 0; index < pod_.containers.size(); ++index) {
        if (change_.containers[index].strip.empty()) continue;
        Diagnostics found;
        requests_[index] = read_legacy_request(earlier_.container(index), settings_, found);
        if (requests_[index]->shape.count > 0) shapes_[index] = requests_[index]->shape;
        faulty_[index] = denies(found);
        std::ranges::move(found, std::back_inserter(result_.diagnostics));
    }
    if (!asks_for_device()) return;
    Diagnostics found;
    placement_ = read_placement(review_.pod, settings_, found);
    check_unknown_names(pod_, settings_, found);
    no_class_ = std::ranges::any_of(
        found, [](const auto& problem) { return problem.code == Code::mode_unsupported; });
    std::ranges::move(found, std::back_inserter(result_.diagnostics));
    leave_plain_counts();
    for (std::size_t index = 0; index < shapes_.size(); ++index) {
        if (shapes_[index]) adjust_to_target(index);
    }
}

/// From here on only requests count that could be read.
void Creation::drop_faulty() {
    for (std::size_t index = 0; index < shapes_.size(); ++index) {
        if (faulty_[index]) shapes_[index].reset();
    }
}

/// Where the settings leave a bare count to the cluster's own mapping, a container that asks for
/// nothing more keeps it.
void Creation::leave_plain_counts() {
    if (settings_.policy.plain_count != PlainCount::leave || placement_.restricts()) return;
    for (std::size_t index = 0; index < shapes_.size(); ++index) {
        if (!shapes_[index] || !requests_[index]->only_count || !shapes_[index]->is_whole_card()) {
            continue;
        }
        const ContainerView& container = pod_.containers[index];
        const std::string& name = settings_.resources.count;
        report(
            result_.diagnostics, Code::plain_count_left,
            {container.path / "resources" / "limits" / name, container.name, name, {}},
            fmt::format("{}: {} alone is left to the cluster", quoted_container(container), name));
        change_.containers[index].strip = {};
        requests_[index].reset();
        shapes_[index].reset();
    }
}

/// What the policy `mutex` and the target's driver make of a shape.
void Creation::adjust_to_target(std::size_t index) {
    ClaimShape& shape = *shapes_[index];
    if (placement_.whole_card) {
        shape.memory = {true, 0, 0};
        shape.cores = 100;
    }
    const bool drop = settings_.target.exclusive_memory == ExclusiveMemory::drop;
    if (!drop || !shape.is_exclusive() || shape.memory.all || placement_.mode != nullptr) return;
    const ContainerView& container = pod_.containers[index];
    report(result_.diagnostics, Code::exclusive_memory_dropped,
           {container.path / "resources" / "limits", container.name, settings_.resources.cores, {}},
           fmt::format("{} gets whole cards; its memory figure is not enforced beside {} of 100",
                       quoted_container(container), settings_.resources.cores));
    shape.memory = {true, 0, 0};
}

void Creation::report_fault(const ClaimAssignment& claim, const TemplateFault& fault) {
    const bool sizes = fault.code == Code::memory_sizes_unknown;
    if (sizes && cluster_.sizes_state == SizesState::not_listed) {
        result_.sizes_needed = true;
        return;
    }
    const auto percent = std::ranges::find_if(
        claim.containers, [this](std::size_t index) { return shapes_[index]->memory.percent > 0; });
    const std::size_t index = percent == claim.containers.end() ? claim.owner : *percent;
    const ContainerView& container = pod_.containers[index];
    const bool by_cores = placement_.mode != nullptr && shapes_[index]->memory.percent == 0;
    const std::string& name = by_cores ? settings_.resources.cores
                                       : sharing_resource(*shapes_[index], settings_.resources);
    const base::JsonView limits = container.json["resources"]["limits"];
    const std::string value = limits[name].scalar_text().value_or("");
    report(result_.diagnostics, fault.code,
           {container.path / "resources" / "limits" / name, container.name, name, value},
           fmt::format("{}: {} {} {}", quoted_container(container), name, value, fault.message));
}

void Creation::note_peak(const ClaimAssignment& claim, const std::vector<std::int64_t>& sizes) {
    if (claim.containers.size() == 1) return;
    for (const std::size_t index : claim.containers) {
        const ContainerView& container = pod_.containers[index];
        if (container.kind != ContainerKind::main) continue;
        if (growth(*shapes_[index], claim.shape, sizes).is_none()) continue;
        report(result_.diagnostics, Code::peak_shared,
               {container.path / "resources", container.name, "resources", {}},
               fmt::format("{} shares its claim with an init container and may use what that one "
                           "asks for, which is more than it asked for itself",
                           quoted_container(container)));
    }
}

/// The entry that the containers of a claim reference already; empty if none. An entry for another
/// template is a contradiction that nobody but the author can solve.
std::string Creation::existing_entry(const ClaimAssignment& claim, std::string_view name) {
    std::string entry;
    for (const std::size_t index : claim.containers) {
        const ContainerView& container = pod_.containers[index];
        const OwnEntry* found = own_entry_of(container, entries_);
        if (found == nullptr) continue;
        entry = found->name;
        if (found->claim_template == name) {
            earlier_.note_kept(index, change_.containers[index].strip, result_.diagnostics);
            continue;
        }
        report(result_.diagnostics, Code::claim_entry_differs,
               {container.path / "resources", container.name, "resourceClaims",
                std::string(found->claim_template)},
               fmt::format("{}: claim entry {} names template {}, and the GPU resources come to {}",
                           quoted_container(container), found->name, found->claim_template, name));
    }
    return entry;
}

void Creation::take_entry(const ClaimAssignment& claim, const kube::ClaimTemplate& claim_template) {
    std::string entry = existing_entry(claim, claim_template.name);
    if (entry.empty()) {
        const ContainerView& owner = pod_.containers[claim.owner];
        const char* form = owner.kind == ContainerKind::main ? "vgpu-" : "vgpu-i";
        entry = names_.take(form + std::to_string(owner.index));
        change_.claims.emplace_back(entry, claim_template.name);
    }
    for (const std::size_t index : claim.containers) {
        if (own_entry_of(pod_.containers[index], entries_) != nullptr) continue;
        change_.containers[index].claim = entry;
    }
}

/// Adds a template unless it is there (different shapes may come to one template); returns its
/// place.
std::size_t Creation::add_template(kube::ClaimTemplate made) {
    auto& templates = result_.templates;
    const auto same = std::ranges::find(templates, made.name, &kube::ClaimTemplate::name);
    const auto index = static_cast<std::size_t>(same - templates.begin());
    if (same == templates.end()) templates.push_back(std::move(made));
    return index;
}

void Creation::make_claims() {
    std::vector<std::int64_t> mebibytes;
    for (const std::int64_t size : sizes_)
        mebibytes.push_back(size >> 20U);
    const bool numa = placement_.one_numa_node && settings_.target.numa_attribute.empty();
    const TemplateContext context{settings_, placement_, sizes_, cluster_.minor,
                                  placement_selectors(placement_, settings_.target)};
    if (!selectors_fit(context.selectors, result_.diagnostics)) return;
    for (std::size_t index = 0; index < shapes_.size(); ++index) {
        if (!shapes_[index]) continue;
        const auto fault = unsupported_share(*shapes_[index], context);
        if (!fault) continue;
        report_fault({*shapes_[index], index, {index}}, *fault);
        shapes_[index].reset();
    }
    bool several = false;
    struct BuiltShape {
        ClaimShape shape;
        std::size_t index;  // in result_.templates
    };
    std::vector<BuiltShape> built;
    const auto claims = assign_claims(pod_.containers, shapes_, mebibytes);
    if (!within_bounds(claims, result_.diagnostics)) return;
    for (const ClaimAssignment& claim : claims) {
        several = several || claim.shape.count > 1;
        // Many containers of one shape are common; a template is built and hashed once a shape.
        auto known = std::ranges::find(built, claim.shape, &BuiltShape::shape);
        if (known == built.end()) {
            auto made = build_template(claim.shape, context);
            if (!made) {
                report_fault(claim, made.error());
                continue;
            }
            built.push_back({claim.shape, add_template(std::move(*made))});
            known = built.end() - 1;
        }
        note_peak(claim, mebibytes);
        take_entry(claim, result_.templates[known->index]);
    }
    if (!numa || !several) return;
    const std::string& name = settings_.annotations.numa_bind;
    report(result_.diagnostics, Code::numa_unsupported,
           {kube::PointerPath() / "metadata" / "annotations" / name, {}, name, "true"},
           fmt::format("annotation {} asks for cards on one NUMA node, and no attribute tells it",
                       name));
}

void Creation::change_pod() {
    bool stripped = false;
    bool resources = false;
    bool all_present = true;
    for (std::size_t index = 0; index < pod_.containers.size(); ++index) {
        ContainerChange& change = change_.containers[index];
        if (!change.strip.empty()) {
            stripped = true;
            const bool present = own_entry_of(pod_.containers[index], entries_) != nullptr;
            all_present = all_present && present;
        }
        resources = resources || shapes_[index].has_value();
        const ClaimShape* shape = requests_[index] ? &requests_[index]->shape : nullptr;
        // A claim that is there already may be for a GPU: nothing is hidden from its container.
        const bool claims = pod_.containers[index].json["resources"]["claims"].size() > 0;
        if (shape != nullptr || !claims) change.environment = environment_of(shape, settings_);
    }
    if (has_legacy_scheduler()) change_.scheduler = settings_.policy.scheduler;
    if (resources && review_.pod["spec"]["runtimeClassName"].string_or("").empty()) {
        change_.runtime_class = settings_.policy.runtime_class;
    }
    const auto earlier = entries_.empty() ? std::nullopt : read_original(review_.pod);
    const bool keep = earlier && all_present && change_.scheduler.empty();
    if ((stripped || !change_.scheduler.empty()) && !keep) {
        std::vector<LegacyEntries> legacy;
        for (const auto& change : change_.containers)
            legacy.push_back(change.strip);
        const std::string_view scheduler =
            change_.scheduler.empty() ? std::string_view() : settings_.policy.legacy_scheduler;
        change_.original =
            write_original(pod_, legacy, scheduler, earlier ? earlier->root() : base::JsonView());
    }
    result_.patch = build_patch(pod_, change_);
}

/// Templates that the pod names without asking for them again: they must exist, or come out of its
/// annotation.
void Creation::reference_existing() {
    for (const OwnEntry& entry : entries_) {
        const std::string name(entry.claim_template);
        const bool made = std::ranges::any_of(
            result_.templates, [&](const auto& other) { return other.name == name; });
        auto& names = result_.referenced_templates;
        if (!made && std::ranges::find(names, name) == names.end()) names.push_back(name);
    }
    if (result_.referenced_templates.empty()) return;
    const auto original = read_original(review_.pod);
    if (!original) return;
    const auto before = base::parse_json(restore_request(pod_, original->root()));
    if (!before) return;
    const PodReview review{before->root(), {}, Operation::create, {}};
    Translation restored = Creation(review, settings_, cluster_).run();
    std::erase_if(restored.templates, [this](const auto& made) {
        const auto& names = result_.referenced_templates;
        return std::ranges::find(names, made.name) == names.end();
    });
    result_.restorable = std::move(restored.templates);
}

Translation Creation::run() {
    find_requests();
    const bool asks = std::ranges::any_of(change_.containers,
                                          [](const auto& change) { return !change.strip.empty(); });
    const Scope scope = scope_of(review_, settings_, asks, result_.diagnostics);
    if (scope == Scope::theirs) return std::move(result_);
    if (!within_bounds(change_.containers, entries_, result_.diagnostics)) {
        result_.verdict = Verdict::deny;
        return std::move(result_);
    }
    check_ephemeral(review_.pod, settings_, result_.diagnostics);
    if (asks) check_kinds(pod_, settings_, result_.diagnostics);
    read_requests();
    if (any_device() && !check_server(cluster_, settings_, result_.diagnostics)) {
        if (denies(result_.diagnostics)) result_.verdict = Verdict::deny;
        return std::move(result_);
    }
    if (asks_for_device() || !entries_.empty()) {
        check_isolation(pod_, settings_, result_.diagnostics);
        check_environment(pod_, shapes_, settings_, result_.diagnostics);
        check_bookkeeping(review_.pod, result_.diagnostics);
        // Also where the pod is denied already: one answer names all problems.
        drop_faulty();
        if (!no_class_) make_claims();
    }
    if (denies(result_.diagnostics)) {
        result_.templates.clear();
        result_.sizes_needed = false;
        result_.verdict = Verdict::deny;
        return std::move(result_);
    }
    if (result_.sizes_needed) return std::move(result_);
    change_pod();
    reference_existing();
    if (!result_.patch.empty()) result_.verdict = Verdict::translate;
    return std::move(result_);
}

}  // namespace

Translation translate_create(const PodReview& review, const Settings& settings,
                             const Cluster& cluster) {
    return Creation(review, settings, cluster).run();
}

}  // namespace drawbridge::translate
