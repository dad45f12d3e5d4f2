// SPDX-License-Identifier: Apache-2.0
//
// hwloc: gives the tasks the node's topology, discovered once, as each task would otherwise discover it again.
//
//   hwloc.xmlfile   a switch: the topology, with PCI devices, as a file in FLUX_JOB_TMPDIR. For the tasks
//                     HWLOC_XMLFILE names it, HWLOC_THISSYSTEM=1 marks it as that of their machine, and
//                     HWLOC_COMPONENTS, which would take precedence, is unset.
//   hwloc.restrict  a switch, with hwloc.xmlfile: only what belongs to the job's cores. Logical indexes then
//                     count only these.
//
// If the job's environment has FLUX_HWLOC_XMLFILE, or else HWLOC_XMLFILE, the variable names a file with the node's
// topology, and nothing is discovered. With FLUX_HWLOC_XMLFILE cores are bound by that file, too, even where sysfs
// would be enough.
//
// A made-up machine (-o pretend) has the topology that its shape describes; HWLOC_THISSYSTEM is 0 then.
//
// To get the logical order of all cores, call the topic `hwloc.cores`, which returns {"cores": [idset of cpus,
// ...]}. The topic `hwloc.topology` returns a NodeTopology, and `hwloc.xml` {"xml": the whole
// topology}. Nothing is discovered before one of these.
#include "plugins/affinity/hwloc.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <hwloc.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.hpp"
#include "base/program.hpp"
#include "base/signals.hpp"
#include "base/text.hpp"
#include "plugins/affinity/job_cpus.hpp"
#include "plugins/builtins.hpp"
#include "wire/json.hpp"

