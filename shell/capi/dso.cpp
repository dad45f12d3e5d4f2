// SPDX-License-Identifier: Apache-2.0
#include "capi/dso.hpp"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <optional>

#include <fmt/format.h>

#include "base/program.hpp"
#include "base/unique_fd.hpp"

namespace nacre::capi {

Result<Dso> Dso::open(const std::string& path, int flags) {
  CHECK_OK(check_object(path));
  if (void* handle = ::dlopen(path.c_str(), flags)) return Dso(handle);
  const char* reason = ::dlerror();
  std::string why = reason != nullptr ? reason : "cannot be loaded";
  std::replace(why.begin(), why.end(), '\n', ' ');
  // The loader names the file that failed, which may be a library that the plugin needs.
  if (why.starts_with(path + ": ")) return invalid(std::move(why));
  return invalid(path + ": " + why);
}

Dso::~Dso() {
  if (handle_ != nullptr) ::dlclose(handle_);
}

void* Dso::symbol(const char* name) const { return ::dlsym(handle_, name); }

// ---- elf --------------------------------------------------------------------------------

namespace {

using Header = ElfW(Ehdr);
using Segment = ElfW(Phdr);
using Dynamic = ElfW(Dyn);

constexpr std::size_t kMaxDynamic = 4096;     // entries of the dynamic section
constexpr std::size_t kMaxNeeded = 1024;      // libraries
constexpr std::size_t kMaxLibraryName = 256;  // bytes

template <typename T>
bool read_at(int fd, std::uint64_t offset, T& out) {
  return ::pread(fd, &out, sizeof out, static_cast<off_t>(offset)) == static_cast<ssize_t>(sizeof out);
}

// Whether two objects have the same word size and byte order, so that the rest of their headers can be compared.
bool alike(const Header& a, const Header& b) { return std::memcmp(a.e_ident, b.e_ident, EI_DATA + 1) == 0; }

// The headers of a file, if it is an ELF file of this program's word size and byte order.
struct Image {
  UniqueFd file;
  Header header{};
  Header own{};

  static std::optional<Image> open(const std::string& path) {
    Image out;
    out.file = UniqueFd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    UniqueFd self(::open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
    if (!self) self = UniqueFd(::open(own_program().c_str(), O_RDONLY | O_CLOEXEC));
    struct stat info {};
    if (!out.file || !self || ::fstat(out.file.get(), &info) < 0 || !S_ISREG(info.st_mode)) return std::nullopt;
    if (!read_at(out.file.get(), 0, out.header) || !read_at(self.get(), 0, out.own)) return std::nullopt;
    if (!alike(out.header, out.own)) return std::nullopt;
    return out;
  }

  [[nodiscard]] std::vector<Segment> segments() const {
    std::vector<Segment> out;
    for (unsigned i = 0; i < header.e_phnum; ++i) {
      Segment segment{};
      if (!read_at(file.get(), header.e_phoff + std::uint64_t{i} * header.e_phentsize, segment)) break;
      out.push_back(segment);
    }
    return out;
  }

  // The text up to its NUL; "" if there is no NUL within kMaxLibraryName bytes.
  [[nodiscard]] std::string text_at(std::uint64_t offset) const {
    std::array<char, kMaxLibraryName> text{};
    ssize_t got = ::pread(file.get(), text.data(), text.size(), static_cast<off_t>(offset));
    auto end = std::find(text.begin(), text.begin() + std::max<ssize_t>(got, 0), '\0');
    return got > 0 && end != text.begin() + got ? std::string(text.begin(), end) : std::string();
  }
};

// The position in the file of an address of the loaded object.
std::optional<std::uint64_t> offset_of(std::uint64_t address, const std::vector<Segment>& segments) {
  for (const Segment& each : segments) {
    bool inside = each.p_type == PT_LOAD && address >= each.p_vaddr && address - each.p_vaddr < each.p_filesz;
    if (inside) return address - each.p_vaddr + each.p_offset;
  }
  return std::nullopt;
}

}  // namespace

Result<void> check_object(const std::string& path) {
  auto image = Image::open(path);
  if (!image) return {};
  if (image->header.e_machine != image->own.e_machine) {
    return invalid(fmt::format("{}: is for another machine (ELF machine {}, this one is {})", path,
                               image->header.e_machine, image->own.e_machine));
  }
  std::uint64_t needed = 0;
  for (const Segment& each : image->segments()) {
    if (each.p_type == PT_LOAD) needed = std::max<std::uint64_t>(needed, each.p_offset + each.p_filesz);
  }
  struct stat info {};
  ::fstat(image->file.get(), &info);
  auto size = static_cast<std::uint64_t>(info.st_size);
  if (size >= needed) return {};
  return invalid(fmt::format("{}: is cut off: it has {} bytes, of at least {}", path, size, needed));
}

std::vector<std::string> needed_libraries(const std::string& path) {
  auto image = Image::open(path);
  if (!image) return {};
  std::vector<Segment> segments = image->segments();
  auto dynamic =
      std::find_if(segments.begin(), segments.end(), [](auto& each) { return each.p_type == PT_DYNAMIC; });
  if (dynamic == segments.end()) return {};
  std::vector<Dynamic> entries(std::min<std::size_t>(dynamic->p_filesz / sizeof(Dynamic), kMaxDynamic));
  ssize_t got = ::pread(image->file.get(), entries.data(), entries.size() * sizeof(Dynamic),
                        static_cast<off_t>(dynamic->p_offset));
  entries.resize(static_cast<std::size_t>(std::max<ssize_t>(got, 0)) / sizeof(Dynamic));
  std::optional<std::uint64_t> texts;
  for (const Dynamic& each : entries) {
    if (each.d_tag == DT_STRTAB) texts = offset_of(each.d_un.d_ptr, segments);
  }
  std::vector<std::string> names;
  for (const Dynamic& each : entries) {
    if (each.d_tag == DT_NULL || !texts || names.size() == kMaxNeeded) break;
    if (each.d_tag == DT_NEEDED) names.push_back(image->text_at(*texts + each.d_un.d_val));
  }
  return names;
}

}  // namespace nacre::capi
