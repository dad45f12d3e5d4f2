// SPDX-License-Identifier: Apache-2.0
#include "task/gpus.hpp"

#include <filesystem>
#include <fstream>

#include "folder.hpp"

using namespace nacre;
using task::find_gpus;
using task::Gpus;

namespace {

using Names = std::vector<std::string>;

Gpus gpus_with(std::map<std::string, std::string> variables, const std::string& root = "/no/such/root") {
  auto variable = [&variables](const char* name) -> std::optional<std::string> {
    auto found = variables.find(name);
    return found != variables.end() ? std::optional(found->second) : std::nullopt;
  };
  return find_gpus(variable, root);
}

void put(const std::string& path, const std::string& text) {
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  std::ofstream(path) << text;
}

}  // namespace

TEST_CASE("gpus are those that a manager has given, by number") {
  CHECK(gpus_with({}).ids.empty());
  CHECK(gpus_with({{"CUDA_VISIBLE_DEVICES", "2,0"}}).ids.str() == "0,2");
  CHECK(gpus_with({{"SLURM_JOB_GPUS", "0-3"}}).ids.str() == "0-3");
  CHECK(gpus_with({{"CUDA_VISIBLE_DEVICES", "0,1"}, {"SLURM_STEP_GPUS", "2,3"}}).ids.str() == "0-1");
  CHECK(gpus_with({{"CUDA_VISIBLE_DEVICES", "GPU-8932f937"}, {"SLURM_STEP_GPUS", "3"}}).ids.str() == "3");
}

TEST_CASE("names that a manager has given are kept") {
  Gpus found = gpus_with({{"CUDA_VISIBLE_DEVICES", "MIG-6c4ab0f2,GPU-8932f937"}});
  CHECK(found.ids.str() == "0-1");
  CHECK(found.variable == "CUDA_VISIBLE_DEVICES");
  CHECK(found.names == Names{"MIG-6c4ab0f2", "GPU-8932f937"});
  CHECK(gpus_with({{"ROCR_VISIBLE_DEVICES", "GPU-1"}}).variable == "ROCR_VISIBLE_DEVICES");
}

TEST_CASE("what the kernel has counts where nothing is said") {
  kit::TemporaryFolder folder;
  std::string root = folder.path("host");
  CHECK(gpus_with({}, root).ids.empty());
  for (const char* card : {"renderD128", "renderD129", "card0"}) {
    put(root + "/sys/class/drm/" + card + "/device/vendor", "0x8086\n");
    put(root + "/sys/class/drm/" + card + "/device/class",
        card == std::string("renderD129") ? "0x030000\n" : "0x038000\n");
  }
  CHECK(gpus_with({}, root).ids.str() == "0");
  std::string nodes = root + "/sys/class/kfd/kfd/topology/nodes/";
  put(nodes + "0/properties", "cpu_cores_count 64\nsimd_count 0\n");
  put(nodes + "1/properties", "cpu_cores_count 0\nsimd_count 480\n");
  put(nodes + "2/properties", "simd_count 480\n");
  CHECK(gpus_with({}, root).ids.str() == "0-1");
  for (const char* file : {"nvidia0", "nvidia1", "nvidia3"}) put(root + "/dev/" + file, "");
  CHECK(gpus_with({}, root).ids.str() == "0-1");
  put(root + "/dev/nvidiactl", "");
  CHECK(gpus_with({}, root).ids.str() == "0-2");
  CHECK(gpus_with({{"SLURM_STEP_GPUS", "7"}}, root).ids.str() == "7");
  for (const char* hidden : {"", " ", "NoDevFiles", "-1", "0,,1", "3-1", "0-99999999", "GPU-1,x"}) {
    CHECK(gpus_with({{"CUDA_VISIBLE_DEVICES", hidden}}, root).ids.empty());
  }
}