namespace nacre::plugins {
namespace {

using value::Idset;

static_assert(HWLOC_API_VERSION >> 16 == 2, "libhwloc.so.15 has the interface of hwloc 2");
constexpr const char* kLibrary = "libhwloc.so.15";

struct CloseLibrary {
  void operator()(void* handle) const { ::dlclose(handle); }
};
using Library = std::unique_ptr<void, CloseLibrary>;

// The functions of hwloc that are used, with their types in <hwloc.h>.
struct Functions {
  decltype(&hwloc_topology_init) topology_init;
  decltype(&hwloc_topology_destroy) topology_destroy;
  decltype(&hwloc_topology_load) topology_load;
  decltype(&hwloc_topology_set_xml) topology_set_xml;
  decltype(&hwloc_topology_set_synthetic) topology_set_synthetic;
  decltype(&hwloc_topology_set_io_types_filter) set_io_types_filter;
  decltype(&hwloc_topology_restrict) topology_restrict;
  decltype(&hwloc_topology_export_xmlbuffer) export_xmlbuffer;
  decltype(&hwloc_free_xmlbuffer) free_xmlbuffer;
  decltype(&hwloc_topology_is_thissystem) is_thissystem;
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
  CHECK_OK(find(library, "hwloc_topology_set_synthetic", f.topology_set_synthetic));
  CHECK_OK(find(library, "hwloc_topology_set_io_types_filter", f.set_io_types_filter));
  CHECK_OK(find(library, "hwloc_topology_restrict", f.topology_restrict));
  CHECK_OK(find(library, "hwloc_topology_export_xmlbuffer", f.export_xmlbuffer));
  CHECK_OK(find(library, "hwloc_free_xmlbuffer", f.free_xmlbuffer));
  CHECK_OK(find(library, "hwloc_topology_is_thissystem", f.is_thissystem));
  CHECK_OK(find(library, "hwloc_get_type_depth", f.get_type_depth));
  CHECK_OK(find(library, "hwloc_get_nbobjs_by_depth", f.get_nbobjs_by_depth));
  CHECK_OK(find(library, "hwloc_get_obj_by_depth", f.get_obj_by_depth));
  CHECK_OK(find(library, "hwloc_bitmap_alloc", f.bitmap_alloc));
  CHECK_OK(find(library, "hwloc_bitmap_free", f.bitmap_free));
  CHECK_OK(find(library, "hwloc_bitmap_list_sscanf", f.bitmap_list_sscanf));
  CHECK_OK(find(library, "hwloc_bitmap_list_asprintf", f.bitmap_list_asprintf));
  return f;
}

using PciAttributes = hwloc_obj_attr_u::hwloc_pcidev_attr_s;
using IsGpu = bool (*)(const PciAttributes&);

// By the classes of PCI: 0x03 is display, 0x1200 a processing accelerator. A server's on-board graphics are of
// other vendors.
bool is_nvidia(const PciAttributes& device) { return device.vendor_id == 0x10de && device.class_id >> 8 == 0x03; }

bool is_amd(const PciAttributes& device) {
  return device.vendor_id == 0x1002 && (device.class_id >> 8 == 0x03 || device.class_id == 0x1200);
}

bool is_intel(const PciAttributes& device) { return device.vendor_id == 0x8086 && device.class_id == 0x0380; }

std::string bus_of(hwloc_obj_t device) {
  const PciAttributes& pci = device->attr->pcidev;
  return fmt::format("{:04x}:{:02x}:{:02x}.{:x}", static_cast<unsigned>(pci.domain), pci.bus, pci.dev, pci.func);
}

// NVIDIA's driver numbers only the gpus that a process may open, as a manager grants them: see task/gpus.hpp. For
// other vendors, or without the driver's files, nothing is known.
bool may_be_opened(const std::string& bus) {
  auto text = read_file("/proc/driver/nvidia/gpus/" + bus + "/information");
  if (!text) return true;
  constexpr std::string_view kMinor = "Device Minor:";
  for (std::string_view line : split(*text, '\n')) {
    if (!line.starts_with(kMinor)) continue;
    return ::access(fmt::format("/dev/nvidia{}", trim(line.substr(kMinor.size()))).c_str(), R_OK | W_OK) == 0;
  }
  return true;
}

bool is_down(const char* interface) {
  auto state = read_file(fmt::format("/sys/class/net/{}/operstate", interface));
  return state && trim(*state) == "down";
}

// "mlx5_0:1" with the first port that is active; the name alone of a device without ports; none: no port is
// active.
std::optional<std::string> name_with_port(hwloc_obj_t device) {
  std::string name = device->name;
  bool has_ports = false;
  for (unsigned i = 0; i < device->infos_count; ++i) {
    std::string_view key = device->infos[i].name;
    if (!key.starts_with("Port") || !key.ends_with("State")) continue;
    has_ports = true;
    // the number of IB_PORT_ACTIVE, with or without its name
    if (std::string_view(device->infos[i].value).starts_with('4'))
      return fmt::format("{}:{}", name, key.substr(4, key.size() - 9));
  }
  return has_ports ? std::nullopt : std::optional(name);
}

// Runs in a forked child, which ends silently whatever hwloc does.
[[noreturn]] void load_and_exit(const Functions& hwloc, hwloc_topology_t topology) {
  for (int signum = 1; signum < NSIG; ++signum) std::signal(signum, SIG_DFL);
  ::prctl(PR_SET_DUMPABLE, 0);  // no core file
  int null = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
  ::dup2(null, STDERR_FILENO);
  ::_exit(hwloc.topology_load(topology) < 0 ? 1 : 0);
}

// Whether hwloc can load the file, tried in a process of its own: for instance, an object without a set of cpus
// crashes hwloc 2.9.
Result<bool> can_be_loaded(const Functions& hwloc, hwloc_topology_t topology) {
  pid_t pid = -1;
  {
    SignalsBlocked blocked;
    pid = ::fork();
    if (pid == 0) load_and_exit(hwloc, topology);
  }
  if (pid < 0) return system_error(errno, "cannot start a process");
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0) {
    if (errno != EINTR) return system_error(errno, "waitpid");
  }
  return status == 0;
}

// Returns 0 or an errno.
int write_file(const std::string& path, std::string_view text) {
  UniqueFd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  return file ? write_all(file.get(), text) : errno;
}

}  // namespace

struct HwlocTopology::Loaded : Noncopyable {
  Library library;
  Functions hwloc{};
  hwloc_topology_t topology = nullptr;

  Loaded() = default;
  ~Loaded() {
    if (topology != nullptr) hwloc.topology_destroy(topology);
  }

