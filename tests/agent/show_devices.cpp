// Prints the slice and the CDI edits that this machine's GPUs give, for machines that have some.

#include "agent/api/slices.hpp"
#include "agent/source/device_source.hpp"

#include <cstdio>

using namespace drawbridge::agent;

int main(int count, char** arguments) {
    const auto source = make_nvml_source({.seen = count > 1 ? arguments[1] : ""});
    const auto devices = source->read();
    if (!devices) {
        std::fprintf(stderr, "%s\n", devices.error().message.c_str());
        return 1;
    }
    const auto made = Inventory::make(*devices, {}, {});
    const auto edits = source->edits();
    if (!made || !edits) return 1;
    for (const Offer& offer : made->offers())
        std::printf("%s\n", device_json(offer, {}).c_str());
    const CdiSpec spec{.common = edits->common, .devices = {{.name = "any"}}};
    std::printf("%s", cdi_json(spec).c_str());
    return 0;
}
