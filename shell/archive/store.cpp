// SPDX-License-Identifier: Apache-2.0
#include "archive/store.hpp"

#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>

#include "base/text.hpp"

namespace nacre::archive {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kNamesInError = 10;
constexpr int kTemporaryTries = 100;

std::optional<std::string_view> without_extension(std::string_view file) {
  for (Compression each : kCompressions) {
    if (file.ends_with(extension_of(each))) return file.substr(0, file.size() - extension_of(each).size());
  }
  return std::nullopt;
}

std::string listed(const std::vector<std::string>& names) {
  if (names.empty()) return "no archives";
  std::string out = names.size() == 1 ? "only " : "";
  for (std::size_t i = 0; i < std::min(names.size(), kNamesInError); ++i) {
    if (i > 0) out += ", ";
    out += in_quotes(names[i]);
  }
  if (names.size() > kNamesInError) out += fmt::format(" and {} more", names.size() - kNamesInError);
  return out;
}

}  // namespace

Result<ArchiveStore> ArchiveStore::of_environment(const Variable& variable) {
  constexpr std::string_view kBelowData = "/nacre/archives";
  constexpr std::string_view kBelowHome = "/.local/share/nacre/archives";
  constexpr std::string_view kHome = "HOME";
  struct Source {
    const char* name;
    std::string_view below;
  };
  for (const auto& [name, below] :
       {Source{"NACRE_ARCHIVE_DIR", ""}, Source{"XDG_DATA_HOME", kBelowData}, Source{kHome.data(), kBelowHome}}) {
    std::optional<std::string> value = variable(name);
    if (!value || value->empty()) continue;
    if (!value->starts_with('/')) {
      return invalid(fmt::format("{}: expected an absolute path, got {}", name, in_quotes(*value)));
    }
    if (std::error_code error; name == kHome && !fs::is_directory(*value, error))
      return Error{ENOENT, fmt::format("HOME: {} is no directory: set NACRE_ARCHIVE_DIR", in_quotes(*value))};
    return ArchiveStore(*value + std::string(below));
  }
  return Error{ENOENT,
               "the directory of archives is not known: NACRE_ARCHIVE_DIR, XDG_DATA_HOME and HOME are not set"};
}

Result<void> ArchiveStore::check_name(std::string_view name) {
  auto bad = [name](std::string_view why) {
    return invalid(fmt::format("archive name {}: {}", in_quotes(name), why));
  };
  if (name.empty()) return bad("expected a name");
  if (name.size() > kMaxName) return bad(fmt::format("expected at most {} bytes, got {}", kMaxName, name.size()));
  if (name.starts_with('.')) return bad("expected a name that does not start with '.'");
  auto is_bad = [](char c) { return c == '/' || static_cast<unsigned char>(c) < 0x20 || c == 0x7f; };
  if (std::any_of(name.begin(), name.end(), is_bad))
    return bad("expected a name without '/' and control characters");
  if (auto plain = without_extension(name)) {
    return bad(fmt::format("expected it without its extension: {}", in_quotes(*plain)));
  }
  return {};
}

std::string ArchiveStore::path_of(const std::string& name, Compression compression) const {
  return fmt::format("{}/{}{}", directory_, name, extension_of(compression));
}

Result<std::optional<ArchiveStore::Found>> ArchiveStore::look_up(const std::string& name) const {
  CHECK_OK(check_name(name));
  std::optional<Found> found;
  for (Compression each : kCompressions) {
    std::string path = path_of(name, each);
    struct stat info {};
    if (::stat(path.c_str(), &info) < 0) {
      if (errno == ENOENT || errno == ENOTDIR) continue;
      return system_error(errno, path);
    }
    if (found) {
      return invalid(
          fmt::format("two archives are called {}: {} and {}; remove one", in_quotes(name), found->path, path));
    }
    found = Found{std::move(path), each};
  }
  return found;
}

Result<ArchiveStore::Found> ArchiveStore::find(const std::string& name) const {
  if (std::optional<Found> found = TRY(look_up(name))) return *std::move(found);
  auto there = names();
  std::string what = there ? "there: " + listed(*there) : there.error().message;
  return Error{ENOENT, fmt::format("no archive {} in {} ({})", in_quotes(name), directory_, what)};
}

Result<std::vector<std::string>> ArchiveStore::names() const {
  std::vector<std::string> out;
  std::error_code error;
  fs::directory_iterator each(directory_, error);
  for (; !error && each != fs::directory_iterator(); each.increment(error)) {
    std::string file = each->path().filename().native();
    auto name = without_extension(file);
    if (name && check_name(*name)) out.emplace_back(*name);
  }
  if (error && error != std::errc::no_such_file_or_directory) return system_error(error.value(), directory_);
  std::sort(out.begin(), out.end());
  return out;
}

Result<void> ArchiveStore::remove(const Found& found) const {
  if (::unlink(found.path.c_str()) < 0) return system_error(errno, "cannot remove " + found.path);
  return {};
}

Result<NewFile> NewFile::create(const std::string& path) {
  fs::path target(path);
  std::error_code error;
  fs::create_directories(target.parent_path(), error);
  if (error) return system_error(error.value(), "cannot make " + target.parent_path().native());
  for (int tries = 0; tries < kTemporaryTries; ++tries) {
    std::uint32_t random = 0;
    if (::getrandom(&random, sizeof random, 0) < 0) return system_error(errno, "getrandom");
    std::string temporary = target.parent_path() / fmt::format(".{}.{:08x}", target.filename().native(), random);
    UniqueFd fd(::open(temporary.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
    if (fd) return NewFile(std::move(fd), std::move(temporary), path);
    if (errno != EEXIST) return system_error(errno, "cannot write to " + target.parent_path().native());
  }
  return Error{EEXIST, fmt::format("cannot find a free name in {}", target.parent_path().native())};
}

NewFile::~NewFile() {
  if (fd_) ::unlink(temporary_.c_str());
}

Result<void> NewFile::commit(bool replace) {
  if (::fsync(fd_.get()) < 0) return system_error(errno, path_);
  int done = replace ? ::rename(temporary_.c_str(), path_.c_str()) : ::link(temporary_.c_str(), path_.c_str());
  if (done < 0) return system_error(errno, path_);
  if (!replace) ::unlink(temporary_.c_str());
  fd_.reset();
  return {};
}

}  // namespace nacre::archive
