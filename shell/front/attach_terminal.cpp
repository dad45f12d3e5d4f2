// SPDX-License-Identifier: Apache-2.0
#include "front/attach_terminal.hpp"

#include <cerrno>
#include <utility>

#include <fmt/format.h>

#include "exits/record.hpp"
#include "front/table.hpp"
#include "front/terminal_session.hpp"
#include "value/idset.hpp"

namespace nacre::front {
namespace {

Result<value::Idset> terminals(control::Client& client) {
  Json status = TRY(client.ask("status"));
  auto ranks = TRY(JsonAt::root(status).find("terminals"));
  return ranks ? value::Idset::parse(TRY(ranks->string())) : value::Idset();
}

struct Seen {
  TerminalView view;
  std::optional<Error> refused;
};

Result<void> take(const Json& part, Seen& seen) {
  JsonAt at = JsonAt::root(part);
  if (auto missed = TRY(at.find("missed")))
    seen.view.missed += static_cast<std::uint64_t>(TRY(TRY(missed->at("bytes")).integer(0, INT64_MAX)));
  auto exits = TRY(at.find("exits"));
  if (!exits) return {};
  for (const JsonAt& each : TRY(exits->elements())) {
    auto record = TRY(exits::Record::parse(TRY(TRY(each.at("record")).string())));
    seen.view.task_end = record.status() ? record.status()->str() : "its shell is lost";
    if (auto why = TRY(each.find("message"))) seen.refused = Error{ENOTTY, printable(TRY(why->string()), 1024)};
  }
  return {};
}

}  // namespace

Result<std::uint32_t> first_terminal(control::Client& client) {
  auto first = TRY(terminals(client)).first();
  if (!first) return Error{ENOTTY, "--pty: no task of the job has a terminal: it has to be run with --pty"};
  return *first;
}

Result<std::optional<std::uint32_t>> only_terminal(control::Client& client) {
  value::Idset all = TRY(terminals(client));
  return all.size() == 1 ? all.first() : std::nullopt;
}

Result<TerminalView> attach_terminal(control::Client& client, std::uint32_t rank) {
  Seen seen;
  TerminalSession session(
      client, {"attach", {{"pty", {{"rank", rank}}}}, [&](const Json& part) { return take(part, seen); }});
  TerminalSession::End end = TRY(session.run());
  using How = TerminalSession::How;
  if (end.how == How::link_lost)
    seen.view.how = TerminalView::How::link_lost;
  else if (end.how != How::answered)
    seen.view.how = TerminalView::How::left;
  if (seen.refused) return *std::move(seen.refused);
  return std::move(seen.view);
}

}  // namespace nacre::front
