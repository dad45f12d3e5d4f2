// SPDX-License-Identifier: Apache-2.0
#include "front/timeline_option.hpp"

#include <nlohmann/json.hpp>

#include "base/file.hpp"
#include "cli/command_line.hpp"

namespace nacre::front {
namespace {

constexpr const char* kTimeline = "timeline";

}  // namespace

void TimelineOption::add_to(cli::CommandLine& verb) {
  verb.add_flag("--timeline", file_,
                "Print how long each step of the launch took when the job has ended; or write a trace of all that "
                "happens to FILE",
                kWithoutValue)
      ->option_text("[=FILE]");
}

bool TimelineOption::prints() const { return file_ == kWithoutValue; }

std::vector<GivenOption> TimelineOption::given() const {
  if (prints()) return {{"--timeline", kTimeline, true}};
  if (!file_.empty()) return {{"--timeline=" + file_, kTimeline, file_}};
  return {};
}

// A leader on another host gets its file beside this, and the other shells only this.
std::vector<std::string> TimelineOption::shell_options() const {
  return file_.empty() ? std::vector<std::string>() : std::vector<std::string>{"timeline=on"};
}

Result<std::vector<LaunchReport>> TimelineOption::reports() const {
  std::vector<LaunchReport> out;
  if (file_.empty() || prints()) return out;
  CHECK_OK(in("--timeline", check_replaceable(file_)));
  out.push_back({"--timeline", kTimeline, file_, true});
  return out;
}

}  // namespace nacre::front
