// SPDX-License-Identifier: Apache-2.0
#include "task/gpus.hpp"

#include <unistd.h>

#include <filesystem>

#include "base/file.hpp"
#include "base/text.hpp"
#include "job/resources.hpp"

namespace nacre::task {
namespace {

using value::Idset;

constexpr const char* kVendorVariables[] = {"CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES",
                                            "ZE_AFFINITY_MASK"};
constexpr const char* kManagerVariables[] = {"SLURM_STEP_GPUS", "SLURM_JOB_GPUS"};
constexpr int kMaxDevices = 128;  // of NVIDIA; their driver has no more

// "0,2" and "0-3" in any order; none for names of gpus, and other words.
std::optional<Idset> numbers_in(std::string_view text) {
  std::vector<Idset::Id> ids;
  for (std::string_view part : split(trim(text), ',')) {
    std::size_t dash = part.find('-');
    auto first = parse_u64(part.substr(0, dash));
    auto last = dash == std::string_view::npos ? first : parse_u64(part.substr(dash + 1));
    if (!first || !last || *first > *last || *last > job::Resources::kMaxCoreId) return std::nullopt;
    for (std::uint64_t id = *first; id <= *last; ++id) ids.push_back(static_cast<Idset::Id>(id));
  }
  return Idset::of(ids);
}

// "GPU-8932f937-...,MIG-6c4ab0f2-..."; empty if one of them is something else.
std::vector<std::string> names_in(std::string_view text) {
  std::vector<std::string> out;
  for (std::string_view part : split(trim(text), ',')) {
    part = trim(part);
    if (!part.starts_with("GPU-") && !part.starts_with("MIG-")) return {};
    out.emplace_back(part);
  }
  return out;
}

Idset first_ids(std::size_t count) {
  return count == 0 ? Idset() : Idset::range(0, static_cast<Idset::Id>(count - 1));
}

std::size_t count_of_nvidia(const std::string& root) {
  if (::access((root + "/dev/nvidiactl").c_str(), F_OK) != 0) return 0;
  std::size_t count = 0;
  for (int minor = 0; minor < kMaxDevices; ++minor) {
    if (::access(fmt::format("{}/dev/nvidia{}", root, minor).c_str(), R_OK | W_OK) == 0) ++count;
  }
  return count;
}

// How many of the folders in `directory` are what is looked for.
template <typename IsOne>
std::size_t count_in(const std::string& directory, IsOne is_one) {
  std::error_code failed;
  std::size_t count = 0;
  for (const auto& each : std::filesystem::directory_iterator(directory, failed)) {
    if (is_one(each.path())) ++count;
  }
  return count;
}

// A node of kfd's topology that has SIMD units; the others are cpus.
std::size_t count_of_amd(const std::string& root) {
  return count_in(root + "/sys/class/kfd/kfd/topology/nodes", [](const std::filesystem::path& node) {
    auto text = read_file(node / "properties");
    if (!text) return false;
    for (std::string_view line : split(*text, '\n')) {
      if (line.starts_with("simd_count ")) return parse_u64(trim(line.substr(11))).value_or(0) > 0;
    }
    return false;
  });
}

// Display controllers of class 0x0380; a processor's own graphics are 0x0300.
std::size_t count_of_intel(const std::string& root) {
  auto has = [](const std::filesystem::path& file, std::string_view start) {
    auto text = read_file(file);
    return text && trim(*text).starts_with(start);
  };
  return count_in(root + "/sys/class/drm", [&has](const std::filesystem::path& device) {
    return device.filename().native().starts_with("renderD") && has(device / "device/vendor", "0x8086") &&
           has(device / "device/class", "0x0380");
  });
}

Idset known_to_kernel(const std::string& root) {
  for (auto count : {count_of_nvidia, count_of_amd, count_of_intel}) {
    if (std::size_t found = count(root); found > 0) return first_ids(found);
  }
  return {};
}

}  // namespace

Gpus find_gpus(const std::function<std::optional<std::string>(const char*)>& variables, const std::string& root) {
  Gpus out;
  bool is_said = false;
  auto is_list = [&](const char* name) {
    auto text = variables(name);
    auto ids = text && !trim(*text).empty() ? numbers_in(*text) : std::nullopt;
    if (ids) out.ids = *ids;
    return ids.has_value();
  };
  if (std::any_of(std::begin(kVendorVariables), std::end(kVendorVariables), is_list)) return out;
  if (std::any_of(std::begin(kManagerVariables), std::end(kManagerVariables), is_list)) return out;
  for (const char* name : kVendorVariables) {
    auto text = variables(name);
    if (!text) continue;
    is_said = true;
    out.names = names_in(*text);
    if (out.names.empty()) continue;
    out.variable = name;
    out.ids = first_ids(out.names.size());
    return out;
  }
  if (!is_said) out.ids = known_to_kernel(root);
  return out;
}

}  // namespace nacre::task
