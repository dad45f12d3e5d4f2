// SPDX-License-Identifier: Apache-2.0
//
// wrap: runs some tasks under another program, such as a profiler or debugger on a few ranks of a large job. The
// option is an entry or an array of them:
//
//   ranks    an idset of task ranks (RFC 22), or "all"; all by default
//   command  the program and its arguments, before those of the task
//
// If several entries name a task, the first entry's program is the outermost.

#include "plugins/builtins.hpp"

namespace nacre::plugins {
namespace {

struct Wrapper {
  std::optional<value::Idset> ranks;  // none: all
  std::vector<std::string> command;   // not empty

  [[nodiscard]] bool covers(value::Idset::Id rank) const { return !ranks || ranks->contains(rank); }
};

Result<std::optional<value::Idset>> wrapped_ranks(const JsonAt& ranks, std::uint64_t tasks) {
  std::string text = TRY(ranks.string());
  if (text == "all") return std::nullopt;
  auto set = TRY(in(ranks.path(), value::Idset::parse(text)));
  if (set.empty()) return ranks.expected("an idset of task ranks, or \"all\"");
  if (*set.last() >= tasks) return ranks.error(fmt::format("the job has no task {}", *set.last()));
  return set;
}

Result<Wrapper> read_wrapper(const JsonAt& entry, std::uint64_t tasks) {
  CHECK_OK(entry.only_keys({"ranks", "command"}));
  Wrapper out;
  if (auto ranks = TRY(entry.find("ranks"))) out.ranks = TRY(wrapped_ranks(*ranks, tasks));
  JsonAt command = TRY(entry.at("command"));
  for (const JsonAt& each : TRY(command.elements())) out.command.push_back(TRY(each.string()));
  if (out.command.empty() || out.command.front().empty()) return command.expected("a program and its arguments");
  return out;
}

class Wrap final : public plugin::Plugin {
 public:
  explicit Wrap(plugin::Host& host) : Plugin("wrap"), host_(host) {
    on("shell.init", [this] { return read(); });
    on("task.init", [this] { wrap(*host_.current_task()); });
  }

 private:
  Result<void> read() {
    auto option = host_.options().at("wrap");
    if (!option) return {};
    std::uint64_t tasks = host_.job().tasks();
    if (option->json().is_object()) {
      wrappers_.push_back(TRY(read_wrapper(*option, tasks)));
      return {};
    }
    for (const JsonAt& entry : TRY(option->elements())) wrappers_.push_back(TRY(read_wrapper(entry, tasks)));
    return {};
  }

  void wrap(task::Task& task) {
    std::vector<std::string>& arguments = task.command().argv;
    for (auto each = wrappers_.rbegin(); each != wrappers_.rend(); ++each) {
      if (each->covers(task.rank()))
        arguments.insert(arguments.begin(), each->command.begin(), each->command.end());
    }
  }

  plugin::Host& host_;
  std::vector<Wrapper> wrappers_;
};

}  // namespace

PluginPtr make_wrap(plugin::Host& host) { return std::make_unique<Wrap>(host); }

}  // namespace nacre::plugins