  // All objects of this type, by logical index.
  [[nodiscard]] std::vector<hwloc_obj_t> all(hwloc_obj_type_t type) const {
    std::vector<hwloc_obj_t> out;
    int depth = hwloc.get_type_depth(topology, type);
    if (depth == HWLOC_TYPE_DEPTH_UNKNOWN || depth == HWLOC_TYPE_DEPTH_MULTIPLE) return out;
    unsigned count = hwloc.get_nbobjs_by_depth(topology, depth);
    for (unsigned i = 0; i < count; ++i) out.push_back(hwloc.get_obj_by_depth(topology, depth, i));
    return out;
  }

  // The cpus of the object, or of the nearest one around it that has cpus.
  [[nodiscard]] Result<Idset> cpus_of(hwloc_obj_t object) const {
    while (object->cpuset == nullptr && object->parent != nullptr) object = object->parent;
    char* text = nullptr;
    if (hwloc.bitmap_list_asprintf(&text, object->cpuset) < 0)
      return system_error(errno, "hwloc_bitmap_list_asprintf");
    Result<Idset> cpus = Idset::parse(text);
    std::free(text);  // NOLINT: hwloc's, by malloc
    return cpus;
  }

  [[nodiscard]] Result<std::vector<Idset>> sets(hwloc_obj_type_t type) const {
    std::vector<Idset> out;
    for (hwloc_obj_t each : all(type)) out.push_back(TRY(cpus_of(each)));
    return out;
  }

  [[nodiscard]] Result<Device> device(hwloc_obj_t object) const {
    Device out;
    out.cpus = TRY(cpus_of(object));
    if (object->type == HWLOC_OBJ_PCI_DEVICE) out.bus = bus_of(object);
    for (hwloc_obj_t up = object->parent; up != nullptr && up->cpuset == nullptr; up = up->parent) {
      if (up->type == HWLOC_OBJ_BRIDGE) out.bridges.push_back(up->gp_index);
    }
    std::reverse(out.bridges.begin(), out.bridges.end());
    return out;
  }

  [[nodiscard]] Result<std::vector<Device>> gpus() const {
    bool is_here = hwloc.is_thissystem(topology) != 0;
    for (IsGpu is_gpu : {is_nvidia, is_amd, is_intel}) {
      std::vector<Device> out;
      for (hwloc_obj_t each : all(HWLOC_OBJ_PCI_DEVICE)) {
        if (!is_gpu(each->attr->pcidev) || (is_here && !may_be_opened(bus_of(each)))) continue;
        out.push_back(TRY(device(each)));
      }
      std::sort(out.begin(), out.end(), [](const Device& a, const Device& b) { return a.bus < b.bus; });
      if (!out.empty()) return out;
    }
    return std::vector<Device>();
  }

  // RDMA devices are a cluster's network; if there are any, other cards are for something else.
  [[nodiscard]] Result<std::vector<Device>> nics() const {
    bool is_here = hwloc.is_thissystem(topology) != 0;
    for (hwloc_obj_osdev_type_t type : {HWLOC_OBJ_OSDEV_OPENFABRICS, HWLOC_OBJ_OSDEV_NETWORK}) {
      std::vector<Device> out;
      for (hwloc_obj_t each : all(HWLOC_OBJ_OS_DEVICE)) {
        if (each->attr->osdev.type != type || each->name == nullptr || (is_here && is_down(each->name))) continue;
        auto name = name_with_port(each);
        if (!name) continue;
        bool on_pci = each->parent != nullptr && each->parent->type == HWLOC_OBJ_PCI_DEVICE;
        out.push_back(TRY(device(on_pci ? each->parent : each)));
        out.back().name = *std::move(name);
      }
      if (!out.empty()) return out;
    }
    return std::vector<Device>();
  }
};

HwlocTopology::HwlocTopology(std::unique_ptr<Loaded> loaded) : loaded_(std::move(loaded)) {}
HwlocTopology::HwlocTopology(HwlocTopology&&) noexcept = default;
HwlocTopology& HwlocTopology::operator=(HwlocTopology&&) noexcept = default;
HwlocTopology::~HwlocTopology() = default;

Result<std::unique_ptr<HwlocTopology::Loaded>> HwlocTopology::create() {
  auto loaded = std::make_unique<Loaded>();
  loaded->library.reset(load_library(kLibrary, RTLD_NOW | RTLD_LOCAL));
  if (!loaded->library) {
    const char* why = ::dlerror();
    return not_loaded(why != nullptr ? why : "unknown");
  }
  loaded->hwloc = TRY(find_all(loaded->library.get()));
  if (loaded->hwloc.topology_init(&loaded->topology) < 0) return system_error(errno, "hwloc_topology_init");
  return loaded;
}

