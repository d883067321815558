#pragma once
// The two kinds of AccessSource: files that may change, and an exec plugin.

#include "base/result.hpp"
#include "kube/client/credentials.hpp"
#include "kube/client/kubeconfig.hpp"

#include <boost/asio/any_io_executor.hpp>

#include <memory>
#include <string>
#include <string_view>

namespace drawbridge::kube::client {

/// A whole file of at most 1 MiB; `not_found` where there is none.
[[nodiscard]] base::Result<std::string> read_file(const std::string& path);
/// Without white space at both ends.
[[nodiscard]] std::string trimmed(std::string_view text);

/// The files an access is read from; empty: not read.
struct AccessFiles {
    std::string token = {};
    std::string certificate = {};
    std::string key = {};
    std::string authorities = {};
};

/// An access that is read from files again and again; what no file gives comes from `fixed`. Fails
/// if a file cannot be read now.
[[nodiscard]] base::Result<std::unique_ptr<AccessSource>> file_access(AccessFiles files,
                                                                      Access fixed = {});

/// What the chosen user of a kubeconfig needs.
[[nodiscard]] base::Result<std::unique_ptr<AccessSource>> kubeconfig_access(
    boost::asio::any_io_executor executor, KubeconfigChoice choice);

}  // namespace drawbridge::kube::client
