#include "kube/client/access_sources.hpp"

#include "kube/client/event.hpp"
#include "kube/client/exec_credential.hpp"
#include "kube/client/run_program.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/thread_pool.hpp>
#include <fmt/format.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <optional>
#include <utility>

namespace drawbridge::kube::client {

namespace asio = boost::asio;
using base::ErrorKind;
using base::Result;
using std::chrono::steady_clock;
using AccessResult = Result<std::shared_ptr<const Access>>;

Result<std::string> read_file(const std::string& path) {
    constexpr std::size_t most = 1U << 20U;
    errno = 0;
    std::ifstream file(path, std::ios::binary);
    std::string text(most + 1, '\0');
    if (file) file.read(text.data(), static_cast<std::streamsize>(text.size()));
    if (!file.is_open() || file.bad()) {
        const int failure = errno;
        return base::fail(failure == ENOENT ? ErrorKind::not_found : ErrorKind::unavailable,
                          fmt::format("{}: {}", path, std::strerror(failure)), path);
    }
    text.resize(static_cast<std::size_t>(file.gcount()));
    if (text.size() > most) {
        return base::fail(ErrorKind::invalid_input, fmt::format("{}: larger than 1 MiB", path),
                          path);
    }
    return text;
}

std::string trimmed(std::string_view text) {
    constexpr std::string_view blank = " \t\r\n";
    const std::size_t begin = text.find_first_not_of(blank);
    if (begin == std::string_view::npos) return {};
    return std::string(text.substr(begin, text.find_last_not_of(blank) - begin + 1));
}

namespace {

/// A token becomes part of a header line: only what cannot end that line is taken.
bool is_header_text(std::string_view token) {
    for (const char c : token) {
        const auto byte = static_cast<unsigned char>(c);
        if (byte < 0x21U || byte > 0x7EU) return false;
    }
    return true;
}

Result<Access> read_access(const AccessFiles& files, Access access) {
    const std::pair<const std::string&, std::string&> wanted[] = {
        {files.token, access.token},
        {files.certificate, access.certificate},
        {files.key, access.key},
        {files.authorities, access.authorities}};
    for (const auto& [file, value] : wanted) {
        if (file.empty()) continue;
        auto text = read_file(file);
        if (!text) return tl::unexpected(text.error());
        value = trimmed(*text);
        if (value.empty()) {
            return base::fail(ErrorKind::invalid_input, fmt::format("{}: is empty", file), file);
        }
    }
    if (!is_header_text(access.token)) {
        return base::fail(ErrorKind::invalid_input,
                          fmt::format("{}: the token holds characters a token cannot hold",
                                      files.token.empty() ? "kubeconfig" : files.token),
                          files.token);
    }
    return access;
}

/// Keeps the snapshot while nothing changed, so that open connections stay in use.
class Snapshot {
public:
    const std::shared_ptr<const Access>& take(Access access) {
        if (!current_ || *current_ != access)
            current_ = std::make_shared<const Access>(std::move(access));
        return current_;
    }
    [[nodiscard]] const std::shared_ptr<const Access>& current() const { return current_; }

private:
    std::shared_ptr<const Access> current_;
};

class FileAccess final : public AccessSource {
public:
    FileAccess(AccessFiles files, Access fixed)
        : files_(std::move(files)), fixed_(std::move(fixed)) {}

    Result<void> read() {
        auto access = read_access(files_, fixed_);
        if (!access) return tl::unexpected(access.error());
        snapshot_.take(std::move(*access));
        read_at_ = steady_clock::now();
        return {};
    }

    // Small local files, read at most once a minute or after a 401: not worth a thread.
    asio::awaitable<AccessResult> get(bool refresh, steady_clock::time_point) override {
        if (refresh || steady_clock::now() - read_at_ >= std::chrono::minutes(1)) {
            const auto read_again = read();
            // A file in mid-replacement: what we have may still be good, and a 401 asks again.
            if (!read_again && refresh) co_return tl::unexpected(read_again.error());
        }
        co_return snapshot_.current();
    }
    void stop() override {}

private:
    AccessFiles files_;
    Access fixed_;
    Snapshot snapshot_;
    steady_clock::time_point read_at_;
};

/// What a run of the plugin came to, shared between the pool's thread and the strand.
struct PluginRun {
    explicit PluginRun(const asio::any_io_executor& executor) : done(executor) {}
    Event done;
    AccessResult result =
        base::fail(ErrorKind::timed_out, "the exec plugin has not answered in time");
};

class ExecAccess final : public AccessSource {
public:
    ExecAccess(asio::any_io_executor executor, KubeconfigChoice choice, std::string authorities)
        : executor_(std::move(executor)), authorities_(std::move(authorities)) {
        const ExecPlugin& plugin = *choice.user.exec;
        program_.command = plugin.command;
        program_.arguments = plugin.arguments;
        program_.environment = plugin.environment;
        program_.environment.emplace_back("KUBERNETES_EXEC_INFO",
                                          exec_info(plugin, choice.cluster, authorities_));
        plugin_ = plugin;
    }
    ~ExecAccess() override { stop(); }

