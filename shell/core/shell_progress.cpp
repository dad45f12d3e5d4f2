// SPDX-License-Identifier: Apache-2.0
#include "core/shell_progress.hpp"

#include <sys/stat.h>

#include "base/file.hpp"
#include "base/text.hpp"
#include "job/job.hpp"

namespace nacre::core {

Result<std::string> look_at_file(const std::string& path) {
  struct stat info {};
  std::array<char, PATH_MAX> name{};
  bool is_link = ::lstat(path.c_str(), &info) == 0 && S_ISLNK(info.st_mode);
  if (::stat(path.c_str(), &info) < 0) {
    if (errno == ENOENT || errno == ENOTDIR) return "not there";
    return system_error(errno, path);
  }
  const std::string to =
      is_link && ::realpath(path.c_str(), name.data()) != nullptr ? fmt::format("a link to {}, ", name.data()) : "";
  std::tm utc{};
  std::array<char, 32> time{};
  ::gmtime_r(&info.st_mtim.tv_sec, &utc);
  std::strftime(time.data(), time.size(), "%FT%T", &utc);
  return fmt::format("{}{} bytes of {}.{:09}Z", to, info.st_size, time.data(), info.st_mtim.tv_nsec);
}

std::string short_print(std::string_view printed) {
  constexpr std::size_t kMost = 200;
  const std::string_view text = trim(printed);
  if (text.empty()) return "nothing";
  if (text.size() <= kMost && text.find('\n') == text.npos) return std::string(text);
  Fingerprint all;
  all.add(text);
  return fmt::format("{} ..., {} bytes, {}", text.substr(0, std::min(text.find('\n'), kMost)), text.size(),
                     all.str());
}

void ShellProgress::look(WhenSeen seen) {
  using Look = job::RestartOption::NoProgress::Look;
  waiting_.push_back(std::move(seen));
  switch (option().look) {
    case Look::output: return tell("");
    case Look::file: return tell(look_at_file(option().what));
    case Look::command: break;
  }
  if (!command_.runs()) run();
}

void ShellProgress::run() {
  task::CommandRun::What what{in_quotes(option().what), {"/bin/sh", "-c", option().what}};
  what.variables = {{"FLUX_JOB_ID", host_.job().f58()}};
  what.most = kMostTime;
  what.ends_with_shell = true;
  Result<void> started = command_.start(std::move(what), [this](const Result<std::string>& printed) {
    tell(printed ? Result<std::string>(short_print(*printed)) : printed);
  });
  if (!started) tell(std::move(started).error());
}

void ShellProgress::tell(const Result<std::string>& what) {
  if (!what && !host_.ending())
    host_.log().log(Level::warn, "", "restart: no-progress: {}: this restart does not count", what.error().message);
  const std::optional<std::string> seen = what ? std::optional(*what) : std::nullopt;
  for (const WhenSeen& each : std::exchange(waiting_, {})) each(seen);
}

std::string ShellProgress::number_of(const value::Idset& ranks) const {
  plugin::TaskOutput* output = host_.task_output();
  std::optional<double> most;
  for (const auto& task : host_.tasks()) {
    if (output == nullptr || !ranks.contains(static_cast<value::Idset::Id>(task->rank()))) continue;
    if (task->state() == task::State::exited) output->read_now(task->rank());
    const auto number = output->largest_number(task->rank(), option().what);
    if (number) most = std::max(most.value_or(number->value), number->value);
  }
  return most ? fmt::format("{}", *most) : "";
}

}  // namespace nacre::core
