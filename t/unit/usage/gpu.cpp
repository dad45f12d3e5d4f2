// SPDX-License-Identifier: Apache-2.0
#include "usage/gpu.hpp"

#include "catch.hpp"

#include "base/json.hpp"
#include "sample_rows.hpp"
#include "usage/table.hpp"

using namespace nacre;         // NOLINT
using namespace nacre::usage;  // NOLINT

namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
constexpr const char* kFirst = "GPU-8a1c5a6e-2b1f-7c0d-9a51-6f1f0a1b2c3d";
constexpr const char* kSecond = "GPU-11111111-2222-3333-4444-555555555555";

const std::string kTwoDevices =
    std::string("0, ") + kFirst + ", 87, 40536, 81559\n1, " + kSecond + ", 0, 4, 81559\n";

std::string why(const Result<void>& result) { return result ? "" : result.error().message; }

// What rocm-smi prints for two cards and two processes.
constexpr const char* kRocm = R"rocm({"card0": {"GPU use (%)": "45", "VRAM Total Memory (B)": "68702699520",
  "VRAM Total Used Memory (B)": "7028736"}, "card1": {"GPU use (%)": "0", "VRAM Total Memory (B)": "68702699520",
  "VRAM Total Used Memory (B)": "10850304"}, "system": {"PID4711": "python3, 2, 6352367616, 0, unknown",
  "PID99": "a, b, 1, unknown, 0, 12"}}
)rocm";

}  // namespace

TEST_CASE("devices of nvidia-smi, and what it does not know of them") {
  GpuLook look;
  REQUIRE(look.add_nvidia_devices(kTwoDevices));
  REQUIRE(look.devices.size() == 2);
  CHECK(look.devices[0] == GpuDevice{"nvidia", 0, kFirst, 0.87, 40536 * kMiB, 81559 * kMiB});
  CHECK(look.devices[1].use == 0.0);
  // A MIG device's parent, a vGPU, one that is lost; lines of Windows.
  for (const char* each : {"[N/A], [N/A], [N/A]\n", "[Not Supported], [Insufficient Permissions], N/A\r\n",
                           "[Unknown Error], [GPU is lost], [GPU requires reset]\n"}) {
    GpuLook other;
    REQUIRE(other.add_nvidia_devices(std::string("3, ") + kFirst + ", " + each));
    CHECK(other.devices == std::vector<GpuDevice>{{"nvidia", 3, kFirst, {}, {}, {}}});
  }
}

TEST_CASE("processes of nvidia-smi: one line for each device that they use") {
  GpuLook look;
  REQUIRE(look.add_nvidia_processes(std::string("4711, ") + kFirst + ", 40532\n4711, " + kSecond + ", 100\n12, " +
                                    kFirst + ", [N/A]\n13, [N/A], 7\n"));
  REQUIRE(look.processes.size() == 4);
  CHECK(look.processes[0] == GpuProcess{4711, 40532 * kMiB, {kFirst}});
  CHECK_FALSE(look.processes[2].memory);
  CHECK(look.processes[3].devices.empty());
  for (const char* none : {"", "\n", "No running processes found\n", "No running compute processes found"}) {
    GpuLook other;
    CHECK(other.add_nvidia_processes(none));
    CHECK(other == GpuLook());
  }
}

TEST_CASE("what nvidia-smi does not print is refused, with what it was, and nothing is added") {
  GpuLook look;
  CHECK(why(look.add_nvidia_devices("No devices were found\n")) ==
        "it prints 'No devices were found', expected index, UUID, use, memory used and memory of a device");
  CHECK(why(look.add_nvidia_devices("")) == "it lists no device");
  const std::string line = std::string("0, ") + kFirst + ", ";
  for (const std::string& each :
       {line + "101, 1, 1\n", line + "-1, 1, 1\n", line + "1 %, 1, 1\n", line + "1, 1 MiB, 1\n", line + "1, 1\n",
        line + "1, 1, 99999999999999999999\n", line + "1, 1, 1, 1\n", std::string("x, y, 1, 1, 1\n"),
        std::string("[N/A], a, 1, 1, 1\n"), std::string("0, , 1, 1, 1\n"), std::string("0, a b, 1, 1, 1\n"),
        "0, " + std::string(81, 'a') + ", 1, 1, 1\n", kTwoDevices.substr(0, kTwoDevices.size() - 3)})
    CHECK_FALSE(look.add_nvidia_devices(each));
  CHECK(why(look.add_nvidia_devices(kTwoDevices.substr(0, 60))) == "its output ends within a line");
  for (const char* each : {"4711\n", "0, a, 1\n", "-3, a, 1\n", "x, a, 1\n", "99999999999, a, 1\n", "1, a, 1",
                           "1, a, 1 MiB\n", "1, \x1b[2J, 1\n", "[N/A], a, 1\n", "{}\n"})
    CHECK_FALSE(look.add_nvidia_processes(each));
  CHECK(why(look.add_nvidia_processes("NVIDIA-SMI has failed\n")).starts_with("it prints 'NVIDIA-SMI has failed'"));
  CHECK(look == GpuLook());
}

