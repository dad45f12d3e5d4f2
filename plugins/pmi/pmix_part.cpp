// SPDX-License-Identifier: Apache-2.0
#include "plugins/pmi/pmix_part.hpp"

#include <csignal>
#include <utility>

#include <fmt/format.h>

#include "base/text.hpp"
#include "plugins/pmi/spawn_places.hpp"

namespace nacre::plugins {
namespace {

constexpr std::string_view kVariable = "env";  // info key of a program: NAME=VALUE

Result<pmi::SpawnProgram> read_spawn_program(const JsonAt& in) {
  pmi::SpawnProgram out;
  out.processes = static_cast<std::uint32_t>(TRY(TRY(in.at("processes")).integer(1, pmi::kMaxSpawned)));
  for (const JsonAt& each : TRY(TRY(in.at("argv")).elements())) out.argv.push_back(TRY(each.string()));
  if (out.argv.empty()) return in.expected("a program");
  for (const JsonAt& each : TRY(TRY(in.at("env")).elements())) out.info.emplace_back(kVariable, TRY(each.string()));
  for (const char* key : {"wdir", "host"}) {
    if (auto value = TRY(in.find(key))) out.info.emplace_back(key, TRY(value->string()));
  }
  return out;
}

// What the plugin answers under its name.
Result<SpawnEnvironments> read_environments(const JsonAt& answer, std::size_t processes) {
  if (auto error = TRY(answer.find("error"))) return invalid(TRY(error->string()));
  SpawnEnvironments out;
  for (const JsonAt& each : TRY(TRY(answer.at("environments")).elements())) {
    auto& variables = out.emplace_back();
    for (const auto& [name, value] : each.json().items()) variables[name] = value.get<std::string>();
  }
  if (out.size() != processes) return answer.expected("an environment for each process");
  return out;
}

void call_pmix(plugin::Host& host, plugin::Call& call) {
  if (Result<int> called = host.stack().call(call); !called)
    host.log().log(Level::error, kPmixLibrary, "{}", called.error().message);
}

}  // namespace

Result<PmixRequest> PmixRequest::read(const Json& in) {
  JsonAt at = JsonAt::root(in);
  PmixRequest out;
  out.number = static_cast<std::uint64_t>(TRY(TRY(at.at("request")).integer(1)));
  out.order.library = kPmixLibrary;
  out.order.spawner = TRY(TRY(at.at("nspace")).string());
  out.order.client = static_cast<std::uint32_t>(TRY(TRY(at.at("rank")).integer(0, UINT32_MAX)));
  out.order.task = static_cast<std::uint32_t>(TRY(TRY(at.at("task")).integer(0, UINT32_MAX)));
  for (const JsonAt& each : TRY(TRY(at.at("programs")).elements()))
    out.order.spawn.programs.push_back(TRY(read_spawn_program(each)));
  if (out.order.spawn.programs.empty()) return at.expected("a program");
  if (out.order.spawn.processes() > pmi::kMaxSpawned)
    return invalid(fmt::format("expected at most {} processes in one call", pmi::kMaxSpawned));
  return out;
}

Result<SpawnEnvironments> notify_begin(plugin::Host& host, const SpawnRound& round) {
  plugin::Call call("pmi.spawn-begins");
  call.in["start"] = round.order.start;
  call.in["number"] = round.number;
  call.in["nspace"] = round.order.spawner;
  call.in["rank"] = round.order.client;
  call.in["task"] = round.order.task;
  call.in["places"] = round.places;
  if (round.universe) call.in["universe"] = *round.universe;
  Json& programs = call.in["programs"] = Json::array();
  for (const pmi::SpawnProgram& each : round.order.spawn.programs)
    programs.push_back({{"name", each.argv.front()}, {"processes", each.processes}});
  TRY(host.stack().call(call));
  const std::size_t here = ranks_placed_on(round.places, host.job().shell_rank).size();
  if (here == 0 && !call.out.contains(kPmixLibrary)) return SpawnEnvironments();
  return read_environments(TRY(JsonAt::root(call.out, call.topic).at(kPmixLibrary)), here);
}

void notify_settled(plugin::Host& host, std::uint64_t start, std::uint64_t round,
                    std::optional<std::uint64_t> asked, const Result<void>& outcome) {
  plugin::Call call("pmi.spawn-settled");
  call.in["start"] = start;
  call.in["number"] = round;
  if (asked) call.in["request"] = *asked;
  if (!outcome) {
    call.in["error"] = outcome.error().message;
    call.in["errnum"] = outcome.error().code;
  }
  call_pmix(host, call);
}

void notify_over(plugin::Host& host) {
  plugin::Call call("pmi.spawns-over");
  call_pmix(host, call);
}

PmixPart::PmixPart(plugin::Host& host, const plugin::Plugin& plugin, const SpawnRound& round,
                   std::function<void()> on_over)
    : host_(host),
      plugin_(plugin),
      round_(round),
      on_over_(std::move(on_over)),
      ranks_(ranks_placed_on(round.places, host.job().shell_rank).ids()),
      processes_(host, round.order.task, round.order.setup,
                 {[this](std::uint32_t index) { exited(index); }, [this] { finish(); }}) {}

Result<void> PmixPart::start(const pmi::Spawn& spawn) {
  SpawnEnvironments environments = TRY(notify_begin(host_, round_));
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    const pmi::SpawnProgram& program = spawn.programs[spawn.program_of(ranks_[i])];
    CHECK_OK(processes_.start(program, [&](task::Command& command) {
      for (const auto& [key, text] : program.info) {
        std::size_t equals = text.find('=');
        if (key == kVariable && equals != std::string::npos && equals > 0)
          command.env.set(text.substr(0, equals), text.substr(equals + 1));
      }
      for (const auto& [name, value] : environments[i]) command.env.set(name, value);
    }));
  }
  plugin::Call call("pmi.spawn-started");
  call.in["start"] = round_.order.start;
  call.in["number"] = round_.number;
  Json& processes = call.in["processes"] = Json::array();
  for (std::uint32_t i = 0; i < processes_.size(); ++i)
    processes.push_back({{"rank", ranks_[i]}, {"pid", processes_.pid(i)}});
  TRY(host_.stack().call(call));
  return {};
}

void PmixPart::cancel() {
  signal(SIGKILL);
  if (running() == 0) finish();
}

void PmixPart::signal(int signum) {
  for (std::uint32_t index = 0; index < processes_.size(); ++index) {
    Result<void> sent = processes_.kill(index, signum);
    if (!sent) log(host_, plugin_, Level::debug, "a process of spawn {}: {}", round_.number, sent.error().message);
  }
}

void PmixPart::exited(std::uint32_t index) {
  plugin::Call call("pmi.spawn-exited");
  call.in["start"] = round_.order.start;
  call.in["number"] = round_.number;
  call.in["rank"] = ranks_[index];
  call.in["wait_status"] = processes_.status(index).raw();
  call.in["ending"] = host_.ending();
  call_pmix(host_, call);
}

void PmixPart::finish() {
  if (!std::exchange(is_over_, true)) on_over_();
}

}  // namespace nacre::plugins
