// SPDX-License-Identifier: Apache-2.0
#include "plugins/doctor/python_look.hpp"

#include <sys/uio.h>

#include <cerrno>
#include <cstring>

#include <fmt/format.h>

#include "base/file.hpp"
#include "plugins/doctor/stack_taker.hpp"

namespace nacre::plugins {
namespace {

Error not_allowed(int code) {
  std::string setting = trace_setting();
  return Error{code,
               fmt::format("the shell may not read their memory{}", setting.empty() ? "" : " (" + setting + ")")};
}

Result<void> copy_from(pid_t pid, std::uint64_t address, void* to, std::size_t size) {
  iovec here{to, size};
  iovec there{reinterpret_cast<void*>(address), size};  // NOLINT: of the other process
  ssize_t copied = ::process_vm_readv(pid, &here, 1, &there, 1, 0);
  if (copied == static_cast<ssize_t>(size)) return {};
  if (copied >= 0 || errno == EFAULT) return Error{EFAULT, "their memory is not what it seemed to be"};
  if (errno == EPERM || errno == EACCES) return not_allowed(errno);
  return Error{errno, std::strerror(errno)};
}

}  // namespace

Result<std::optional<doctor::PythonStacks>> python_stacks_of(pid_t pid, const std::string& program) {
  auto maps = read_file(fmt::format("/proc/{}/maps", pid));
  if (!maps) {
    if (!doctor::may_be_python(program)) return std::optional<doctor::PythonStacks>();
    int code = maps.error().code;
    return code == EPERM || code == EACCES ? not_allowed(code) : Error{code, std::strerror(code)};
  }
  auto files = doctor::loaded_files(*maps, doctor::may_be_python);
  if (files.empty()) return std::optional<doctor::PythonStacks>();
  auto read = [pid](std::uint64_t address, void* to, std::size_t size) {
    return copy_from(pid, address, to, size);
  };
  return std::optional(TRY(doctor::python_stacks(read, files)));
}

}  // namespace nacre::plugins