TEST_CASE("cards and processes of rocm-smi: which devices a process uses is known only if it uses all") {
  for (const char* before : {"", "WARNING: AMD GPU device(s) is/are in a low-power state.\n\n"}) {
    GpuLook look;
    REQUIRE(why(look.add_rocm(std::string(before) + kRocm)).empty());
    REQUIRE(look.devices.size() == 2);
    CHECK(look.devices[0] == GpuDevice{"amd", 0, "card0", 0.45, 7028736, 68702699520});
    REQUIRE(look.processes.size() == 2);
    CHECK(look.processes[0] == GpuProcess{4711, 6352367616, {"card0", "card1"}});
    CHECK(look.processes[1] == GpuProcess{99, {}, {}});
  }
  GpuLook odd;
  REQUIRE(odd.add_rocm(R"rocm({"card0": {"GPU use (%)": "N/A", "VRAM Total Memory (B)": 5, "Card series": [1]},
    "cardx": {}, "card1": 3, "system": {"Driver version": "6.7.0", "PIDs for KFD processes": "1, 2"}})rocm"));
  CHECK(odd.devices == std::vector<GpuDevice>{{"amd", 0, "card0", {}, {}, 5}});
  CHECK(odd.processes.empty());
}

TEST_CASE("what rocm-smi does not print is refused") {
  GpuLook look;
  CHECK(why(look.add_rocm("WARNING: No JSON data to report\n")) ==
        "it prints 'WARNING: No JSON data to report', expected JSON");
  CHECK(why(look.add_rocm("{}")) == "its JSON has no card");
  CHECK(why(look.add_rocm(std::string(kRocm).substr(0, 100))).starts_with("its JSON is wrong: "));
  for (const char* each :
       {"", "[]", "\n", "3", R"({"card0": {}, "system": {"PID1": 3}})",
        R"({"card0": {}, "system": {"PID1": "a, 1, 2"}})", R"({"card0": {}, "system": {"PID0": "a, 1, 2, 3, 4"}})",
        R"({"card0": {}, "system": {"PID99999999999": "a, 1, 2, 3, 4"}})", R"({"system": {}})"})
    CHECK_FALSE(look.add_rocm(each));
  CHECK(look == GpuLook());
}

TEST_CASE("a task has the memory of all of its processes, and the mean use of the devices that it is on") {
  GpuLook look;
  REQUIRE(look.add_nvidia_devices(kTwoDevices));
  REQUIRE(look.add_nvidia_processes(std::string("10, ") + kFirst + ", 100\n11, " + kSecond + ", 20\n11, " + kFirst +
                                    ", 3\n20, " + kFirst + ", [N/A]\n20, " + kSecond + ", 5\n30, MIG-1, 7\n77, " +
                                    kFirst + ", 1\n"));
  auto tasks = gpus_by_rank(look, [](std::int64_t pid) {
    return pid < 40 ? std::optional(static_cast<std::uint32_t>(pid / 10)) : std::nullopt;
  });
  REQUIRE(tasks.size() == 3);
  CHECK(tasks[1].memory == 123 * kMiB);
  CHECK(*tasks[1].device_use == Catch::Approx(0.435));
  CHECK_FALSE(tasks[2].memory);  // the memory is not known for one of its processes
  CHECK(tasks[3] == TaskGpu{7 * kMiB, std::nullopt});
}

TEST_CASE("over several looks: the most memory, the mean use of those in which it was on a device") {
  TaskGpuTally tally;
  CHECK_FALSE(tally.taken());
  tally.add({0, std::nullopt});
  CHECK(tally.taken() == TaskGpu{0, std::nullopt});
  tally.add({500, 0.5});
  tally.add({300, 1.0});
  CHECK(tally.taken() == TaskGpu{500, 0.75});
  tally.add({std::nullopt, 0.75});
  CHECK(tally.taken() == TaskGpu{std::nullopt, 0.75});
}