Result<HwlocTopology> HwlocTopology::synthetic(const std::string& description) {
  auto loaded = TRY(create());
  if (loaded->hwloc.topology_set_synthetic(loaded->topology, description.c_str()) < 0)
    return invalid(description + ": no description of a topology for hwloc");
  if (loaded->hwloc.topology_load(loaded->topology) < 0) return system_error(errno, "hwloc_topology_load");
  return HwlocTopology(std::move(loaded));
}

Result<HwlocTopology> HwlocTopology::load(Devices devices, const std::optional<std::string>& file) {
  auto loaded = TRY(create());
  const Functions& hwloc = loaded->hwloc;
  if (devices == Devices::important) hwloc.set_io_types_filter(loaded->topology, HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
  if (file && hwloc.topology_set_xml(loaded->topology, file->c_str()) < 0)
    return system_error(errno, "cannot read the topology " + *file);
  if (file && !TRY(can_be_loaded(hwloc, loaded->topology))) return invalid(*file + ": no topology of hwloc");
  if (hwloc.topology_load(loaded->topology) < 0) return system_error(errno, "hwloc_topology_load");
  return HwlocTopology(std::move(loaded));
}

Result<std::vector<Idset>> HwlocTopology::cores() const {
  std::vector<Idset> cores = TRY(loaded_->sets(HWLOC_OBJ_CORE));
  if (cores.empty()) return Error{ENOENT, "hwloc sees no cores"};
  return cores;
}

Result<NodeTopology> HwlocTopology::node() const {
  NodeTopology out;
  out.cpus.cores = TRY(cores());
  out.cpus.l3s = TRY(loaded_->sets(HWLOC_OBJ_L3CACHE));
  out.cpus.packages = TRY(loaded_->sets(HWLOC_OBJ_PACKAGE));
  for (hwloc_obj_t numa : loaded_->all(HWLOC_OBJ_NUMANODE))
    out.cpus.numas.push_back({numa->os_index, TRY(loaded_->cpus_of(numa)), numa->attr->numanode.local_memory > 0});
  std::sort(out.cpus.numas.begin(), out.cpus.numas.end(), [](const auto& a, const auto& b) { return a.id < b.id; });
  // A synthetic topology may name no memory at all.
  bool names_memory =
      std::any_of(out.cpus.numas.begin(), out.cpus.numas.end(), [](const auto& each) { return each.has_memory; });
  for (auto& each : out.cpus.numas) each.has_memory = each.has_memory || !names_memory;
  out.gpus = TRY(loaded_->gpus());
  out.nics = TRY(loaded_->nics());
  return out;
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

// ---- node topology ----------------------------------------------------------------------

void fields(auto& io, wire::Of<Device> auto& m) {
  io.has("name", m.name);
  io.has("bus", m.bus);
  io.has("cpus", m.cpus);
  io.has("bridges", m.bridges);
}

void fields(auto& io, wire::Of<NodeTopology> auto& m) {
  io.may_lack("cores", m.cpus.cores);
  io.check("cores", !m.cpus.cores.empty(), "it has no cores");
  io.may_lack("l3s", m.cpus.l3s);
  io.may_lack("packages", m.cpus.packages);
  io.may_lack("numas", m.cpus.numas, wire::Each{wire::Object{[](auto& numa, auto& of) {
                numa.has("id", of.id, wire::Between{0, Idset::kMaxId});
                numa.has("cpus", of.cpus);
                numa.has("memory", of.has_memory);
              }}});
  io.may_lack("gpus", m.gpus);
  io.may_lack("nics", m.nics);
}

Idset NodeTopology::all_cpus() const {
  std::vector<Idset::Id> ids;
  for (const Idset& core : cpus.cores) {
    for (Idset::Id cpu : core.ids()) ids.push_back(cpu);
  }
  return Idset::of(ids);
}

bool NodeTopology::has_parts() const {
  const Idset all = all_cpus();
  return cpus.packages.size() > 1 || std::any_of(cpus.numas.begin(), cpus.numas.end(), [&](const auto& each) {
           return !each.cpus.empty() && each.cpus != all;
         });
}

Json to_json(const NodeTopology& topology) { return wire::to_json(topology); }

Result<NodeTopology> node_topology_of(const JsonAt& json) { return wire::from_json<NodeTopology>(json); }

namespace {

class Hwloc final : public plugin::Plugin {
 public:
  explicit Hwloc(plugin::Host& host) : Plugin("hwloc"), host_(host) {
    on("shell.init", [this] { return initialize(); });
    on("hwloc.cores", [this](plugin::Call& call) -> Result<void> {
      if (cores_.empty()) cores_ = TRY(TRY(load(HwlocTopology::Devices::none)).cores());
      Json cores = Json::array();
      for (const Idset& cpus : cores_) cores.push_back(cpus.str());
      call.out["cores"] = std::move(cores);
      return {};
    });
    on("hwloc.topology", [this](plugin::Call& call) -> Result<void> {
      NodeTopology node = TRY(TRY(load(HwlocTopology::Devices::important)).node());
      if (auto shape = TRY(pretended_machine(host_.options()))) add_gpus(*shape, node);
      call.out = to_json(node);
      return {};
    });
    on("hwloc.xml", [this](plugin::Call& call) -> Result<void> {
      call.out["xml"] = TRY(TRY(load(HwlocTopology::Devices::important)).xml());
      return {};
    });
  }

 private:
  Result<void> initialize() {
    bool wanted = TRY(host_.options().flag("hwloc.xmlfile"));
    bool restricted = TRY(host_.options().flag("hwloc.restrict"));
    if (restricted && !wanted) {
      return invalid("hwloc.restrict: there is no topology file to restrict; add -o hwloc.xmlfile");
    }
    if (!wanted) return {};
    auto directory = host_.environment().get("FLUX_JOB_TMPDIR");
    if (!directory) return invalid("hwloc.xmlfile: no FLUX_JOB_TMPDIR to put the file into");
    std::string path = fmt::format("{}/hwloc.xml", *directory);
    CHECK_OK(in("hwloc.xmlfile", write(path, restricted)));
    job::Environment& environment = host_.environment();
    environment.set("HWLOC_XMLFILE", path);
    environment.set("HWLOC_THISSYSTEM", TRY(pretended_machine(host_.options())) ? "0" : "1");
    environment.unset("HWLOC_COMPONENTS");
    return {};
  }

  // A topology that is made up for hwloc cannot have gpus. They are spread over the packages.
  static void add_gpus(const job::MachineShape& shape, NodeTopology& node) {
    for (std::uint32_t i = 0; i < shape.gpus; ++i) {
      std::uint64_t package = std::uint64_t{i} * shape.packages / shape.gpus;
      node.gpus.push_back({fmt::format("pretended{}", i),
                           fmt::format("0000:{:02x}:00.0", i + 1),
                           node.cpus.packages.at(package),
                           {package}});
    }
  }

  Result<HwlocTopology> load(HwlocTopology::Devices devices) {
    if (auto shape = TRY(pretended_machine(host_.options()))) return HwlocTopology::synthetic(shape->synthetic());
    auto file = topology_file(host_);
    if (!file) return HwlocTopology::load(devices);
    return in(file->variable, HwlocTopology::load(devices, file->path));
  }

  Result<void> write(const std::string& path, bool restricted) {
    HwlocTopology topology = TRY(load(HwlocTopology::Devices::important));
    cores_ = TRY(topology.cores());
    if (restricted) CHECK_OK(restrict_to_job(topology));
    return topology.write_xml(path);
  }

  Result<void> restrict_to_job(HwlocTopology& topology) {
    CpuRights rights = TRY(node_rights(host_));
    Result<Idset> cpus = job_cpus(host_, rights);
    if (cpus) return topology.restrict_to(*cpus);
    return Error{cpus.error().code, cpus.error().message + "; correct R, or leave hwloc.restrict out"};
  }

  plugin::Host& host_;
  std::vector<Idset> cores_;  // set when they have been discovered
};

}  // namespace

PluginPtr make_hwloc(plugin::Host& host) { return std::make_unique<Hwloc>(host); }

}  // namespace nacre::plugins
