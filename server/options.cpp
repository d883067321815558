#include "server/options.hpp"

#include "base/command_line.hpp"
#include "server/router.hpp"

#include <boost/asio/ip/address.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <thread>

namespace drawbridge::server {
namespace {

constexpr std::uint16_t admission_port = 9443;
constexpr std::uint16_t operator_port = 8081;

tl::unexpected<base::Error> bad_address(std::string_view text) {
    return base::fail(
        base::ErrorKind::invalid_input,
        fmt::format("\"{}\" is no address; write for example 127.0.0.1:9443, [::1]:9443 or :9443",
                    text));
}

void add_time(CLI::App& app, const std::string& name, std::chrono::nanoseconds& time,
              const std::string& help) {
    const auto read = [&time, name](const std::string& text) {
        const auto given = parse_go_duration(text);
        if (!given || given->count() < 0) {
            throw CLI::ValidationError(
                name, "\"" + text + "\" is no duration; write for example 500ms, 5s or 2m");
        }
        time = *given;
    };
    const auto now = std::chrono::duration_cast<std::chrono::milliseconds>(time).count();
    app.add_option_function<std::string>(name, read, fmt::format("{} (default {}ms)", help, now))
        ->type_name("TIME");
}

void add_address(CLI::App& app, const std::string& name, Address& address,
                 const std::string& help) {
    const auto read = [&address, name](const std::string& text) {
        const auto given = parse_address(text);
        if (!given) throw CLI::ValidationError(name, given.error().message);
        address = *given;
    };
    app.add_option_function<std::string>(name, read, help)->type_name("ADDR:PORT");
}

void add_ports(CLI::App& app, ServeOptions& options) {
    add_address(app, "--listen", options.listen,
                "admission port (default 0.0.0.0:9443, with --self-signed 127.0.0.1:9443)");
    add_address(app, "--operator-listen", options.operator_listen,
                "health, metrics and debugging over plain HTTP (default 0.0.0.0:8081, with "
                "--self-signed 127.0.0.1:8081)");
    app.add_option("--port-file", options.port_file,
                   "write {\"https\":N,\"operator\":N} there once both ports listen");
}

void add_tls(CLI::App& app, TlsOptions& tls) {
    auto* const certificate = app.add_option("--tls-cert", tls.certificate,
                                             "certificate chain (PEM), reloaded when it changes");
    auto* const key = app.add_option("--tls-key", tls.key, "its key (PEM)");
    certificate->needs(key);
    key->needs(certificate);
    app.add_option("--self-signed", tls.self_signed,
                   "folder for a certificate of our own (ca.crt, tls.crt, tls.key), for trial")
        ->excludes(certificate)
        ->excludes(key);
    app.add_option("--client-ca", tls.client_ca,
                   "authorities (PEM) of which callers must show a certificate");
}

void add_cluster(CLI::App& app, ServeOptions& options) {
    ClusterOptions& cluster = options.cluster;
    base::add_choice<StoreKind>(
        app, "--store", cluster.store,
        {{"memory", StoreKind::memory}, {"kubernetes", StoreKind::kubernetes}},
        "where claim templates are kept (default memory)");
    app.add_option("--kubeconfig", cluster.kubeconfig,
                   "credentials for --store kubernetes (default: the pod's own)");
    auto* const fleet = app.add_option("--fleet", cluster.fleet,
                                       "ResourceSlices as kubectl prints them (memory store)");
    app.add_option("--device-memory", cluster.device_memory,
                   "memory sizes of the fleet's devices, for example 24Gi,80Gi (memory store)")
        ->excludes(fleet);
    app.add_option("--kubernetes-version", cluster.kubernetes_version,
                   "version to write claims for, 1.36 unless told (memory store)");
    app.add_option("--settings", options.settings,
                   "settings file, or HAMi's device-config.yaml; reloaded when it changes");
}

void add_limits(CLI::App& app, ServeOptions& options) {
    app.add_option("--threads", options.capacity.threads, "threads of the admission port")
        ->check(CLI::Range(1, 256));
    app.add_option("--max-connections", options.capacity.max_connections,
                   "connections beyond are closed at once")
        ->check(CLI::Range(1, 1000000))
        ->capture_default_str();
    app.add_option("--max-in-flight", options.capacity.max_in_flight,
                   "reviews beyond are answered 503 at once")
        ->check(CLI::Range(1, 1000000))
        ->capture_default_str();
    add_time(app, "--handshake-timeout", options.times.handshake, "for the TLS handshake");
    add_time(app, "--head-timeout", options.times.head, "from a request's first byte to its head");
    add_time(app, "--body-timeout", options.times.body, "for the body of a request");
    add_time(app, "--write-timeout", options.times.write, "for sending an answer");
    add_time(app, "--idle-timeout", options.times.idle, "between two requests");
    add_time(app, "--drain-delay", options.drain.leaving,
             "how long to go on accepting after SIGTERM");
    add_time(app, "--drain-limit", options.drain.finishing,
             "how long to wait then for what is open");
    base::add_log_level(app, options.log_level);
}

/// What CLI11 cannot check option by option.
void check_together(const ServeOptions& options) {
    if (options.tls.certificate.empty() && options.tls.self_signed.empty()) {
        throw CLI::ValidationError(
            "a certificate is needed: --tls-cert and --tls-key, or "
            "--self-signed FOLDER for a trial");
    }
    const ClusterOptions& cluster = options.cluster;
    const bool told = !cluster.fleet.empty() || !cluster.device_memory.empty() ||
                      !cluster.kubernetes_version.empty();
    if (cluster.store == StoreKind::kubernetes && told) {
        throw CLI::ValidationError(
            "--fleet, --device-memory and --kubernetes-version are for "
            "--store memory; with --store kubernetes the cluster is asked "
            "(memorySizes in the settings win over it)");
    }
    if (cluster.store == StoreKind::memory && !cluster.kubeconfig.empty()) {
        throw CLI::ValidationError("--kubeconfig is for --store kubernetes");
    }
}

void set_default_addresses(ServeOptions& options) {
    const std::string host = options.tls.self_signed.empty() ? "0.0.0.0" : "127.0.0.1";
    if (options.listen.host.empty()) options.listen = {host, admission_port};
    if (options.operator_listen.host.empty()) options.operator_listen = {host, operator_port};
}

}  // namespace

base::Result<Address> parse_address(std::string_view text) {
    const std::size_t colon = text.rfind(':');
    if (colon == std::string_view::npos) return bad_address(text);
    std::string_view host = text.substr(0, colon);
    const std::string_view digits = text.substr(colon + 1);
    Address address;
    const auto [end, error] =
        std::from_chars(digits.data(), digits.data() + digits.size(), address.port);
    if (error != std::errc{} || end != digits.data() + digits.size()) return bad_address(text);
    const bool bracketed = host.starts_with('[') && host.ends_with(']');
    if (bracketed) host = host.substr(1, host.size() - 2);
    address.host = host.empty() && !bracketed ? "0.0.0.0" : std::string(host);
    boost::system::error_code wrong;
    const auto ip = boost::asio::ip::make_address(address.host, wrong);
    if (wrong || ip.is_v6() != bracketed) return bad_address(text);
    return address;
}

void add_options(CLI::App& app, ServeOptions& options) {
    app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
    add_ports(app, options);
    add_tls(app, options.tls);
    add_cluster(app, options);
    add_limits(app, options);
    base::refuse_empty_values(app);
}

std::variant<ServeOptions, ExitNow> parse_options(const std::vector<std::string>& arguments) {
    ServeOptions options;
    options.capacity.threads = std::clamp(std::thread::hardware_concurrency(), 1U, 4U);
    CLI::App app("Answer admission reviews of pods over HTTPS.", "drawbridge serve");
    add_options(app, options);
    try {
        app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
        check_together(options);
    } catch (const CLI::ParseError& error) {
        return ExitNow{base::exit_status(app, error)};
    }
    set_default_addresses(options);
    return options;
}

}  // namespace drawbridge::server
