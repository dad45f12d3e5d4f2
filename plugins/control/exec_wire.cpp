// SPDX-License-Identifier: Apache-2.0
#include "plugins/control/exec_wire.hpp"

#include <csignal>

#include "base/big_endian.hpp"
#include "job/environment.hpp"
#include "plugins/control/terminal_size.hpp"

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

}  // namespace nacre::plugins
