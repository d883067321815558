#pragma once
// What can go wrong in operation, and the type that carries it to the caller.

#include <tl/expected.hpp>

#include <string>
#include <utility>

namespace drawbridge::base {

/// What kind of failure; decides the HTTP status and whether trying again can help.
enum class ErrorKind {
    invalid_input,
    not_found,
    conflict,
    forbidden,
    unavailable,
    timed_out,
    internal
};

/// One failure: what was found, what is allowed, and where.
struct Error {
    ErrorKind kind = ErrorKind::internal;
    std::string message;
    std::string path;  ///< JSON pointer or file name; may be empty
};

/// A value, or the reason why there is none. Propagate it, or answer it at the edge; never drop it.
template <class T>
using Result = tl::expected<T, Error>;

/// An `Error` ready to be returned from a function that returns a `Result`.
[[nodiscard]] inline tl::unexpected<Error> fail(ErrorKind kind, std::string message,
                                                std::string path = {}) {
    return tl::unexpected<Error>(Error{kind, std::move(message), std::move(path)});
}

}  // namespace drawbridge::base
