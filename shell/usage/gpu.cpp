// SPDX-License-Identifier: Apache-2.0
#include "usage/gpu.hpp"

#include "base/json.hpp"
#include "base/text.hpp"
#include "usage/measure.hpp"

namespace nacre::usage {
namespace {

template <typename Number>
void raise_to(std::optional<Number>& most, const std::optional<Number>& value) {
  if (value) most = std::max(most.value_or(0), *value);
}

// The mean as it is sent to other shells, so that the leader's own rows look the same as theirs.
double mean_share(double sum, std::uint64_t count) {
  return std::round(sum / static_cast<double>(count) * kThousandths) / kThousandths;
}

}  // namespace

std::map<std::uint32_t, TaskGpu> gpus_by_rank(
    const GpuLook& look, const std::function<std::optional<std::uint32_t>(std::int64_t pid)>& task_of) {
  struct Found {
    std::uint64_t memory = 0;
    bool is_known = true;
    std::set<std::string> devices;
  };
  std::map<std::uint32_t, Found> found;
  for (const GpuProcess& each : look.processes) {
    auto rank = task_of(each.pid);
    if (!rank) continue;
    Found& of = found[*rank];
    of.memory = std::min(of.memory + each.memory.value_or(0), static_cast<std::uint64_t>(kMostOnWire));
    of.is_known = of.is_known && each.memory;
    of.devices.insert(each.devices.begin(), each.devices.end());
  }
  std::map<std::uint32_t, TaskGpu> out;
  for (const auto& [rank, of] : found) {
    TaskGpu& task = out[rank];
    if (of.is_known) task.memory = of.memory;
    double sum = 0;
    std::size_t known = 0;
    for (const GpuDevice& device : look.devices) {
      if (!device.use || !of.devices.contains(device.id)) continue;
      sum += *device.use;
      ++known;
    }
    if (known > 0) task.device_use = sum / static_cast<double>(known);
  }
  return out;
}

void TaskGpuTally::add(const TaskGpu& at_look) {
  ++looks_;
  if (!at_look.memory) has_unknown_ = true;
  peak_ = std::max(peak_, at_look.memory.value_or(0));
  if (!at_look.device_use) return;
  ++looks_at_use_;
  sum_of_use_ += *at_look.device_use;
}

std::optional<TaskGpu> TaskGpuTally::taken() const {
  if (looks_ == 0) return std::nullopt;
  TaskGpu out;
  if (!has_unknown_) out.memory = peak_;
  if (looks_at_use_ > 0) out.device_use = mean_share(sum_of_use_, looks_at_use_);
  return out;
}

Json NodeGpu::json() const {
  Json out{{"vendor", vendor}, {"index", index}, {"id", id}};
  if (memory_peak) out["memory_peak"] = *memory_peak;
  if (memory) out["memory"] = *memory;
  if (use) out["use"] = *use;
  return out;
}

void NodeGpuTally::add(const GpuLook& look) {
  for (const GpuDevice& each : look.devices) {
    auto key = std::pair(each.vendor, each.index);
    if (!devices_.contains(key) && devices_.size() == NodeGpu::kMost) continue;
    Sums& sums = devices_[key];
    sums.device.vendor = each.vendor;
    sums.device.index = each.index;
    sums.device.id = each.id;
    raise_to(sums.device.memory_peak, each.memory_used);
    if (each.memory) sums.device.memory = each.memory;
    if (!each.use) continue;
    sums.use += *each.use;
    ++sums.looks;
  }
}

std::vector<NodeGpu> NodeGpuTally::taken() const {
  std::vector<NodeGpu> out;
  for (const auto& [key, sums] : devices_) {
    out.push_back(sums.device);
    if (sums.looks > 0) out.back().use = mean_share(sums.use, sums.looks);
  }
  return out;
}

// ---- gpu text ---------------------------------------------------------------------------
//
// Readers of what GPUs' tools print. Tools have many words for an unknown value; a field that is neither such a
// word nor a value is an error, so that no other text is taken for "no GPU is used".

namespace {

constexpr unsigned kMebibyteBits = 20;
constexpr std::uint64_t kMostPercent = 100;
constexpr std::uint64_t kMostBytes = kMostOnWire;
constexpr std::size_t kMostId = 80;       // bytes
constexpr std::size_t kRocmElements = 5;  // of a process: name, number of devices, VRAM, SDMA, CU occupancy

using Fields = std::vector<std::string_view>;
using Number = std::optional<std::uint64_t>;  // none: the tool does not know it

// The lines of a table, of `count` fields each. A text that ends within a line has been cut off.
Result<std::vector<Fields>> table_in(std::string_view text, std::size_t count, std::string_view expected) {
  std::vector<Fields> out;
  if (!trim(text).empty() && !text.ends_with('\n')) return invalid("its output ends within a line");
  for (std::string_view line : split(text, '\n')) {
    line = trim(line);
    if (line.empty()) continue;
    Fields fields = split(line, ',');
    for (std::string_view& each : fields) each = trim(each);
    if (fields.size() != count) return invalid(fmt::format("it prints {}, expected {}", in_quotes(line), expected));
    out.push_back(std::move(fields));
  }
  return out;
}

// "[N/A]", "[Not Supported]", "[Insufficient Permissions]", "[Unknown Error]", "N/A".
bool is_unknown(std::string_view field) {
  return (field.starts_with('[') && field.ends_with(']')) || field == "N/A";
}

Result<Number> number_of(std::string_view field, std::uint64_t most, std::string_view expected) {
  if (is_unknown(field)) return Number();
  auto value = parse_u64(field);
  if (value && *value <= most) return value;
  return invalid(fmt::format("it prints {}, expected {}", in_quotes(field), expected));
}

Result<Number> mebibytes(std::string_view field) {
  Number value = TRY(number_of(field, kMostBytes >> kMebibyteBits, "a number of MiB"));
  return value ? Number(*value << kMebibyteBits) : value;
}

std::optional<double> share_of(const Number& percent) {
  return percent ? std::optional(static_cast<double>(*percent) / static_cast<double>(kMostPercent)) : std::nullopt;
}

Result<std::string> id_of(std::string_view field) {
  bool is_id =
      !field.empty() && field.size() <= kMostId && std::all_of(field.begin(), field.end(), [](unsigned char c) {
        return std::isalnum(c) != 0 || c == '-' || c == '/' || c == '.' || c == ':' || c == '_';
      });
  if (is_id) return std::string(field);
  return invalid(fmt::format("it prints {}, expected the id of a device", in_quotes(field)));
}

// ---- rocm-smi ----------------------------------------------------------------------------

// A text or a number; any other text means unknown.
Number rocm_number(const Json& value, std::uint64_t most) {
  if (value.is_number_unsigned()) {
    auto number = value.get<std::uint64_t>();
    return number <= most ? Number(number) : std::nullopt;
  }
  if (!value.is_string()) return std::nullopt;
  std::string_view text = trim(value.get_ref<const std::string&>());
  Number number = parse_u64(text.substr(0, text.find('.')));
  return number && *number <= most ? number : std::nullopt;
}

Number rocm_member(const Json& card, const char* name, std::uint64_t most) {
  auto found = card.find(name);
  return found == card.end() ? std::nullopt : rocm_number(*found, most);
}

// N of "cardN" and the like.
std::optional<std::uint64_t> number_behind(std::string_view name, std::string_view front) {
  return name.starts_with(front) ? parse_u64(name.substr(front.size())) : std::nullopt;
}

// "NAME, 1, 6352367616, 0, unknown": names may have commas, so it is read from its end.
Result<GpuProcess> rocm_process(std::uint64_t pid, const Json& value, const std::vector<std::string>& cards) {
  constexpr std::size_t kDevices = 4;  // from the end
  constexpr std::size_t kMemory = 3;
  if (pid == 0 || pid > INT32_MAX || !value.is_string())
    return invalid(fmt::format("it prints {} as the process {}, expected text", in_quotes(dump_json(value)), pid));
  Fields fields = split(value.get_ref<const std::string&>(), ',');
  if (fields.size() < kRocmElements)
    return invalid(fmt::format("it prints {} of process {}, expected {} values with commas between",
                               in_quotes(value.get_ref<const std::string&>()), pid, kRocmElements));
  GpuProcess out;
  out.pid = static_cast<std::int64_t>(pid);
  Number memory = parse_u64(trim(fields[fields.size() - kMemory]));
  if (memory && *memory <= kMostBytes) out.memory = memory;
  // Only their number is given, so it is known which they are only if it is all or none.
  Number devices = parse_u64(trim(fields[fields.size() - kDevices]));
  if (devices == cards.size()) out.devices = cards;
  return out;
}

// The tool may print warnings before the JSON, on the same stream.
Result<Json> rocm_json(std::string_view text) {
  std::size_t begin = text.starts_with('{') ? 0 : text.find("\n{");
  if (begin == std::string_view::npos)
    return invalid(fmt::format("it prints {}, expected JSON", in_quotes(trim(text))));
  auto json = parse_json(trim(text.substr(begin)));
  if (!json) return invalid("its JSON is wrong: " + json.error().message);
  return json;
}

}  // namespace

Result<void> GpuLook::add_nvidia_devices(std::string_view text) {
  constexpr std::size_t kFields = 5;
  std::vector<GpuDevice> found;
  for (const Fields& each : TRY(table_in(text, kFields, "index, UUID, use, memory used and memory of a device"))) {
    GpuDevice device;
    device.vendor = "nvidia";
    Number index = TRY(number_of(each[0], UINT32_MAX, "the index of a device"));
    if (!index) return invalid(fmt::format("it prints {}, expected the index of a device", in_quotes(each[0])));
    device.index = static_cast<std::uint32_t>(*index);
    device.id = TRY(id_of(each[1]));
    device.use = share_of(TRY(number_of(each[2], kMostPercent, "the use of a device, 0 to 100")));
    device.memory_used = TRY(mebibytes(each[3]));
    device.memory = TRY(mebibytes(each[4]));
    found.push_back(std::move(device));
  }
  if (found.empty()) return invalid("it lists no device");
  devices.insert(devices.end(), found.begin(), found.end());
  return {};
}

Result<void> GpuLook::add_nvidia_processes(std::string_view text) {
  constexpr std::size_t kFields = 3;
  std::vector<GpuProcess> found;
  if (trim(text).starts_with("No running ") && trim(text).find('\n') == std::string_view::npos) return {};
  for (const Fields& each : TRY(table_in(text, kFields, "pid, UUID of the device and memory of a process"))) {
    GpuProcess process;
    Number pid = TRY(number_of(each[0], INT32_MAX, "a process id"));
    if (!pid || *pid == 0) return invalid(fmt::format("it prints {}, expected a process id", in_quotes(each[0])));
    process.pid = static_cast<std::int64_t>(*pid);
    if (!is_unknown(each[1])) process.devices.push_back(TRY(id_of(each[1])));
    process.memory = TRY(mebibytes(each[2]));
    found.push_back(std::move(process));
  }
  processes.insert(processes.end(), found.begin(), found.end());
  return {};
}

Result<void> GpuLook::add_rocm(std::string_view text) {
  Json json = TRY(rocm_json(text));
  if (!json.is_object()) return invalid("its JSON is no object");
  std::vector<GpuDevice> cards;
  std::vector<std::string> ids;
  for (const auto& [name, card] : json.items()) {
    auto index = number_behind(name, "card");
    if (!index || *index > UINT32_MAX || !card.is_object()) continue;
    GpuDevice device;
    device.vendor = "amd";
    device.index = static_cast<std::uint32_t>(*index);
    device.id = TRY(id_of(name));
    device.use = share_of(rocm_member(card, "GPU use (%)", kMostPercent));
    device.memory_used = rocm_member(card, "VRAM Total Used Memory (B)", kMostBytes);
    device.memory = rocm_member(card, "VRAM Total Memory (B)", kMostBytes);
    ids.push_back(device.id);
    cards.push_back(std::move(device));
  }
  if (cards.empty()) return invalid("its JSON has no card");
  std::vector<GpuProcess> found;
  if (auto system = json.find("system"); system != json.end() && system->is_object()) {
    for (const auto& [name, value] : system->items()) {
      if (auto pid = number_behind(name, "PID")) found.push_back(TRY(rocm_process(*pid, value, ids)));
    }
  }
  devices.insert(devices.end(), cards.begin(), cards.end());
  processes.insert(processes.end(), found.begin(), found.end());
  return {};
}

}  // namespace nacre::usage
