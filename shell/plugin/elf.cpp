// SPDX-License-Identifier: Apache-2.0
#include "plugin/elf.hpp"

#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

#include <fmt/format.h>

#include "base/unique_fd.hpp"

namespace nacre::plugin {
namespace {

using Header = ElfW(Ehdr);
using Segment = ElfW(Phdr);

template <typename T>
bool read_at(int fd, std::uint64_t offset, T& out) {
  return ::pread(fd, &out, sizeof out, static_cast<off_t>(offset)) == static_cast<ssize_t>(sizeof out);
}

// Whether two objects are of one word size and byte order, so that the rest of their headers can be compared.
bool alike(const Header& a, const Header& b) { return std::memcmp(a.e_ident, b.e_ident, EI_DATA + 1) == 0; }

}  // namespace

Result<void> check_object(const std::string& path) {
  UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  UniqueFd self(::open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
  Header header{};
  Header own{};
  struct stat info {};
  if (!file || !self || ::fstat(file.get(), &info) < 0 || !S_ISREG(info.st_mode)) return {};
  if (!read_at(file.get(), 0, header) || !read_at(self.get(), 0, own) || !alike(header, own)) return {};
  if (header.e_machine != own.e_machine) {
    return invalid(fmt::format("{}: is for another machine (ELF machine {}, this one is {})", path,
                               header.e_machine, own.e_machine));
  }
  std::uint64_t needed = 0;
  for (unsigned i = 0; i < header.e_phnum; ++i) {
    Segment segment{};
    if (!read_at(file.get(), header.e_phoff + std::uint64_t{i} * header.e_phentsize, segment)) break;
    if (segment.p_type == PT_LOAD) needed = std::max<std::uint64_t>(needed, segment.p_offset + segment.p_filesz);
  }
  auto size = static_cast<std::uint64_t>(info.st_size);
  if (size >= needed) return {};
  return invalid(fmt::format("{}: is cut off: it has {} bytes, of at least {}", path, size, needed));
}

}  // namespace nacre::plugin
