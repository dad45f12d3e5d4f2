// SPDX-License-Identifier: Apache-2.0
#include "shells/image.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shells/kernel.hpp"

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define NACRE_ASAN_OF_SHELLS 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define NACRE_ASAN_OF_SHELLS 1
#endif

namespace nacre::shells {
namespace {

bool has_images = false;

#if defined(__clang__) || defined(__GNUC__)
#define NACRE_UNCHECKED __attribute__((no_sanitize("address"), noinline))
#endif

// Also copies the sanitizers' gaps between variables.
NACRE_UNCHECKED void copy_words(char* to, const char* from, std::size_t size) {
  auto* out = reinterpret_cast<volatile std::uint64_t*>(to);
  const auto* in = reinterpret_cast<const volatile std::uint64_t*>(from);
  for (std::size_t i = 0; i < size / sizeof *out; ++i) out[i] = in[i];
  for (std::size_t i = size / sizeof *out * sizeof *out; i < size; ++i) {
    *const_cast<volatile char*>(to + i) = *const_cast<const volatile char*>(from + i);
  }
}

template <typename Function>
void find(void* handle, const char* name, Function& out) {
  out = reinterpret_cast<Function>(::dlsym(handle, name));
  if (out == nullptr) throw Defect{std::string("the shell's library has no ") + name};
}

std::string library_path() {
  std::string path(4096, '\0');
  ssize_t size = ::readlink("/proc/self/exe", path.data(), path.size());
  path.resize(size > 0 ? static_cast<std::size_t>(size) : 0);
  return path.substr(0, path.rfind('/')) + "/" + NACRE_SHELL_LIBRARY;
}

}  // namespace

// The loader tells libraries apart by their inodes.
Image::Image(const std::string& library) {
  has_images = true;
  int from = ::open(library.c_str(), O_RDONLY | O_CLOEXEC);
  struct stat status {};
  if (from < 0 || ::fstat(from, &status) < 0) throw Defect{library + " cannot be read"};
  int copy = ::memfd_create("nacre-shell", MFD_CLOEXEC);
  for (off_t left = status.st_size; left > 0;) {
    ssize_t size = ::sendfile(copy, from, nullptr, static_cast<std::size_t>(left));
    if (size <= 0) throw Defect{library + " cannot be copied"};
    left -= size;
  }
  ::close(from);
  int kept = ::fcntl(copy, F_DUPFD_CLOEXEC, kOwnDescriptors);  // for tools that read its symbols
  ::close(copy);
  std::string path = "/proc/" + std::to_string(::getpid()) + "/fd/" + std::to_string(kept);
  handle_ = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle_ == nullptr) throw Defect{::dlerror()};
  find(handle_, "nacre_shell_main", main_);
  find(handle_, "nacre_shell_set_environment", set_environment_);
  find_parts();
}

void Image::find_parts() {
  struct Search {
    ElfW(Addr) code;
    std::vector<std::pair<char*, char*>> writable;
    std::pair<char*, char*> read_only;
  } search{reinterpret_cast<ElfW(Addr)>(main_), {}, {}};
  auto look = [](dl_phdr_info* info, std::size_t, void* data) {
    auto& out = *static_cast<Search*>(data);
    auto at = [&](ElfW(Addr) offset) { return reinterpret_cast<char*>(info->dlpi_addr + offset); };
    bool is_it = false;
    for (int i = 0; i < info->dlpi_phnum; ++i) {
      const auto& each = info->dlpi_phdr[i];
      auto begin = info->dlpi_addr + each.p_vaddr;
      is_it = is_it || (each.p_type == PT_LOAD && out.code >= begin && out.code < begin + each.p_memsz);
    }
    if (!is_it) return 0;
    for (int i = 0; i < info->dlpi_phnum; ++i) {
      const auto& each = info->dlpi_phdr[i];
      std::pair range{at(each.p_vaddr), at(each.p_vaddr + each.p_memsz)};
      if (each.p_type == PT_LOAD && (each.p_flags & PF_W) != 0) out.writable.push_back(range);
      if (each.p_type == PT_GNU_RELRO) out.read_only = range;
    }
    return 1;
  };
  ::dl_iterate_phdr(look, &search);
  constexpr std::uintptr_t kPage = 4096;
  for (auto [begin, end] : search.writable) {
    if (begin >= search.read_only.first && begin < search.read_only.second) {
      auto rest = (reinterpret_cast<std::uintptr_t>(search.read_only.second) + kPage - 1) / kPage * kPage;
      begin = reinterpret_cast<char*>(rest);
    }
    if (begin >= end) continue;
    begin = reinterpret_cast<char*>((reinterpret_cast<std::uintptr_t>(begin) + 7) / 8 * 8);
    Part part{begin, std::vector<char>(static_cast<std::size_t>(end - begin))};
    copy_words(part.first.data(), part.from, part.first.size());
    parts_.push_back(std::move(part));
  }
}

void Image::reset() {
  for (const Part& each : parts_) copy_words(each.from, each.first.data(), each.first.size());
}

Image& take_image() {
  static std::vector<std::unique_ptr<Image>> all;
  auto found = std::find_if(all.begin(), all.end(), [](const auto& each) { return !each->is_taken; });
  if (found == all.end()) {
    all.push_back(std::make_unique<Image>(library_path()));
    found = all.end() - 1;
  }
  (*found)->is_taken = true;
  (*found)->reset();
  return **found;
}

}  // namespace nacre::shells

#ifdef NACRE_ASAN_OF_SHELLS
// NOLINTBEGIN: the names are the sanitizer's
extern "C" {
// Each copy of the library has the same variables.
const char* __asan_default_options() { return "detect_odr_violation=0"; }
// A killed shell frees nothing, as with the real kernel.
int __lsan_is_turned_off() { return nacre::shells::has_images ? 1 : 0; }
}
// NOLINTEND
#endif
