// SPDX-License-Identifier: Apache-2.0
#include "group/codec.hpp"

#include <fcntl.h>
#include <unistd.h>

#include "base/file.hpp"
#include "base/text.hpp"
#include "overlay/wire.hpp"
#include "wire/json.hpp"

namespace nacre::group {

// The note of an entry. If no shell wrote it, this takes what it understands.
void fields(auto& io, wire::Of<JobException> auto& m) {
  constexpr bool kReads = wire::kReads<decltype(io)>;
  std::string message = m.message.substr(0, kReads ? std::string::npos : kMaxNote);
  std::optional<int> code;
  if (!kReads && m.exit_code) code = exits::failure_code(*m.exit_code);
  io.may_lack("message", message, wire::Lenient());
  io.may_lack("origin", m.origin, wire::Lenient{wire::Between{0, UINT32_MAX - 1}});
  io.may_have("exit_code", code, wire::Lenient{wire::Between{0, 255}});
  io.may_have("of_shell", m.of_shell, wire::Lenient());
  io.may_have("task", m.task, wire::Lenient{wire::Object{[](auto& task, auto& of) {
                task.has("rank", of.rank, wire::Between{0, value::Idset::kMaxId});
                task.has("record", of.record);
              }}});
  if constexpr (kReads) {
    m.message = std::move(message);
    m.exit_code = code;
  }
}

overlay::ExceptionEntry encode(const JobException& exception) {
  return {exception.type, static_cast<std::uint32_t>(exception.severity), wire::to_text(exception)};
}

JobException decode(const overlay::ExceptionEntry& entry) {
  JobException out{entry.type, static_cast<int>(entry.severity), entry.note, std::nullopt, 0};
  if (auto note = parse_json(entry.note)) static_cast<void>(wire::read(JsonAt::root(*note), out));
  return out;
}

Result<overlay::Exec> encode(value::ExecOrder order) {
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

overlay::Bytes encode(const Ended& ended) { return ended.record.str(); }

// The record comes first: if TRY() returns, GCC does not destroy members that are before it in the braces.
Result<Ended> decode(const overlay::TaskReport& report) {
  exits::Record record = TRY(in(fmt::format("tasks {}", report.tasks.str()), exits::Record::parse(report.what)));
  return Ended{report.tasks, record};
}

// ---- event log --------------------------------------------------------------------------

Result<EventLog> EventLog::create(const std::string& path, bool appends) {
  const int how = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | (appends ? 0 : O_TRUNC);
  UniqueFd fd(::open(path.c_str(), how, 0644));
  if (!fd) return system_error(errno, "--eventlog: " + path);
  return EventLog(path, std::move(fd));
}

Result<void> EventLog::append(double timestamp, std::string_view name, const Json& context) {
  Json entry{{"timestamp", timestamp}, {"name", name}};
  if (!context.empty()) entry["context"] = context;
  off_t end = ::lseek(fd_.get(), 0, SEEK_END);
  int code = write_all(fd_.get(), dump_json(entry) + '\n');
  if (code == 0) return {};
  // The next event must not continue a part of this one. Only a file can be cut; any other target has lost its
  // reader.
  std::ignore = ::ftruncate(fd_.get(), end);
  return system_error(code, "--eventlog: " + path_);
}

}  // namespace nacre::group
