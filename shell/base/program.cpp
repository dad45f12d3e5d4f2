// SPDX-License-Identifier: Apache-2.0
#include "base/program.hpp"

#include <dlfcn.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "base/text.hpp"

namespace nacre {

// ---- program path -----------------------------------------------------------------------

bool is_in_path(std::string_view program) {
  std::string path = own_variable("PATH").value_or("/usr/bin:/bin");
  std::vector<std::string_view> folders = split(path, ':');
  return std::any_of(folders.begin(), folders.end(), [&](std::string_view folder) {
    return ::access(fmt::format("{}/{}", folder.empty() ? "." : folder, program).c_str(), X_OK) == 0;
  });
}

std::string host_name() {
  std::array<char, HOST_NAME_MAX + 1> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

std::string own_program() {
  std::array<char, PATH_MAX> path;  // NOLINT: what is read is written before
  ssize_t size = ::readlink("/proc/self/exe", path.data(), path.size());
  if (size > 0) return std::string(path.data(), static_cast<std::size_t>(size));
  const auto* given = reinterpret_cast<const char*>(::getauxval(AT_EXECFN));
  bool is_known = given != nullptr && ::realpath(given, path.data()) != nullptr;
  return is_known ? path.data() : "";
}

std::string beside_own_program(std::string_view name) {
  std::string own = own_program();
  return own.substr(0, own.rfind('/') + 1).append(name);
}

// ---- installed --------------------------------------------------------------------------

InstalledTree::InstalledTree(const char* program_directory) {
  const std::string program = own_program();
  if (program.empty()) return;
  const std::string path = program.substr(0, program.rfind('/'));
  struct stat of_program {};
  if (path == program_directory) return;
  // The file may have been replaced, or removed, since it was started.
  if (::stat("/proc/self/exe", &of_program) != 0 && ::stat(program.c_str(), &of_program) != 0) return;
  directory_ = path;
  owner_ = of_program.st_uid;
}

std::string InstalledTree::path(std::initializer_list<const char*> relative, const char* absolute) const {
  if (directory_.empty()) return absolute;
  for (const char* each : relative) {
    std::string path = (std::filesystem::path(directory_) / each).lexically_normal();
    struct stat found {};
    if (::stat(path.c_str(), &found) != 0) continue;
    // Files that other users could have put there are ignored.
    if (found.st_uid == owner_ || found.st_uid == 0) return path;
  }
  return absolute;
}

void* load_library(const char* soname, int flags) {
  void* found = ::dlopen(soname, flags);
#ifdef NACRE_SHIPPED
  if (found != nullptr) return found;
  const std::string shipped = InstalledTree("").path({fmt::format(NACRE_SHIPPED "/{}", soname).c_str()}, "");
  if (!shipped.empty()) found = ::dlopen(shipped.c_str(), flags);
#endif
  return found;
}

// ---- process title ----------------------------------------------------------------------

// Uses the arguments only as far as they are adjacent. The environment behind them stays as it is, as others read
// this process's.
ProcessTitle::ProcessTitle(int argc, char** argv) {
  if (argc < 1 || argv[0] == nullptr) return;
  begin_ = argv[0];
  char* end = begin_;
  for (int i = 0; i < argc && argv[i] == end; ++i) end += std::strlen(argv[i]) + 1;
  size_ = static_cast<std::size_t>(end - begin_);
}

void ProcessTitle::set(std::initializer_list<std::string> titles) {
  if (size_ == 0 || titles.size() == 0) return;
  const std::string* chosen =
      std::find_if(titles.begin(), titles.end(), [this](const std::string& each) { return each.size() < size_; });
  if (chosen == titles.end()) --chosen;
  std::size_t length = std::min(chosen->size(), size_ - 1);
  std::memcpy(begin_, chosen->data(), length);
  std::memset(begin_ + length, 0, size_ - length);
}

void ProcessTitle::keep_unless(std::size_t room) {
  if (size_ <= room) size_ = 0;
}

// ---- variable ---------------------------------------------------------------------------

std::optional<std::string> own_variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? std::optional<std::string>(value) : std::nullopt;
}

std::string shared_directory() {
  for (const char* each : {"/tmp", "/var/tmp", "/dev/shm"}) {
    if (::access(each, W_OK | X_OK) == 0) return each;
  }
  return "/tmp";
}

void settle_temporary_directory() {
  const std::string given = own_variable("TMPDIR").value_or("");
  if (!given.empty() && (::access(given.c_str(), W_OK) == 0 || errno != EROFS)) return;
  const std::string found = shared_directory();
  if (!given.empty() || found != "/tmp") ::setenv("TMPDIR", found.c_str(), 1);
}

bool is_in_background(int fd) {
  pid_t foreground = ::tcgetpgrp(fd);
  return foreground >= 0 && foreground != ::getpgrp();
}

// ---- utf8 terminal ----------------------------------------------------------------------

bool is_utf8_locale(std::string_view locale) {
  std::string small(locale);
  std::transform(small.begin(), small.end(), small.begin(), [](unsigned char c) { return std::tolower(c); });
  return small.find("utf-8") != std::string::npos || small.find("utf8") != std::string::npos;
}

bool is_utf8_locale(const VariableLookup& variable) {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    if (auto value = variable(name); value && !value->empty()) return is_utf8_locale(*value);
  }
  return false;
}

bool is_utf8_terminal(int fd) {
  return ::isatty(fd) == 1 && own_variable("TERM").value_or("") != "dumb" && is_utf8_locale(own_variable);
}

}  // namespace nacre
