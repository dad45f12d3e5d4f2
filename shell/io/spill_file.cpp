// SPDX-License-Identifier: Apache-2.0
#include "io/spill_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>

#include <fmt/format.h>

#include "base/file.hpp"

namespace nacre::io {
namespace {

Error failed(int code, const std::string& directory) {
  return system_error(code, fmt::format("cannot keep output in {}", directory));
}

// For file systems without O_TMPFILE: makes a file, and removes its name at once.
UniqueFd open_unlinked(const std::string& directory) {
  UniqueFd fd(::open(directory.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (fd || errno != EOPNOTSUPP) return fd;
  std::string path = directory + "/nacre-spill-XXXXXX";
  fd = UniqueFd(::mkostemp(path.data(), O_CLOEXEC));
  if (fd) ::unlink(path.c_str());
  return fd;
}

}  // namespace

Result<SpillFile> SpillFile::create(const std::string& directory) {
  UniqueFd fd = open_unlinked(directory);
  if (!fd) return failed(errno, directory);
  return SpillFile(std::move(fd), directory);
}

Result<void> SpillFile::add(std::string_view bytes) {
  if (int code = write_all_at(fd_.get(), bytes, end_); code != 0) return failed(code, directory_);
  end_ += bytes.size();
  return {};
}

Result<void> SpillFile::take(std::string& out, std::size_t most) {
  std::size_t before = out.size();
  CHECK_OK(read(out, 0, most));
  return forget(out.size() - before);
}

Result<void> SpillFile::read(std::string& out, std::uint64_t skip, std::size_t most) const {
  auto wanted = static_cast<std::size_t>(std::min<std::uint64_t>(most, size() - std::min(skip, size())));
  std::size_t before = out.size();
  out.resize(before + wanted);
  for (std::size_t done = 0; done < wanted;) {
    auto at = static_cast<off_t>(begin_ + skip + done);
    ssize_t got = ::pread(fd_.get(), out.data() + before + done, wanted - done, at);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {
      out.resize(before);
      return failed(got < 0 ? errno : EIO, directory_);
    }
    done += static_cast<std::size_t>(got);
  }
  return {};
}

Result<void> SpillFile::forget(std::uint64_t bytes) {
  begin_ += bytes;
  if (begin_ == end_) {
    begin_ = end_ = 0;
    if (::ftruncate(fd_.get(), 0) < 0) return failed(errno, directory_);
  } else if (bytes > 0) {
    // If the file system cannot do this only space is lost.
    static_cast<void>(
        ::fallocate(fd_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, static_cast<off_t>(begin_)));
  }
  return {};
}

}  // namespace nacre::io
