// SPDX-License-Identifier: Apache-2.0
#include "capi/loader.hpp"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <glob.h>
#include <link.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/program.hpp"
#include "base/text.hpp"
#include "capi/capi.hpp"

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define NACRE_ASAN
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define NACRE_ASAN
#endif

namespace nacre::capi {

using namespace plugin;  // NOLINT: what it makes for C

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
    std::vector<Segment> out(header.e_phentsize == sizeof(Segment) ? header.e_phnum : 0);
    const ssize_t got =
        ::pread(file.get(), out.data(), out.size() * sizeof(Segment), static_cast<off_t>(header.e_phoff));
    out.resize(static_cast<std::size_t>(std::max<ssize_t>(got, 0)) / sizeof(Segment));
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

namespace {

// With RTLD_DEEPBIND a plugin's own libraries take precedence over ours, so that two versions of one do not mix.
bool deepbind() {
#ifdef NACRE_ASAN
  return false;  // its malloc could not replace that of the object's libraries
#else
  const char* wish = std::getenv("FLUX_LOAD_WITH_DEEPBIND");
  return wish == nullptr || std::strcmp(wish, "0") != 0;
#endif
}

// The functions of libflux-core that this shell has take what this shell has made: with RTLD_DEEPBIND the plugin
// would call those of a libflux-core that it is linked with.
bool needs_flux(const std::string& path) {
  std::vector<std::string> names = needed_libraries(path);
  return std::any_of(names.begin(), names.end(), [](const auto& each) { return each.starts_with("libflux-"); });
}

// Whether it, or a library that it needs, has these functions, as one that is linked with libflux-core.
bool has_flux(const Dso& object) { return object.symbol("flux_plugin_add_handler") != nullptr; }

// `flags`: FLUX_PLUGIN_RTLD_*, becomes what it is mapped with.
Result<Dso> map_object(const std::string& path, int& flags) {
  auto open = [&] {
    return Dso::open(path, RTLD_NOW | RTLD_LOCAL | ((flags & FLUX_PLUGIN_RTLD_DEEPBIND) != 0 ? RTLD_DEEPBIND : 0));
  };
  if (needs_flux(path)) flags &= ~FLUX_PLUGIN_RTLD_DEEPBIND;
  {
    Dso object = TRY(open());
    if ((flags & FLUX_PLUGIN_RTLD_DEEPBIND) == 0 || !has_flux(object)) return object;
  }
  flags &= ~FLUX_PLUGIN_RTLD_DEEPBIND;
  return open();
}

// Maps the object and runs its flux_plugin_init. Errors start with the path.
Result<void> load_object(Host& host, const std::string& path, const Json& conf) {
  ShellRef shell = TRY(ShellRef::of(host));
  std::vector<Dso>& objects = shell->objects;
  int flags = FLUX_PLUGIN_RTLD_NOW | (deepbind() ? FLUX_PLUGIN_RTLD_DEEPBIND : 0);
  auto plugin = std::make_unique<flux_plugin>(std::move(shell), path, flags);
  if (!conf.is_null() && flux_plugin_set_conf(plugin.get(), dump_json(conf).c_str()) < 0) {
    return in(path, invalid(plugin->error));
  }

  const std::string loading = "loading";  // constructors are also code of the plugin
  auto object = [&] {
    CrashScope scope(plugin->name(), loading);
    return map_object(path, plugin->flags);
  }();
  objects.push_back(TRY(std::move(object)));
  auto* init = reinterpret_cast<flux_plugin_init_f>(objects.back().symbol("flux_plugin_init"));
  if (init == nullptr) return invalid(path + ": no symbol flux_plugin_init: is this a shell plugin?");

  errno = 0;
  int returned = TRY(in(path, plugin->run("flux_plugin_init", [&] { return init(plugin.get()); })));
  if (returned < 0) {
    std::string why = errno != 0 ? fmt::format(" ({})", std::strerror(errno)) : "";
    return Error{errno != 0 ? errno : EINVAL, fmt::format("{}: flux_plugin_init failed{}", path, why)};
  }
  host.stack().push(std::move(plugin));
  return {};
}

bool is_directory(const char* path) {
  struct stat info {};
  return ::stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

}  // namespace

Result<std::vector<std::string>> find_objects(const std::string& pattern, const std::string& searchpath) {
  std::vector<std::string> found;
  if (pattern.starts_with('/')) {
    found = TRY(glob_files(pattern));
  } else {
    for (std::string_view directory : split(searchpath, ':')) {
      if (directory.empty()) continue;
      std::string front = is_glob(pattern) ? escape_glob(directory) : std::string(directory);
      std::vector<std::string> files = TRY(glob_files(front + "/" + pattern));
      found.insert(found.end(), files.begin(), files.end());
      if (!is_glob(pattern) && !found.empty()) break;
    }
  }
  if (!found.empty() || is_glob(pattern)) return found;
  if (pattern.starts_with('/')) return system_error(ENOENT, pattern);
  return Error{ENOENT, fmt::format("{}: no such file in plugin.searchpath {}", pattern, in_quotes(searchpath))};
}

Result<std::vector<std::string>> glob_files(const std::string& pattern) {
  std::vector<std::string> files;
  if (!is_glob(pattern)) {
    if (::access(pattern.c_str(), F_OK) == 0) files.push_back(pattern);
    return files;
  }
  glob_t matches{};
  int failed = ::glob(pattern.c_str(), GLOB_NOSORT, nullptr, &matches);
  for (std::size_t i = 0; failed == 0 && i < matches.gl_pathc; ++i) {
    if (!is_directory(matches.gl_pathv[i])) files.emplace_back(matches.gl_pathv[i]);
  }
  ::globfree(&matches);
  if (failed == GLOB_NOSPACE) return system_error(ENOMEM, pattern);
  // by bytes: glob(3) itself would sort by the user's locale
  std::sort(files.begin(), files.end());
  return files;
}

Result<int> load(Host& host, const std::string& pattern, const Json& conf) {
  if (pattern.empty()) return invalid("plugin.load: no file given");
  int loaded = 0;
  for (const std::string& path : TRY(find_objects(pattern, host.plugin_searchpath()))) {
    CHECK_OK(load_object(host, path, conf));
    ++loaded;
  }
  return loaded;
}

}  // namespace nacre::capi
