// SPDX-License-Identifier: Apache-2.0
#include "archive/tree.hpp"

#include <dirent.h>
#include <fcntl.h>

#include <algorithm>
#include <memory>

#include "archive/path.hpp"
#include "base/text.hpp"
#include "base/unique_fd.hpp"

namespace nacre::archive {
namespace {

struct CloseDirectory {
  void operator()(DIR* directory) const { ::closedir(directory); }
};

Result<std::vector<std::string>> names_in(int base, const std::string& path) {
  UniqueFd fd(::openat(base, path.empty() ? "." : path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!fd) return failed(errno, path);
  std::unique_ptr<DIR, CloseDirectory> directory(::fdopendir(fd.get()));
  if (!directory) return failed(errno, path);
  static_cast<void>(fd.release());
  std::vector<std::string> names;
  for (;;) {
    errno = 0;
    const dirent* each = ::readdir(directory.get());
    if (each == nullptr) break;
    std::string name = each->d_name;
    if (name != "." && name != "..") names.push_back(std::move(name));
  }
  if (errno != 0) return failed(errno, path);
  std::sort(names.begin(), names.end());
  return names;
}

class Walk {
 public:
  Walk(int base, const std::function<Result<void>(const Found&)>& visit) : base_(base), visit_(visit) {}

  Result<void> at(const std::string& path) {
    if (path.empty()) return below(path);
    CHECK_OK(in(in_quotes(path), clean_path(path)));  // checks its length
    Found found{path, {}};
    if (::fstatat(base_, path.c_str(), &found.info, AT_SYMLINK_NOFOLLOW) < 0) return failed(errno, path);
    CHECK_OK(visit_(found));
    return S_ISDIR(found.info.st_mode) ? below(path) : Result<void>();
  }

 private:
  Result<void> below(const std::string& path) {
    for (const std::string& name : TRY(names_in(base_, path))) {
      CHECK_OK(at(path.empty() ? name : path + '/' + name));
    }
    return {};
  }

  int base_;
  const std::function<Result<void>(const Found&)>& visit_;
};

}  // namespace

Result<void> walk(int base, const std::vector<std::string>& paths,
                  const std::function<Result<void>(const Found&)>& visit) {
  for (const std::string& path : paths) CHECK_OK(Walk(base, visit).at(path));
  return {};
}

}  // namespace nacre::archive