TEST_CASE("devices of a node: the most memory of all that run there, the mean use; at most 64") {
  NodeGpuTally tally;
  for (double use : {0.0, 1.0, 0.5}) {
    GpuLook look;
    look.devices = {{"nvidia", 1, "b", use, 100 + static_cast<std::uint64_t>(use * 10), 1000},
                    {"amd", 0, "card0", {}, {}, {}}};
    tally.add(look);
  }
  CHECK(tally.taken() == std::vector<NodeGpu>{{"amd", 0, "card0", {}, {}, {}}, {"nvidia", 1, "b", 110, 1000, 0.5}});
  GpuLook many;
  for (std::uint32_t i = 0; i < 100; ++i) many.devices.push_back({"nvidia", i, std::to_string(i), {}, {}, {}});
  tally.add(many);
  CHECK(tally.taken().size() == NodeGpu::kMost);
}

TEST_CASE("rows with GPUs come out as they were sent; a shell that knows no GPUs reads the rest") {
  for (const TaskGpu& gpu : {TaskGpu{5, 0.25}, TaskGpu{std::nullopt, std::nullopt}, TaskGpu{0, std::nullopt}}) {
    UsageBatch batch;
    batch.rows.push_back(row_of(3));
    batch.rows[0].gpu = gpu;
    batch.node =
        NodeRow{3, 2, 1.5, std::nullopt, 4, {{"nvidia", 1, "b", 110, 1000, 0.5}, {"amd", 0, "c", {}, {}, {}}}};
    batch.totals.emplace();
    batch.totals->add(batch.rows[0]);
    CHECK(UsageBatch::parse(batch.text()).value() == batch);
    Json wire = batch.rows[0].wire();
    REQUIRE(wire.size() == 24);
    CHECK(wire[22] == "");  // the command, which such a shell takes for the last element
  }
  CHECK(row_of(3).wire().size() == 22);
  CHECK(NodeRow().wire().size() == 5);
  Totals without;
  without.add(row_of(1));
  CHECK(without.wire()["spreads"].size() == kMeasuresWithoutGpus);
  for (const char* text : {R"({"rows":[[1,null,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,null,"",[1]]]})",
                           R"({"rows":[[1,null,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,null,"",[-1,0]]]})",
                           R"({"rows":[[1,null,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,null,"",[1,1001]]]})",
                           R"({"rows":[],"node":[1,0,0,null,null,3]})",
                           R"({"rows":[],"node":[1,0,0,null,null,[["a",0,"b",null,null]]]})",
                           R"({"rows":[],"node":[1,0,0,null,null,[["a",0,"b",null,null,1001]]]})"})
    CHECK_FALSE(UsageBatch::parse(text));
}

TEST_CASE("the summary names who uses most of the GPUs, without a sum, and has a row for each device") {
  UsageTable table;
  UsageBatch batch;
  for (std::uint32_t rank = 0; rank < 6; ++rank) {
    batch.rows.push_back(row_of(rank));
    batch.rows.back().is_bound = true;  // only max RSS may be a bound
    batch.rows.back().gpu = TaskGpu{(rank == 5 ? 900 : 100) * kMiB, 0.5};
  }
  batch.node =
      NodeRow{1, 6, 1, {}, {}, {{"nvidia", 0, "a", 1000 * kMiB, 4000 * kMiB, 0.453}, {"amd", 1, "b", {}, {}, {}}}};
  table.add(batch);
  Json summary = table.summary(6, {}, two_hosts());
  const Json& memory = summary["measures"]["gpu_memory"];
  CHECK(memory.at("max").at("rank") == 5);
  CHECK_FALSE(memory.at("max").contains("is_bound"));
  CHECK_FALSE(memory.contains("sum"));
  CHECK_FALSE(summary["measures"]["gpu_device_use"].contains("sum"));
  CHECK(summary["outliers"][0]["measure"] == "gpu_memory");
  CHECK(summary["nodes"][0]["gpus"][0]["use"] == 0.453);
  std::string text = summary_text(summary, "");
  text.erase(std::unique(text.begin(), text.end(), [](char a, char b) { return a == ' ' && b == ' '; }),
             text.end());
  auto has = [&](const std::string& part) { return text.find(part) != std::string::npos; };
  CHECK(has("GPU memory 100.0M 0 on n0 100.0M 900.0M 5 on n1\n"));
  CHECK(has("50.0%"));
  CHECK(has("far from the others: task 5 on n1: GPU memory 900.0M (median 100.0M)\n"));
  CHECK(has("NODE GPU MEMORY PEAK OF DEVICE USE\nn1 nvidia 0 1000.0M 3.9G 45.3%\nn1 amd 1 - - -\n"));
  std::string rows = rows_text(Json::array({table.rows().at(5).json("n1"), row_of(7).json("n1")}));
  CHECK(rows.find("GPU MEMORY  GPU DEVICE USE\n") != std::string::npos);
  CHECK(rows_text(Json::array({row_of(7).json("n1")})).find("GPU") == std::string::npos);
}
