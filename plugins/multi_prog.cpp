// SPDX-License-Identifier: Apache-2.0
//
// multi-prog: several programs in one job, as srun's --multi-prog has them. The option is an array of entries:
//
//   ranks    an idset of task ranks (RFC 22); without it, all that no other entry names
//   command  the program and its arguments, in the place of the jobspec's
//   environment  an object: variables of these tasks, beside the job's; null removes one
//   cwd      their directory; a relative one is below the job's
//
// In the arguments %t is the task's rank, %o its number within its entry, and %% a percent sign; any other % stays.

#include "plugins/builtins.hpp"

namespace nacre::plugins {
namespace {

using value::Idset;

struct ProgramOfRanks {
  std::optional<Idset> ranks;  // none: the rest
  std::vector<std::string> command;
  std::map<std::string, std::optional<std::string>> environment;  // none: the variable is removed
  std::string cwd;                                                // "": the job's
};

Result<ProgramOfRanks> read_program(const JsonAt& entry) {
  CHECK_OK(entry.only_keys({"ranks", "command", "environment", "cwd"}));
  ProgramOfRanks out;
  if (auto ranks = TRY(entry.find("ranks"))) {
    out.ranks = TRY(in(ranks->path(), Idset::parse(TRY(ranks->string()))));
    if (out.ranks->empty()) return ranks->expected("an idset of task ranks");
  }
  JsonAt command = TRY(entry.at("command"));
  out.command = TRY(command.strings());
  if (out.command.empty() || out.command[0].empty()) return command.expected("a program and its arguments");
  if (auto cwd = TRY(entry.find("cwd"))) {
    out.cwd = TRY(cwd->string());
    if (out.cwd.empty()) return cwd->expected("a directory");
  }
  if (auto environment = TRY(entry.find("environment"))) {
    for (const auto& [name, value] : TRY(environment->members())) {
      std::optional<std::string> text;
      if (!value.json().is_null()) text = TRY(value.string());
      CHECK_OK(in(environment->path(), job::Environment::check(name, text.value_or(""))));
      out.environment[name] = std::move(text);
    }
  }
  return out;
}

std::string with_numbers(std::string_view text, std::uint64_t rank, std::uint64_t offset) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    char next = text[i] == '%' && i + 1 < text.size() ? text[i + 1] : '\0';
    if (next != 't' && next != 'o' && next != '%') {
      out += text[i];
      continue;
    }
    out += next == '%' ? "%" : fmt::format("{}", next == 't' ? rank : offset);
    ++i;
  }
  return out;
}

class MultiProg final : public plugin::Plugin {
 public:
  explicit MultiProg(plugin::Host& host) : Plugin("multi-prog"), host_(host) {
    on("shell.init", [this] { return read(); });
    on("task.init", [this] { give_program(*host_.current_task()); });
  }

 private:
  Result<void> read() {
    auto option = host_.options().at(name());
    if (!option) return {};
    Idset all = Idset::range(0, static_cast<Idset::Id>(host_.job().tasks() - 1));
    Idset named;
    bool has_rest = false;
    for (const JsonAt& entry : TRY(option->elements())) {
      ProgramOfRanks program = TRY(read_program(entry));
      Idset ranks = program.ranks.value_or(Idset());
      if (Idset beyond = ranks - all; !beyond.empty())
        return entry.error(fmt::format("the job has no task {}", beyond.str()));
      if (Idset twice = ranks & named; !twice.empty())
        return entry.error(fmt::format("task {} has a program already", twice.str()));
      if (!program.ranks && std::exchange(has_rest, true)) return entry.error("a second entry without ranks");
      named = named | ranks;
      programs_.push_back(std::move(program));
    }
    rest_ = all - named;
    if (rest_.empty() || has_rest) return {};
    return option->error(
        fmt::format("no program for task {}: name it in one, or add one without ranks", rest_.str()));
  }

  void give_program(task::Task& task) {
    auto rank = static_cast<Idset::Id>(task.rank());
    for (const ProgramOfRanks& each : programs_) {
      const Idset& ranks = each.ranks ? *each.ranks : rest_;
      if (!ranks.contains(rank)) continue;
      std::uint64_t offset = rank == 0 ? 0 : (ranks & Idset::range(0, rank - 1)).size();
      std::vector<std::string>& arguments = task.command().argv;
      arguments.clear();
      for (const std::string& word : each.command) arguments.push_back(with_numbers(word, rank, offset));
      for (const auto& [name, value] : each.environment)
        value ? task.command().env.set(name, *value) : task.command().env.unset(name);
      if (!each.cwd.empty()) task.command().setup.cwd = each.cwd;
    }
  }

  plugin::Host& host_;
  std::vector<ProgramOfRanks> programs_;
  Idset rest_;
};

}  // namespace

PluginPtr make_multi_prog(plugin::Host& host) { return std::make_unique<MultiProg>(host); }

}  // namespace nacre::plugins
