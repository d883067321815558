#pragma once
// A disk in memory that fails, fills up, and forgets at a power cut what was not synced.

#include "agent/files.hpp"

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace drawbridge::agent {

/// The process ends here.
struct Crash {};

class FaultyFiles final : public Files {
public:
    base::Result<void> write(const std::string& path, std::string_view text, WriteHow how,
                             mode_t) override {
        const bool dies = dies_now();
        if (full) return base::fail(base::ErrorKind::internal, "no space left", path);
        // A crash comes before the rename, or behind it.
        if (dies && crash_before) throw Crash();
        File& file = files_[path];
        file.now = text;
        touch(path);
        if (how == WriteHow::durable) file.synced = {file.now};
        if (how == WriteHow::whole) file.synced.push_back(file.now);
        if (how == WriteHow::atomic)
            file.synced = {std::nullopt, file.now.substr(0, file.now.size() / 2), file.now};
        if (dies) throw Crash();
        return {};
    }
    base::Result<std::unique_ptr<Staged>> stage(const std::string& path, std::string_view text,
                                                mode_t mode) override {
        if (dies_now()) throw Crash();
        if (full) return base::fail(base::ErrorKind::internal, "no space left", path);
        return std::make_unique<StagedInMemory>(*this, path, text, mode);
    }
    base::Result<void> patch(const std::string& path, std::size_t offset,
                             std::string_view bytes) override {
        const bool dies = dies_now();
        // A file system that copies what it writes needs room for this, too.
        if (full) return base::fail(base::ErrorKind::internal, "no space left", path);
        if (dies && crash_before) bytes = bytes.substr(0, bytes.size() / 2);
        files_.at(path).now.replace(offset, bytes.size(), bytes);
        touch(path);
        if (dies) throw Crash();
        return {};
    }
    base::Result<std::string> read(const std::string& path, std::size_t max_bytes) override {
        const auto found = files_.find(path);
        if (found == files_.end()) return base::fail(base::ErrorKind::not_found, "none", path);
        if (found->second.now.size() > max_bytes)
            return base::fail(base::ErrorKind::invalid_input, "too large", path);
        return found->second.now;
    }
    std::optional<FileStamp> stamp(const std::string& path) override {
        const auto found = files_.find(path);
        if (found == files_.end()) return std::nullopt;
        return FileStamp{.inode = found->second.changes, .changed_ns = written_at.count()};
    }
    std::unique_ptr<FolderWatch> watch(const std::string& folder) override {
        return std::make_unique<WatchInMemory>(*this, folder);
    }
    base::Result<void> remove(const std::string& path) override {
        const bool dies = dies_now();
        if (dies && crash_before) throw Crash();
        files_.erase(path);
        std::erase_if(files_, [&](const auto& f) { return f.first.starts_with(path + "/"); });
        touched_.push_back(path);
        if (dies) throw Crash();
        return {};
    }
    base::Result<std::vector<std::string>> list(const std::string& path) override {
        std::vector<std::string> names;
        for (const auto& [file, content] : files_) {
            if (!file.starts_with(path + "/")) continue;
            std::string name = file.substr(path.size() + 1);
            name = name.substr(0, name.find('/'));
            if (names.empty() || names.back() != name) names.push_back(std::move(name));
        }
        return names;
    }

    /// The machine goes off and comes back: `/cdi` was in memory. Of the rest `choose`, which gives
    /// a number below its argument, says which of the states it is that the disk can have.
    template <class Choose>
    void cut_power(Choose choose) {
        std::erase_if(files_, [](const auto& file) { return file.first.starts_with("/cdi/"); });
        for (auto& [path, file] : files_) {
            const std::optional<std::string> left = file.synced[choose(file.synced.size())];
            file.synced = {left};
            file.now = left.value_or("");
            touched_.push_back(path);
        }
        std::erase_if(files_, [](const auto& file) { return !file.second.synced.front(); });
    }
    [[nodiscard]] std::map<std::string, std::string> all() const {
        std::map<std::string, std::string> all;
        for (const auto& [path, file] : files_)
            all.emplace(path, file.now);
        return all;
    }
    /// As somebody else does it, who does not fail.
    void put(const std::string& path, std::string text) {
        files_[path].now = std::move(text);
        touch(path);
    }
    void drop(const std::string& path) {
        files_.erase(path);
        touched_.push_back(path);
    }

    class WatchInMemory final : public FolderWatch {
    public:
        WatchInMemory(const FaultyFiles& files, const std::string& folder)
            : files_(files), prefix_(folder + "/") {}
        std::optional<std::set<std::string>> changed() override {
            std::set<std::string> names;
            for (; seen_ < files_.touched_.size(); ++seen_) {
                const std::string& path = files_.touched_[seen_];
                if (path.starts_with(prefix_)) names.insert(path.substr(prefix_.size()));
            }
            if (std::exchange(is_first_, false) || files_.blind) return std::nullopt;
            return names;
        }

    private:
        const FaultyFiles& files_;
        std::string prefix_;
        std::size_t seen_ = 0;
        bool is_first_ = true;
    };

    /// What is renamed needs no room.
    class StagedInMemory final : public Staged {
    public:
        StagedInMemory(FaultyFiles& files, std::string path, std::string_view text, mode_t mode)
            : files_(files), path_(std::move(path)), text_(text), mode_(mode) {}
        base::Result<void> commit() override {
            const bool full = std::exchange(files_.full, false);
            auto done = files_.write(path_, text_, WriteHow::whole, mode_);
            files_.full = full;
            return done;
        }

    private:
        FaultyFiles& files_;
        std::string path_;
        std::string text_;
        mode_t mode_;
    };

    bool full = false;
    bool blind = false;                      ///< no folder can be watched
    std::chrono::nanoseconds written_at{0};  ///< all files
    bool crash_before = false;
    int crash_after = -1;  ///< changes until the process dies; -1: never

private:
    /// `synced`: what may be there behind a power cut, nothing among it.
    struct File {
        std::string now;
        std::uint64_t changes = 0;  ///< of all files, up to the last one of this
        std::vector<std::optional<std::string>> synced = {std::nullopt};
    };
    void touch(const std::string& path) {
        touched_.push_back(path);
        files_[path].changes = touched_.size();
    }
    bool dies_now() { return crash_after >= 0 && crash_after-- == 0; }

    std::map<std::string, File> files_;
    std::vector<std::string> touched_;  ///< paths, in the order of the changes
};

}  // namespace drawbridge::agent
