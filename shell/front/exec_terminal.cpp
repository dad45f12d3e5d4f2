// SPDX-License-Identifier: Apache-2.0
#include "front/exec_terminal.hpp"

#include <csignal>
#include <optional>
#include <string>
#include <utility>

#include "base/print.hpp"
#include "exits/policy.hpp"
#include "exits/record.hpp"
#include "front/table.hpp"
#include "front/terminal_session.hpp"

namespace nacre::front {
namespace {

constexpr int kBySignal = 128;  // and the signal's number

struct CommandEnd {
  std::string host;
  exits::Record record;
  std::string message;
};

Result<void> take_end(const Json& part, std::optional<CommandEnd>& end) {
  auto exits = TRY(JsonAt::root(part).find("exits"));
  if (!exits) return {};
  for (const JsonAt& each : TRY(exits->elements())) {
    std::string host = printable(TRY(TRY(each.at("host")).string()), 255);
    auto record = TRY(exits::Record::parse(TRY(TRY(each.at("record")).string())));
    std::string message;
    if (auto why = TRY(each.find("message"))) message = printable(TRY(why->string()), 1024);
    end = CommandEnd{std::move(host), record, std::move(message)};
  }
  return {};
}

// A command that has exited by itself has printed what it had to.
int report(const CommandEnd& end, bool quiet) {
  using Kind = exits::Record::Kind;
  std::string what = end.message;
  if (end.record.kind() == Kind::lost) what = "lost";
  bool is_killed = end.record.status() && end.record.status()->is_signal();
  if (end.record.kind() == Kind::ended && is_killed) what = end.record.status()->str();
  if (!what.empty() && !quiet) print_err("nacre exec: {}: {}\n", end.host, what);
  return exits::Policy::max().code_of(end.record);
}

}  // namespace

Result<int> exec_on_terminal(control::Client client, Json arguments, bool quiet) {
  std::optional<CommandEnd> ended;
  TerminalSession session(client,
                          {"exec", std::move(arguments), [&](const Json& part) { return take_end(part, ended); }});
  TerminalSession::End end = TRY(session.run());
  using How = TerminalSession::How;
  switch (end.how) {
    case How::answered: break;
    case How::left:
      if (!quiet) print_err("nacre exec: left; the command is being ended\n");
      return kBySignal + SIGHUP;
    case How::hung_up: return kBySignal + SIGHUP;
    case How::signalled: return kBySignal + end.signum;
    case How::link_lost: return Error{ECONNRESET, "the leader has gone, and what was started with it: " + end.why};
  }
  if (!ended) return Error{EPROTO, "the leader does not report how the command has ended"};
  return report(*ended, quiet);
}

}  // namespace nacre::front
