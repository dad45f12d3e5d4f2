// SPDX-License-Identifier: Apache-2.0
#include "group/statements.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <tuple>

#include <fmt/format.h>

#include "base/file.hpp"
#include "base/json.hpp"
#include "base/text.hpp"
#include "overlay/wire.hpp"

namespace nacre::group {

overlay::ExceptionEntry statement_of(const JobException& exception) {
  Json note{{"message", exception.message.substr(0, kMaxNote)}, {"origin", exception.origin}};
  if (exception.exit_code) note["exit_code"] = exits::failure_code(*exception.exit_code);
  if (exception.of_shell) note["of_shell"] = true;
  if (exception.task) note["task"] = {{"rank", exception.task->rank}, {"record", exception.task->record.str()}};
  return {exception.type, static_cast<std::uint32_t>(exception.severity), dump_json(note)};
}

namespace {

// None if it is not as statement_of() makes it: then the exit code counts.
std::optional<exits::TaskEnd> task_of(const JsonAt& note) {
  auto at = note.find("task");
  if (!at || !*at) return {};
  auto rank = (*at)->at("rank");
  auto text = (*at)->at("record");
  if (!rank || !text) return {};
  auto number = rank->integer(0, value::Idset::kMaxId);
  auto record = exits::Record::parse(text->string().value_or(""));
  if (!number || !record) return {};
  return exits::TaskEnd{static_cast<value::Idset::Id>(*number), *record};
}

}  // namespace

JobException exception_of(const overlay::ExceptionEntry& statement) {
  JobException out{statement.type, static_cast<int>(statement.severity), statement.note, std::nullopt, 0};
  auto json = parse_json(statement.note);
  if (!json || !json->is_object()) return out;
  JsonAt note = JsonAt::root(*json);
  if (auto at = note.find("message"); at && *at) out.message = (*at)->string().value_or(statement.note);
  if (auto at = note.find("origin"); at && *at) {
    out.origin = static_cast<Rank>((*at)->integer(0, UINT32_MAX - 1).value_or(0));
  }
  if (auto at = note.find("of_shell"); at && *at) out.of_shell = (*at)->boolean().value_or(false);
  out.task = task_of(note);
  if (auto at = note.find("exit_code"); at && *at) {
    if (auto code = (*at)->integer(0, 255)) out.exit_code = static_cast<int>(*code);
  }
  return out;
}

Result<overlay::Exec> statement_of(value::ExecOrder order) {
  if (order.command.size() > overlay::kMaxData)
    return Error{EMSGSIZE, fmt::format("the command and its environment have {} bytes; at most {}",
                                       order.command.size(), overlay::kMaxData)};
  overlay::Exec out{0, {}, std::move(order.command), order.strict, order.kind};
  for (auto& [shell, ranks] : order.shares) {
    do {
      out.map.push_back({shell, ranks.take_first(overlay::kSplitIds)});
    } while (!ranks.empty());
  }
  if (out.map.size() > overlay::kMaxList)
    return Error{EMSGSIZE, fmt::format("{} shells at once; at most {}", out.map.size(), overlay::kMaxList)};
  return out;
}

std::optional<value::ExecShare> share_of(const overlay::Exec& exec, overlay::Seq number, Rank shell) {
  std::optional<value::ExecShare> out;
  for (const overlay::RankShare& each : exec.map) {
    if (each.member != shell) continue;
    if (!out) out = value::ExecShare{number, {}, exec.command, exec.kind};
    out->ranks.insert(each.ranks);
  }
  return out;
}

overlay::Bytes statement_of(const Ended& ended) { return ended.record.str(); }

// The record comes first: if TRY() returns, GCC does not destroy members that are before it in the braces.
Result<Ended> ended_of(const overlay::TaskReport& statement) {
  exits::Record record =
      TRY(in(fmt::format("tasks {}", statement.tasks.str()), exits::Record::parse(statement.what)));
  return Ended{statement.tasks, record};
}

// ---- event log --------------------------------------------------------------------------

Result<EventLog> EventLog::create(const std::string& path) {
  UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0644));
  if (!fd) return system_error(errno, "--eventlog: " + path);
  return EventLog(path, std::move(fd));
}

Result<void> EventLog::append(double timestamp, std::string_view name, const Json& context) {
  Json entry{{"timestamp", timestamp}, {"name", name}};
  if (!context.empty()) entry["context"] = context;
  off_t end = ::lseek(fd_.get(), 0, SEEK_END);
  int code = write_all(fd_.get(), dump_json(entry) + '\n');
  if (code == 0) return {};
  // The next event must not continue a part of this one. Only a file can be cut; another target has lost its
  // reader.
  std::ignore = ::ftruncate(fd_.get(), end);
  return system_error(code, "--eventlog: " + path_);
}

}  // namespace nacre::group