    asio::awaitable<AccessResult> get(bool refresh, steady_clock::time_point deadline) override {
        const bool expired = expires_ && std::chrono::system_clock::now() >= *expires_;
        if (snapshot_.current() && !refresh && !expired) co_return snapshot_.current();
        // One run serves all who wait for it.
        if (!running_ && !stopping_) start_run();
        if (!running_) co_return base::fail(ErrorKind::unavailable, "this process is ending");
        const std::shared_ptr<PluginRun> run = running_;
        co_await run->done.wait(deadline);
        co_return run->result;
    }
    // The plugin is killed within a moment, so that waiting for it is no wait.
    void stop() override {
        stopping_ = true;
        pool_.join();
    }

private:
    void start_run() {
        auto run = std::make_shared<PluginRun>(executor_);
        running_ = run;
        asio::post(pool_, [this, run] {
            auto output = run_program(program_, stopping_);
            auto credential = output ? read_exec_credential(plugin_, std::move(*output))
                                     : tl::unexpected(output.error());
            asio::post(executor_, [this, run, alive = std::weak_ptr<int>(alive_),
                                   credential = std::move(credential)]() mutable {
                if (!alive.expired()) finish(*run, std::move(credential));
            });
        });
    }

    void finish(PluginRun& run, Result<ExecCredential> credential) {
        running_.reset();
        if (credential && is_header_text(credential->token)) {
            expires_ = credential->expires;
            run.result = snapshot_.take({.token = std::move(credential->token),
                                         .certificate = std::move(credential->certificate),
                                         .key = std::move(credential->key),
                                         .authorities = authorities_});
        } else {
            base::Error error =
                credential ? base::Error{ErrorKind::unavailable, "exec plugin: bad token", {}}
                           : std::move(credential.error());
            if (!plugin_.install_hint.empty()) error.message += "; " + plugin_.install_hint;
            run.result = tl::unexpected(std::move(error));
        }
        run.done.set();
    }

    asio::any_io_executor executor_;
    std::string authorities_;
    ExecPlugin plugin_;
    Program program_;
    Snapshot snapshot_;
    std::optional<std::chrono::system_clock::time_point> expires_;
    std::shared_ptr<PluginRun> running_;
    std::shared_ptr<int> alive_ =
        std::make_shared<int>(0);  ///< results that come after us are dropped
    std::atomic<bool> stopping_ = false;
    asio::thread_pool pool_{1};  ///< last: joined first
};

}  // namespace

Result<std::unique_ptr<AccessSource>> file_access(AccessFiles files, Access fixed) {
    auto source = std::make_unique<FileAccess>(std::move(files), std::move(fixed));
    if (auto read = source->read(); !read) return tl::unexpected(read.error());
    return source;
}

Result<std::unique_ptr<AccessSource>> kubeconfig_access(asio::any_io_executor executor,
                                                        KubeconfigChoice choice) {
    const UserEntry& user = choice.user;
    AccessFiles files{.token = user.token_file,
                      .certificate = user.certificate.data.empty() ? user.certificate.file : "",
                      .key = user.key.data.empty() ? user.key.file : "",
                      .authorities = choice.cluster.authorities.data.empty()
                                         ? choice.cluster.authorities.file
                                         : ""};
    Access fixed{.token = user.token,
                 .certificate = user.certificate.data,
                 .key = user.key.data,
                 .authorities = choice.cluster.authorities.data};
    // client-go's order: a plugin is asked only where the file gives neither token nor certificate.
    const bool has_own =
        !user.token.empty() || !user.token_file.empty() || !user.certificate.empty();
    if (!user.exec || has_own) return file_access(std::move(files), std::move(fixed));
    auto authorities = read_access({.authorities = files.authorities}, std::move(fixed));
    if (!authorities) return tl::unexpected(authorities.error());
    return std::make_unique<ExecAccess>(std::move(executor), std::move(choice),
                                        std::move(authorities->authorities));
}

}  // namespace drawbridge::kube::client
