// SPDX-License-Identifier: Apache-2.0
#include "front/usage_options.hpp"

#include <nlohmann/json.hpp>

#include "cli/command_line.hpp"

namespace nacre::front {
namespace {

constexpr const char* kUsage = "usage";
constexpr const char* kJoblog = "joblog";
constexpr const char* kUsagePlot = "usage-plot";
constexpr const char* kUsageGpu = "usage-gpu";

}  // namespace

void UsageOptions::add_to(cli::CommandLine& verb) {
  verb.add_flag("--usage", usage_,
                "Print what tasks have used when the job has ended; or write it to FILE as lines of JSON",
                kWithoutValue)
      ->option_text("[=FILE]");
  verb.add_option("--joblog", joblog_, "Write a line for each task to FILE of this host, as GNU parallel does")
      ->option_text("FILE")
      ->check(cli::not_empty("a file"));
  verb.add_option("--usage-plot", plot_,
                  "Draw what tasks have used when the job has ended: SVG, to FILE of this host")
      ->option_text("FILE")
      ->check(cli::not_empty("a file"));
  verb.add_flag("--usage-gpu", gpus_, "Measure what tasks use of GPUs too, by nvidia-smi and rocm-smi");
}

bool UsageOptions::prints() const { return usage_ == kWithoutValue; }

std::vector<GivenOption> UsageOptions::given() const {
  std::vector<GivenOption> out;
  if (prints())
    out.push_back({"--usage", kUsage, true});
  else if (!usage_.empty())
    out.push_back({"--usage=" + usage_, kUsage, usage_});
  if (!joblog_.empty()) out.push_back({"--joblog=" + joblog_, kJoblog, joblog_});
  if (!plot_.empty()) out.push_back({"--usage-plot=" + plot_, kUsagePlot, plot_});
  if (gpus_) out.push_back({"--usage-gpu", kUsageGpu, true});
  return out;
}

// A leader on another host gets its files beside these, and the other shells only these.
std::vector<std::string> UsageOptions::shell_options() const {
  std::vector<std::string> out;
  if (!usage_.empty()) out.emplace_back("usage=on");
  if (!joblog_.empty()) out.emplace_back("joblog=on");
  if (!plot_.empty()) out.emplace_back("usage-plot=on");
  if (gpus_) out.emplace_back("usage-gpu=on");
  return out;
}

std::vector<LaunchReport> UsageOptions::reports() const {
  std::vector<LaunchReport> out;
  if (!usage_.empty() && !prints()) out.push_back({"--usage", kUsage, usage_, true});
  if (!joblog_.empty()) out.push_back({"--joblog", kJoblog, joblog_, true});
  if (!plot_.empty()) out.push_back({"--usage-plot", kUsagePlot, plot_, true});
  return out;
}

}  // namespace nacre::front
