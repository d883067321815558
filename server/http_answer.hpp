#pragma once
// The answers of http/ under the server's own name.

#include "http/answer.hpp"

namespace drawbridge::server {

using http::append_http;
using http::failure;
using http::HttpAnswer;

}  // namespace drawbridge::server
