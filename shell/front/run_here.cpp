// SPDX-License-Identifier: Apache-2.0
#include "front/run_here.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <filesystem>

#include <fmt/format.h>

#include "base/file.hpp"
#include "base/print.hpp"
#include "base/unique_fd.hpp"
#include "launch/launcher.hpp"

namespace nacre::front {

bool is_here(const LaunchPlan& plan) {
  return !plan.srun && plan.record.size == 1 && (plan.record.agent.empty() || launch::is_this_host(plan.leader));
}

Result<int> run_here(LaunchPlan plan) {
  launch::LaunchRecord& record = plan.record;
  for (const LaunchReport& each : plan.reports) {
    std::string to = each.is_path ? std::filesystem::absolute(each.to).native() : each.to;
    record.options.push_back(fmt::format("{}={}", each.channel, to));
  }
  UniqueFd fd(::memfd_create("nacre-launch-record", 0));
  if (!fd) return system_error(errno, "memfd_create");
  if (int code = write_all(fd.get(), record.line()); code != 0) return system_error(code, "the launch record");
  std::vector<std::string> words = record.shell;
  words.push_back(fmt::format("--launch-record={}", fd.get()));
  if (plan.verbose) print_err("nacre run: starting {}\n", fmt::join(words, " "));
  std::vector<char*> argv;
  for (std::string& each : words) argv.push_back(each.data());
  argv.push_back(nullptr);
  CHECK_OK(flush_out());
  ::execvp(argv[0], argv.data());
  return system_error(errno, words[0]);
}

}  // namespace nacre::front
