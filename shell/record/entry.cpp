// SPDX-License-Identifier: Apache-2.0
#include "record/entry.hpp"

#include "exits/record.hpp"
#include "wire/json.hpp"

namespace nacre::record {
namespace {

constexpr int kEntryVersion = 1;
constexpr int kMaxCode = 255;

// The beginning of `text`: at most `most` bytes, in whole characters of UTF-8.
std::string shortened(const std::string& text, std::size_t most = JobEntry::kMaxLine) {
  if (text.size() <= most) return text;
  while (most > 0 && (static_cast<unsigned char>(text[most]) & 0xc0) == 0x80) --most;
  return text.substr(0, most);
}

Json shortened_command(const std::vector<std::string>& words) {
  Json out = Json::array();
  std::size_t room = JobEntry::kMaxCommand;
  for (const std::string& each : words) {
    if (room == 0) break;
    std::string word = shortened(each, room);
    room -= std::min(room, word.size() + 1);
    out.push_back(std::move(word));
  }
  return out;
}

// JSON may escape one byte by six, so a line can be too long even if its texts are short enough. Then whole members
// are emptied.
std::string fitting_line(Json out) {
  std::string line = dump_json(out);
  for (const char* part :
       {"/end/report", "/end/timeline", "/end/usage", "/end/exits", "/command", "/cwd", "/end/cause", "/name"}) {
    if (line.size() < JobEntry::kMaxText) break;
    Json::json_pointer at(part);
    if (find_at(out, at).is_null()) continue;
    Json& value = out[at];
    value = value.is_array() ? Json::array() : value.is_string() ? Json("") : Json();
    line = dump_json(out);
  }
  return line;
}

// A text that is shortened when it is written.
struct Line {
  std::size_t most = JobEntry::kMaxLine;

