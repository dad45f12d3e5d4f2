// SPDX-License-Identifier: Apache-2.0
#include "plugins/affinity/hwloc_topology.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <hwloc.h>

#include <cstdlib>
#include <string_view>

#include <fmt/format.h>

#include "base/file.hpp"
#include "base/unique_fd.hpp"

namespace nacre::plugins {
namespace {

using value::Idset;

static_assert(HWLOC_API_VERSION >> 16 == 2, "libhwloc.so.15 has the interface of hwloc 2");
constexpr const char* kLibrary = "libhwloc.so.15";

struct CloseLibrary {
  void operator()(void* handle) const { ::dlclose(handle); }
};
using Library = std::unique_ptr<void, CloseLibrary>;

// The functions that this uses, with their types in <hwloc.h>.
struct Functions {
  decltype(&hwloc_topology_init) topology_init;
  decltype(&hwloc_topology_destroy) topology_destroy;
  decltype(&hwloc_topology_load) topology_load;
  decltype(&hwloc_topology_set_xml) topology_set_xml;
  decltype(&hwloc_topology_set_io_types_filter) set_io_types_filter;
  decltype(&hwloc_topology_restrict) topology_restrict;
  decltype(&hwloc_topology_export_xmlbuffer) export_xmlbuffer;
  decltype(&hwloc_free_xmlbuffer) free_xmlbuffer;
  decltype(&hwloc_get_type_depth) get_type_depth;
  decltype(&hwloc_get_nbobjs_by_depth) get_nbobjs_by_depth;
  decltype(&hwloc_get_obj_by_depth) get_obj_by_depth;
  decltype(&hwloc_bitmap_alloc) bitmap_alloc;
  decltype(&hwloc_bitmap_free) bitmap_free;
  decltype(&hwloc_bitmap_list_sscanf) bitmap_list_sscanf;
  decltype(&hwloc_bitmap_list_asprintf) bitmap_list_asprintf;
};

Error not_loaded(std::string_view why) {
  return Error{ENOENT, fmt::format("cannot load {} (Debian's package libhwloc15): {}", kLibrary, why)};
}

template <typename Function>
Result<void> find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  if (function == nullptr) return not_loaded(fmt::format("it has no {}", name));
  return {};
}

Result<Functions> find_all(void* library) {
  Functions f{};
  CHECK_OK(find(library, "hwloc_topology_init", f.topology_init));
  CHECK_OK(find(library, "hwloc_topology_destroy", f.topology_destroy));
  CHECK_OK(find(library, "hwloc_topology_load", f.topology_load));
  CHECK_OK(find(library, "hwloc_topology_set_xml", f.topology_set_xml));
  CHECK_OK(find(library, "hwloc_topology_set_io_types_filter", f.set_io_types_filter));
  CHECK_OK(find(library, "hwloc_topology_restrict", f.topology_restrict));
  CHECK_OK(find(library, "hwloc_topology_export_xmlbuffer", f.export_xmlbuffer));
  CHECK_OK(find(library, "hwloc_free_xmlbuffer", f.free_xmlbuffer));
  CHECK_OK(find(library, "hwloc_get_type_depth", f.get_type_depth));
  CHECK_OK(find(library, "hwloc_get_nbobjs_by_depth", f.get_nbobjs_by_depth));
  CHECK_OK(find(library, "hwloc_get_obj_by_depth", f.get_obj_by_depth));
  CHECK_OK(find(library, "hwloc_bitmap_alloc", f.bitmap_alloc));
  CHECK_OK(find(library, "hwloc_bitmap_free", f.bitmap_free));
  CHECK_OK(find(library, "hwloc_bitmap_list_sscanf", f.bitmap_list_sscanf));
  CHECK_OK(find(library, "hwloc_bitmap_list_asprintf", f.bitmap_list_asprintf));
  return f;
}

// Returns 0 or an errno.
int write_file(const std::string& path, std::string_view text) {
  UniqueFd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  return file ? write_all(file.get(), text) : errno;
}

}  // namespace

struct HwlocTopology::Loaded {
  Library library;
  Functions hwloc{};
  hwloc_topology_t topology = nullptr;

