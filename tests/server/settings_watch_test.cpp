#include "server/settings_watch.hpp"

#include "base/log.hpp"
#include "tests/folder.hpp"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <string>

using namespace drawbridge;
using namespace drawbridge::server;

namespace {

struct Fixture {
    test::Folder folder;
    std::string path = folder / "settings.yaml";
    SettingsHolder holder;
    Metrics metrics;
    int changes = 0;
    SettingsWatch watch{path, holder, metrics, [this](const translate::Settings&) { ++changes; }};

    Fixture() {
        base::set_log_sink([](std::string_view) {});
    }
    ~Fixture() { base::set_log_sink({}); }
    /// Another file in its place, as ConfigMap volumes and careful people do it.
    void put(std::string_view text) {
        std::ofstream(path + ".new") << text;
        std::filesystem::rename(path + ".new", path);
    }
};

constexpr std::string_view hami = "apiVersion: drawbridge.dev/v1\nkind: Settings\nprofile: hami\n";

}  // namespace

TEST_CASE("without a file the built-in settings are in effect") {
    SettingsHolder holder;
    Metrics metrics;
    SettingsWatch watch("", holder, metrics, {});
    watch.poll(true);
    REQUIRE(holder.current());
    CHECK(*holder.current() == translate::Settings{});
}

TEST_CASE("a file is read when it comes, and the first time is no reload") {
    Fixture f;
    f.watch.poll();
    CHECK_FALSE(f.holder.current());
    CHECK(f.metrics.settings_reloads.failure == 1);
    f.put(hami);
    f.watch.poll();
    REQUIRE(f.holder.current());
    CHECK(f.holder.current()->profile == "hami");
    CHECK(f.changes == 1);
}

TEST_CASE("a bad file keeps the settings before it and is reported once") {
    Fixture f;
    f.put(hami);
    f.watch.poll();
    CHECK(f.metrics.settings_reloads.success == 0);
    for (const std::string_view bad : {"", "resources: [", "profile: none\n", "[]", "- 1\n"}) {
        CAPTURE(bad);
        const auto before = f.metrics.settings_reloads.failure.load();
        f.put(bad);
        for (int i = 0; i < 3; ++i)
            f.watch.poll();
        CHECK(f.metrics.settings_reloads.failure == before + 1);
        CHECK(f.holder.current()->profile == "hami");
    }
    CHECK(f.changes == 1);
}

TEST_CASE("the same settings again are a reload without a change") {
    Fixture f;
    f.put(hami);
    f.watch.poll();
    const auto before = f.holder.current();
    f.put(hami);
    f.watch.poll();
    CHECK(f.metrics.settings_reloads.success == 1);
    CHECK(f.holder.current() == before);
    f.watch.poll();
    CHECK(f.metrics.settings_reloads.success == 1);
    f.watch.poll(true);
    CHECK(f.metrics.settings_reloads.success == 2);
}