  [[nodiscard]] Json write(const std::string& text) const { return shortened(text, most); }
  static Result<void> read(const JsonAt& at, std::string& text) { return wire::read(at, text); }
};

struct Command {
  static Json write(const std::vector<std::string>& words) { return shortened_command(words); }
  static Result<void> read(const JsonAt& at, std::vector<std::string>& words) { return wire::read(at, words); }
};

struct Notes {
  static Json write(const std::vector<std::string>& notes) {
    return wire::to_json(std::vector(notes.begin(), notes.begin() + static_cast<std::ptrdiff_t>(std::min(
                                                                        notes.size(), JobEntry::kMaxNotes))),
                         wire::Each{Line()});
  }
  static Result<void> read(const JsonAt& at, std::vector<std::string>& notes) {
    CHECK_OK(wire::read(at, notes));
    return notes.size() > JobEntry::kMaxNotes ? at.error("has too many elements") : Result<void>();
  }
};

struct Report {
  static Json write(const Json& report) { return fitting_report(report); }
  static Result<void> read(const JsonAt& at, Json& report) { return wire::read(at, report, wire::kAnObject); }
};

// A time that can be shown as a date: neither negative nor far in the future.
constexpr auto kADate = [](const JsonAt& at, double time) -> Result<void> {
  constexpr double kFarFuture = 1e11;
  return time >= 0 && time < kFarFuture ? Result<void>() : at.expected("seconds since the Epoch");
};

// One of EntryEnd::exits.
struct ExitClass {
  std::string record;
  std::uint64_t count = 0;
  std::optional<std::string> ranks;
};

void fields(auto& io, wire::Of<ExitClass> auto& m) {
  io.has("record", m.record);
  io.has("count", m.count);
  io.may_have("ranks", m.ranks, [](const JsonAt& at, const std::string& text) -> Result<void> {
    CHECK_OK(in(at.path(), value::Idset::parse(text)));
    return {};
  });
}

struct Exits {
  static Json write(const Json& exits) { return exits; }
  static Result<void> read(const JsonAt& at, Json& exits) {
    std::vector<ExitClass> all;
    CHECK_OK(wire::read(at, all));
    if (all.size() > JobEntry::kMaxClasses + 1) return at.error("has too many elements");
    exits = wire::to_json(all);
    return {};
  }
};

}  // namespace

void fields(auto& io, wire::Of<EntryEnd> auto& m) {
  io.has("time", m.time, kADate);
  io.may_have("ran", m.ran, kADate);
  io.has("code", m.code, wire::Between{0, kMaxCode});
  io.has("vanished", m.vanished);
  io.may_lack("cause", m.cause, Line());
  io.has("exits", m.exits, Exits());
  io.may_have("rule", m.rule, wire::kAnObject);
  io.may_have("lost_output", m.lost_output);
  io.may_have("report", m.report, Report());
  io.may_have("usage", m.usage, wire::kAnObject);
  io.may_have("timeline", m.timeline, wire::kAnObject);
}

void fields(auto& io, wire::Of<ProcessPlace> auto& m) {
  io.has("host", m.host, Line());
  io.has("machine", m.machine, Line());
  io.has("boot", m.boot, Line());
  io.has("pids", m.pids);
}

void fields(auto& io, wire::Of<Manager> auto& m) {
  io.has("kind", m.kind, Line());
  io.may_lack("job", m.job, Line());
  io.may_lack("step", m.step, Line());
}

void fields(auto& io, wire::Of<JobEntry> auto& m) {
  int entry = kEntryVersion;
  io.has("entry", entry, wire::Between{kEntryVersion, kEntryVersion});
  io.has("nacre", m.version);
  io.has("id", m.id);
  io.may_lack("name", m.name, Line());
  io.has("user", m.user);
  io.has("place", m.place);
  io.has("pid", m.pid, wire::Between{1, INT32_MAX});
  io.has("start", m.pid_start);
  io.may_lack("address", m.address, Line());
  io.has("manager", m.manager);
  io.has("shells", m.shells);
  io.may_have("gone", m.gone);
  io.may_have("spares", m.spares);
  io.may_have("restarts", m.restarts);
  io.may_have("takes_over", m.takes_over);
  io.has("tasks", m.tasks);
  io.has("command", m.command, Command());
  io.may_lack("cwd", m.cwd, Line{JobEntry::kMaxCommand});
  io.has("started", m.started, kADate);
  io.may_have("notes", m.notes, Notes());
  io.may_have("end", m.end);
}

std::string JobEntry::text() const { return fitting_line(wire::to_json(*this)) + '\n'; }

Result<JobEntry> JobEntry::parse(std::string_view text) {
  if (text.size() > kMaxText) return invalid(fmt::format("longer than {} bytes", kMaxText));
  return wire::from_text<JobEntry>(text);
}

Json exits_of(const Json& ranks_by_record) {
  Json out = Json::array();
  std::uint64_t others = 0;
  std::size_t room = JobEntry::kMaxRanks;
  for (const auto& [text, ranks] : ranks_by_record.items()) {
    auto set = ranks.is_string() ? value::Idset::parse(ranks.get_ref<const std::string&>())
                                 : Result<value::Idset>(invalid("no text"));
    if (!set) continue;
    if (out.size() == JobEntry::kMaxClasses) {
      others += set->size();
      continue;
    }
    Json each{{"record", text}, {"count", set->size()}};
    std::size_t size = ranks.get_ref<const std::string&>().size();
    if (size <= room) {
      each["ranks"] = ranks;
      room -= size;
    }
    out.push_back(std::move(each));
  }
  if (others > 0) out.push_back({{"record", "others"}, {"count", others}});
  return out;
}

Json fitting_report(Json report) {
  if (dump_json(report).size() <= JobEntry::kMaxReport) return report;
  report["shortened"] = true;
  for (const char* part : {"others", "timeline", "classes", "cause", "exit", "job"}) {
    report.erase(part);
    if (dump_json(report).size() <= JobEntry::kMaxReport) return report;
  }
  return {{"shortened", true}};
}

// ---- other policy -----------------------------------------------------------------------

namespace {

Result<exits::Record> record_at(const JsonAt& at) {
  auto record = exits::Record::parse(TRY(at.string()));
  if (!record) return at.error(record.error().message);
  return record;
}

// The records of all tasks. Only the rank that is `main` has to be the right one: for ranks that the entry leaves
// out, as they are many, any others are taken.
Result<exits::Outcomes> outcomes_of(const EntryEnd& end, bool needs_ranks) {
  exits::Outcomes out;
  value::Idset::Id unknown = value::Idset::kMaxId;
  for (const JsonAt& each : TRY(JsonAt::root(end.exits, "exits").elements())) {
    JsonAt record = TRY(each.at("record"));
    if (record.json() == "others") return invalid("the job's tasks have ended in more ways than were recorded");
    auto ranks = TRY(each.find("ranks"));
    if (!ranks && needs_ranks) return invalid("which task has ended how was too long to be recorded");
    value::Idset set =
        ranks ? TRY(value::Idset::parse(TRY(ranks->string()))) : value::Idset::range(unknown, unknown);
    if (!ranks) --unknown;
    out.add(set, TRY(record_at(record)));
  }
  return out;
}

}  // namespace

Result<int> code_by(exits::Policy::Kind kind, const EntryEnd& end) {
  using Kind = exits::Policy::Kind;
  if (end.vanished) return invalid("its leader has gone, so how its tasks have ended is not known");
  if (end.rule.is_null()) return invalid("an older nacre has recorded its end");
  JsonAt rule = JsonAt::root(end.rule, "rule");
  if (auto fixed = TRY(rule.find("fixed")); fixed && TRY(fixed->boolean())) return end.code;
  auto main = static_cast<value::Idset::Id>(TRY(TRY(rule.at("main")).integer(0, value::Idset::kMaxId)));
  auto ok = TRY(rule.find("ok"));
  exits::Policy policy(kind, main, ok ? TRY(value::Idset::parse(TRY(ok->string()))) : value::Idset());
  int least = 0;
  if (auto at = TRY(rule.find("least"))) least = static_cast<int>(TRY(at->integer(0, 1)));
  int code = 0;
  if (kind == Kind::first) {
    if (auto first = TRY(rule.find("first"))) code = policy.code_of(TRY(record_at(*first)));
  } else {
    bool needs_ranks = kind == Kind::main || kind == Kind::main_and_all;
    code = policy.code(TRY(outcomes_of(end, needs_ranks)));
  }
  return std::max(code, least);
}

}  // namespace nacre::record
