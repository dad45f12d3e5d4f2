// SPDX-License-Identifier: Apache-2.0
#include "plugins/control/exec_wire.hpp"

#include "base/bytes.hpp"
#include "base/text.hpp"
#include "job/environment.hpp"
#include "wire/json.hpp"

namespace nacre::plugins {

namespace {

constexpr wire::Object kTerminalSize{[](auto& io, auto& m) {
  io.has("rows", m.ws_row, wire::Between{1, UINT16_MAX});
  io.has("columns", m.ws_col, wire::Between{1, UINT16_MAX});
}};

constexpr auto kArgument = [](const JsonAt& at, const std::string& text) -> Result<void> {
  return text.find('\0') == std::string::npos ? Result<void>() : at.error("a NUL in an argument");
};

constexpr auto kVariables = [](const JsonAt&, const std::map<std::string, std::string>& env) -> Result<void> {
  for (const auto& [name, value] : env) CHECK_OK(in("env", job::Environment::check(name, value)));
  return {};
};

}  // namespace

void fields(auto& io, wire::Of<ExecCommand> auto& m) {
  io.has("command", m.argv, wire::Each{kArgument});
  io.may_have("join", m.joins);
  io.check("command", !m.argv.empty() || m.joins, "expected a command");
  io.may_have("env", m.env, kVariables);
  io.may_have("cwd", m.cwd);
  io.may_have("stdin", m.has_input);
  io.may_have("pty", m.pty, kTerminalSize);
  io.may_have("window", m.window, wire::Between{1, std::int64_t{1} << 40});
}

std::string ExecCommand::text() const { return wire::to_text(*this); }

Result<ExecCommand> ExecCommand::parse(std::string_view text) { return wire::from_text<ExecCommand>(text); }

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

void fields(auto& io, wire::Of<ExecNotice> auto& m) {
  io.has("exec", m.number, wire::Between{1});
  io.may_have("may-write", m.may_write, wire::Each{wire::Array{[](auto& target, auto& of) {
                target.are("a target and a number");
                target.has(of.first);
                target.has(of.second);
              }}});
  io.may_have("signal", m.signum, wire::Between{1, SIGRTMAX});
  io.may_have("size", m.size, kTerminalSize);
  io.may_have("end", m.ends);
  io.may_have("drop", m.drops);
}

std::string ExecNotice::text() const { return wire::to_text(*this); }

Result<ExecNotice> ExecNotice::parse(std::string_view text) { return wire::from_text<ExecNotice>(text); }

Result<winsize> terminal_size_of(const JsonAt& at) {
  winsize out{};
  CHECK_OK(kTerminalSize.read(at, out));
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

// A short name matches the host of that name in any domain.
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
  std::string name = job.hostname_of(shell);
  return name.empty() ? fmt::format("shell {}", shell) : name;
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
