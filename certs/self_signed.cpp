#include "certs/self_signed.hpp"

#include "base/atomic_file.hpp"
#include "certs/issue.hpp"
#include "certs/pem.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fcntl.h>
#include <optional>
#include <string>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>
#include <vector>

namespace drawbridge::certs {
namespace {

using base::ErrorKind;

constexpr std::chrono::days ca_lifetime{365};
constexpr std::chrono::days leaf_lifetime{90};
constexpr std::size_t max_file_bytes = 1U << 20U;
constexpr const char* ca_name = "drawbridge self-signed";
constexpr mode_t private_mode = 0600;
constexpr mode_t public_mode = 0644;

const std::vector<std::string>& dns_names() {
    static const std::vector<std::string> names = {
        "localhost", "drawbridge-webhook.drawbridge-system.svc",
        "drawbridge-webhook.drawbridge-system.svc.cluster.local"};
    return names;
}

const std::vector<std::string>& ip_addresses() {
    static const std::vector<std::string> addresses = {"127.0.0.1", "::1"};
    return addresses;
}

base::Error system_error(std::string_view what, const std::filesystem::path& path) {
    return {ErrorKind::internal, fmt::format("{}: {}", what, std::strerror(errno)), path.string()};
}

/// A lock on a folder between processes, held as long as this lives.
class FolderLock {
public:
    static base::Result<FolderLock> take(const std::filesystem::path& folder) {
        FolderLock lock(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
        if (lock.descriptor_ < 0)
            return tl::unexpected(system_error("folder cannot be opened", folder));
        while (::flock(lock.descriptor_, LOCK_EX) != 0) {
            if (errno != EINTR)
                return tl::unexpected(system_error("folder cannot be locked", folder));
        }
        return lock;
    }

    FolderLock(FolderLock&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
    FolderLock& operator=(FolderLock&&) = delete;
    ~FolderLock() {
        if (descriptor_ >= 0) ::close(descriptor_);
    }

private:
    explicit FolderLock(int descriptor) : descriptor_(descriptor) {}
    int descriptor_;
};

base::Result<void> make_folder(const std::filesystem::path& folder) {
    std::error_code ignored;
    std::filesystem::create_directories(folder.parent_path(), ignored);
    if (::mkdir(folder.c_str(), 0700) == 0 || errno == EEXIST) return {};
    return tl::unexpected(system_error("folder cannot be made", folder));
}

/// What the folder holds, as far as it is of use. Keys that do not fit count as missing.
struct Content {
    PemPair ca;
    std::vector<std::string> old_ca_pems;  ///< in step with identity.old_cas
    Identity identity;
};

std::string text_of(const std::filesystem::path& path) {
    return base::read_file(path.string(), max_file_bytes).value_or(std::string());
}

/// Sorts the bundle: the first certificate is the authority if its key is there, the others are old
/// ones.
void read_bundle(const SelfSignedFiles& files, Content& content) {
    const auto bundle = certificates_from_pem(text_of(files.ca_bundle));
    if (!bundle) return;
    const std::string key = text_of(files.ca_key);
    const auto parsed_key = key_from_pem(key);
    for (const auto& certificate : *bundle) {
        auto pem = to_pem(*certificate);
        auto facts = pem ? read_certificates(*pem) : tl::unexpected(pem.error());
        if (!facts || !facts->front().is_ca) continue;
        const bool is_current = certificate == bundle->front() && parsed_key &&
                                X509_check_private_key(certificate.get(), parsed_key->get()) == 1;
        if (is_current) {
            content.identity.ca = std::move(facts->front());
            content.ca = {std::move(*pem), key};
        } else {
            content.identity.old_cas.push_back(std::move(facts->front()));
            content.old_ca_pems.push_back(std::move(*pem));
        }
    }
    (void)take_openssl_error();
}

/// Whether one of a file's certificates is of our authority, or is it.
bool names_our_authority(const std::filesystem::path& path) {
    const auto certificates = read_certificates(text_of(path));
    return certificates && std::ranges::any_of(*certificates, [](const CertFacts& facts) {
               return facts.issuer == fmt::format("CN={}", ca_name);
           });
}

/// What others keep in the folder under our names is theirs: nothing of it is written over.
base::Result<void> check_owner(const SelfSignedFiles& files) {
    if (names_our_authority(files.ca_bundle) || names_our_authority(files.certificate)) return {};
    for (const auto& file : {files.ca_bundle, files.certificate, files.key}) {
        if (text_of(file).empty()) continue;
        return base::fail(ErrorKind::conflict,
                          "the file was not made by --self-signed and would be lost; give a folder "
                          "of its own, or use --tls-cert and --tls-key",
                          file.string());
    }
    return {};
}

bool has_all_names(const CertFacts& leaf) {
    const auto includes = [](const auto& all, const auto& wanted) {
        return std::all_of(wanted.begin(), wanted.end(), [&](const auto& name) {
            return std::find(all.begin(), all.end(), name) != all.end();
        });
    };
    return includes(leaf.dns_names, dns_names()) && includes(leaf.ip_addresses, ip_addresses());
}

Content read_content(const SelfSignedFiles& files, Time now) {
    Content content;
    read_bundle(files, content);
    const std::string certificate = text_of(files.certificate);
    const auto leaf = inspect_pair(certificate, text_of(files.key), now);
    if (leaf && has_all_names(*leaf) && content.identity.ca &&
        is_signed_by(certificate, content.ca.certificate)) {
        content.identity.leaf = *leaf;
    }
    return content;
}

/// Writes the bundle, without the old authorities that are out of use.
base::Result<void> write_bundle(const SelfSignedFiles& files, const Content& content, Time now) {
    std::string bundle = content.ca.certificate;
    for (std::size_t i = 0; i < content.old_ca_pems.size(); ++i) {
        if (!is_out_of_use(now, content.identity.old_cas[i], content.identity))
            bundle += content.old_ca_pems[i];
    }
    return base::write_file_atomically(files.ca_bundle.string(), bundle, public_mode);
}

/// The key goes first: a crash behind it leaves a pair that does not match, which the next start
/// replaces.
base::Result<void> renew_ca(const SelfSignedFiles& files, Content& content, Time now) {
    auto ca = make_ca(ca_name, ca_lifetime, now);
    if (!ca) return tl::unexpected(ca.error());
    if (content.identity.ca) {
        content.identity.old_cas.insert(content.identity.old_cas.begin(), *content.identity.ca);
        content.old_ca_pems.insert(content.old_ca_pems.begin(), content.ca.certificate);
    }
    content.ca = std::move(*ca);
    content.identity.ca.reset();
    content.identity.leaf.reset();
    return base::write_file_atomically(files.ca_key.string(), content.ca.key, private_mode)
        .and_then([&] { return write_bundle(files, content, now); });
}

base::Result<CertFacts> renew_leaf(const SelfSignedFiles& files, const Content& content, Time now) {
    auto leaf = make_leaf(content.ca, dns_names(), ip_addresses(), leaf_lifetime, now);
    if (!leaf) return tl::unexpected(leaf.error());
    const auto written =
        base::write_file_atomically(files.key.string(), leaf->key, private_mode).and_then([&] {
            return base::write_file_atomically(files.certificate.string(), leaf->certificate,
                                               public_mode);
        });
    if (!written) return tl::unexpected(written.error());
    return inspect_pair(leaf->certificate, leaf->key, now);
}

}  // namespace

base::Result<SelfSigned> load_or_make(const std::filesystem::path& folder, Time now) {
    if (auto made = make_folder(folder); !made) return tl::unexpected(made.error());
    const auto lock = FolderLock::take(folder);
    if (!lock) return tl::unexpected(lock.error());
    SelfSigned result;
    result.files = {folder / "ca.crt", folder / "ca.key", folder / "tls.crt", folder / "tls.key"};
    if (auto owner = check_owner(result.files); !owner) return tl::unexpected(owner.error());
    Content content = read_content(result.files, now);
    result.done = next_step(now, content.identity);
    base::Result<void> bundle_written;
    if (result.done == RotationStep::renew_ca)
        bundle_written = renew_ca(result.files, content, now);
    if (result.done == RotationStep::drop_old_ca)
        bundle_written = write_bundle(result.files, content, now);
    if (!bundle_written) return tl::unexpected(bundle_written.error());
    if (!content.identity.leaf || result.done == RotationStep::renew_leaf) {
        auto leaf = renew_leaf(result.files, content, now);
        if (!leaf) return tl::unexpected(leaf.error());
        content.identity.leaf = std::move(*leaf);
    }
    result.leaf = std::move(*content.identity.leaf);
    return result;
}

}  // namespace drawbridge::certs
