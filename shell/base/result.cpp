// SPDX-License-Identifier: Apache-2.0
#include "base/result.hpp"

namespace nacre {
namespace {

const char* remedy(int code) {
  if (code == EMFILE) return " (raise the limit with ulimit -n)";
  if (code == ENFILE) return " (raise fs.file-max)";
  return "";
}

}  // namespace

Error system_error(int code, std::string_view what) {
  return Error{code, std::string(what) + remedy(code) + ": " + std::strerror(code)};
}

Error in(std::string_view where, Error error) {
  if (where.empty()) return error;
  error.message.insert(0, ": ");
  error.message.insert(0, where);
  return error;
}

}  // namespace nacre
