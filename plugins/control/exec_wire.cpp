// SPDX-License-Identifier: Apache-2.0
#include "plugins/control/exec_wire.hpp"

#include <csignal>
#include <cstdint>
#include <string_view>

#include <fmt/format.h>

#include "base/bytes.hpp"
#include "base/text.hpp"
#include "job/environment.hpp"
#include "value/hostlist.hpp"

namespace nacre::plugins {

std::string ExecCommand::text() const {
  Json out{{"command", argv}};
  if (window != 0) out["window"] = window;
  if (!env.empty()) out["env"] = env;
  if (cwd) out["cwd"] = *cwd;
  if (has_input) out["stdin"] = true;
  if (joins) out["join"] = true;
  if (pty) out["pty"] = json_of(*pty);
  return dump_json(out);
}

Result<ExecCommand> ExecCommand::parse(std::string_view text) {
  Json json = TRY(parse_json(text));
  JsonAt at = JsonAt::root(json);
  ExecCommand out;
  JsonAt command = TRY(at.at("command"));
  for (const JsonAt& each : TRY(command.elements())) {
    out.argv.push_back(TRY(each.string()));
    if (out.argv.back().find('\0') != std::string::npos) return each.error("a NUL in an argument");
  }
  if (auto joins = TRY(at.find("join"))) out.joins = TRY(joins->boolean());
  if (out.argv.empty() && !out.joins) return command.expected("a command");
  if (auto env = TRY(at.find("env"))) {
    for (const auto& [name, value] : TRY(env->members())) {
      out.env[name] = TRY(value.string());
      CHECK_OK(in("env", job::Environment::check(name, out.env[name])));
    }
  }
  if (auto cwd = TRY(at.find("cwd"))) out.cwd = TRY(cwd->string());
  if (auto input = TRY(at.find("stdin"))) out.has_input = TRY(input->boolean());
  if (auto pty = TRY(at.find("pty"))) out.pty = TRY(terminal_size_of(*pty));
  if (auto window = TRY(at.find("window")))
    out.window = static_cast<std::uint64_t>(TRY(window->integer(1, std::int64_t{1} << 40)));
  return out;
}

std::string ExecRecord::str() const {
  std::string out;
  out.reserve(1 + 8 + 4 + body.size());
  append_number(out, static_cast<std::uint8_t>(what));
  append_number(out, number);
  append_number(out, target);
  out += body;
  return out;
}

std::optional<ExecRecord> ExecRecord::parse(std::string_view bytes) {
  if (bytes.size() < 1 + 8 + 4) return std::nullopt;
  auto what = take_number<std::uint8_t>(bytes);
  if (what < static_cast<std::uint8_t>(What::started) || what > static_cast<std::uint8_t>(What::missed))
    return std::nullopt;
  ExecRecord out;
  out.what = static_cast<What>(what);
  out.number = take_number<std::uint64_t>(bytes);
  out.target = take_number<std::uint32_t>(bytes);
  out.body = bytes;
  return out;
}

std::string ExecNotice::text() const {
  Json out{{"exec", number}};
  if (!may_write.empty()) out["may-write"] = may_write;
  if (signum != 0) out["signal"] = signum;
  if (size) out["size"] = json_of(*size);
  if (ends) out["end"] = true;
  if (drops) out["drop"] = true;
  return dump_json(out);
}

Result<ExecNotice> ExecNotice::parse(std::string_view text) {
  Json json = TRY(parse_json(text));
  JsonAt at = JsonAt::root(json);
  ExecNotice out;
  out.number = static_cast<std::uint64_t>(TRY(TRY(at.at("exec")).integer(1, INT64_MAX)));
  if (auto taken = TRY(at.find("may-write"))) {
    for (const JsonAt& each : TRY(taken->elements())) {
      auto pair = TRY(each.elements());
      if (pair.size() != 2) return each.expected("a target and a number");
      out.may_write.emplace_back(static_cast<std::uint32_t>(TRY(pair[0].integer(0, UINT32_MAX))),
                                 static_cast<std::uint64_t>(TRY(pair[1].integer(0, INT64_MAX))));
    }
  }
  if (auto signum = TRY(at.find("signal"))) out.signum = static_cast<int>(TRY(signum->integer(1, SIGRTMAX)));
  if (auto size = TRY(at.find("size"))) out.size = TRY(terminal_size_of(*size));
  if (auto ends = TRY(at.find("end"))) out.ends = TRY(ends->boolean());
  if (auto drops = TRY(at.find("drop"))) out.drops = TRY(drops->boolean());
  return out;
}

// ---- terminal size ----------------------------------------------------------------------

Json json_of(const winsize& size) { return {{"rows", size.ws_row}, {"columns", size.ws_col}}; }

Result<winsize> terminal_size_of(const JsonAt& at) {
  winsize out{};
  out.ws_row = static_cast<std::uint16_t>(TRY(TRY(at.at("rows")).integer(1, UINT16_MAX)));
  out.ws_col = static_cast<std::uint16_t>(TRY(TRY(at.at("columns")).integer(1, UINT16_MAX)));
  return out;
}

// ---- exec targets -----------------------------------------------------------------------

namespace {

Result<value::Idset> ids_of(const JsonAt& at, std::uint64_t count, const char* what) {
  auto ids = value::Idset::parse(TRY(at.string()));
  if (!ids) return at.error(ids.error().message);
  if (ids->empty()) return at.error(fmt::format("names no {}", what));
  if (*ids->last() >= count)
    return at.error(fmt::format("no {} {}: the job has {}", what, *ids->last(),
                                count == 1 ? "only 0" : fmt::format("0-{}", count - 1)));
  return ids;
}

// A short name means the host of that name in any domain.
bool is_named(std::string_view host, std::string_view name) {
  if (host == name) return true;
  return name.find('.') == std::string_view::npos && host.substr(0, host.find('.')) == name;
}

Result<value::Idset> shells_on(const JsonAt& at, const job::Job& job) {
  auto list = value::Hostlist::parse(TRY(at.string()));
  if (!list) return at.error(list.error().message);
  if (list->empty()) return at.error("names no host");
  value::Idset out;
  const auto& nodes = job.resources.nodes;
  for (const std::string& name : list->names()) {
    bool is_there = false;
    for (std::uint32_t shell = 0; shell < nodes.size(); ++shell) {
      if (!is_named(nodes[shell].hostname, name)) continue;
      is_there = true;
      out.insert(shell);
    }
    if (!is_there) {
      std::string hosts;
      for (const auto& node : nodes) {
        if (&node == nodes.data() || node.hostname != (&node - 1)->hostname)
          hosts += (hosts.empty() ? "" : ",") + node.hostname;
      }
      auto all = value::Hostlist::parse(hosts);
      return at.error(
          fmt::format("the job does not run on {}: it has {:.300}", in_quotes(name), all ? all->str() : hosts));
    }
  }
  return out;
}

}  // namespace

std::string host_of(const job::Job& job, std::uint32_t shell) {
  const auto& nodes = job.resources.nodes;
  if (shell < nodes.size() && !nodes[shell].hostname.empty()) return nodes[shell].hostname;
  return fmt::format("shell {}", shell);
}

Result<ExecTargets> ExecTargets::read(const JsonAt& request, const job::Job& job) {
  ExecTargets out;
  value::Idset shells = job.shells_that_came();
  auto ranks = TRY(request.find("ranks"));
  auto named = TRY(request.find("shells"));
  auto hosts = TRY(request.find("hosts"));
  out.is_all = !ranks && !named && !hosts;
  if (named) shells = TRY(ids_of(*named, job.shells(), "shell"));
  if (hosts) shells = shells & TRY(shells_on(*hosts, job));
  if (auto exclude = TRY(request.find("exclude"))) shells = shells - TRY(shells_on(*exclude, job));
  if (ranks) {
    value::Idset wanted = TRY(ids_of(*ranks, job.tasks(), "rank"));
    for (std::uint32_t shell : shells.ids()) {
      value::Idset here = job.taskmap.ranks_on(shell) & wanted;
      if (!here.empty()) out.shares.emplace(shell, std::move(here));
    }
  } else {
    for (std::uint32_t shell : shells.ids()) out.shares.emplace(shell, value::Idset());
  }
  if (out.shares.empty()) return request.error("nothing of the job is in all that is asked for");
  return out;
}

}  // namespace nacre::plugins