  Loaded() = default;
  Loaded(const Loaded&) = delete;
  Loaded& operator=(const Loaded&) = delete;
  ~Loaded() {
    if (topology != nullptr) hwloc.topology_destroy(topology);
  }
};

HwlocTopology::HwlocTopology(std::unique_ptr<Loaded> loaded) : loaded_(std::move(loaded)) {}
HwlocTopology::HwlocTopology(HwlocTopology&&) noexcept = default;
HwlocTopology& HwlocTopology::operator=(HwlocTopology&&) noexcept = default;
HwlocTopology::~HwlocTopology() = default;

Result<HwlocTopology> HwlocTopology::load(Devices devices, const std::optional<std::string>& file) {
  auto loaded = std::make_unique<Loaded>();
  loaded->library.reset(::dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL));
  if (!loaded->library) {
    const char* why = ::dlerror();
    return not_loaded(why != nullptr ? why : "unknown");
  }
  loaded->hwloc = TRY(find_all(loaded->library.get()));
  const Functions& hwloc = loaded->hwloc;
  if (hwloc.topology_init(&loaded->topology) < 0) return system_error(errno, "hwloc_topology_init");
  if (devices == Devices::important) hwloc.set_io_types_filter(loaded->topology, HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
  if (file && hwloc.topology_set_xml(loaded->topology, file->c_str()) < 0)
    return system_error(errno, "cannot read the topology " + *file);
  if (file && hwloc.topology_load(loaded->topology) < 0) return invalid(*file + ": no topology of hwloc");
  if (!file && hwloc.topology_load(loaded->topology) < 0) return system_error(errno, "hwloc_topology_load");
  return HwlocTopology(std::move(loaded));
}

Result<std::vector<Idset>> HwlocTopology::cores() const {
  const Functions& hwloc = loaded_->hwloc;
  int depth = hwloc.get_type_depth(loaded_->topology, HWLOC_OBJ_CORE);
  unsigned count = depth < 0 ? 0 : hwloc.get_nbobjs_by_depth(loaded_->topology, depth);
  if (count == 0) return Error{ENOENT, "hwloc sees no cores"};
  std::vector<Idset> cores;
  for (unsigned i = 0; i < count; ++i) {
    char* text = nullptr;
    hwloc_obj_t core = hwloc.get_obj_by_depth(loaded_->topology, depth, i);
    if (hwloc.bitmap_list_asprintf(&text, core->cpuset) < 0)
      return system_error(errno, "hwloc_bitmap_list_asprintf");
    Result<Idset> cpus = Idset::parse(text);
    std::free(text);  // NOLINT: hwloc's, by malloc
    cores.push_back(TRY(std::move(cpus)));
  }
  return cores;
}

Result<void> HwlocTopology::restrict_to(const Idset& cpus) {
  const Functions& hwloc = loaded_->hwloc;
  hwloc_bitmap_t set = hwloc.bitmap_alloc();
  if (set == nullptr) return system_error(errno, "hwloc_bitmap_alloc");
  int result = hwloc.bitmap_list_sscanf(set, cpus.str().c_str());
  if (result == 0) result = hwloc.topology_restrict(loaded_->topology, set, HWLOC_RESTRICT_FLAG_ADAPT_IO);
  int code = errno;
  hwloc.bitmap_free(set);
  if (result < 0) return system_error(code, fmt::format("hwloc_topology_restrict to cpus {}", cpus.str()));
  return {};
}

Result<std::string> HwlocTopology::xml() const {
  const Functions& hwloc = loaded_->hwloc;
  char* text = nullptr;
  int size = 0;  // with a NUL at the end
  if (hwloc.export_xmlbuffer(loaded_->topology, &text, &size, 0) < 0) {
    return system_error(errno, "hwloc_topology_export_xmlbuffer");
  }
  std::string out(text, static_cast<std::size_t>(size) - 1);
  hwloc.free_xmlbuffer(loaded_->topology, text);
  return out;
}

// hwloc's own export to a file does not report a full disk.
Result<void> HwlocTopology::write_xml(const std::string& path) const {
  std::string text = TRY(xml());
  if (int code = write_file(path, text); code != 0) return system_error(code, "cannot write " + path);
  return {};
}

}  // namespace nacre::plugins
