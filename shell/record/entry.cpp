// SPDX-License-Identifier: Apache-2.0
#include "record/entry.hpp"

#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "exits/record.hpp"
#include "value/idset.hpp"

namespace nacre::record {
namespace {

constexpr int kEntryVersion = 1;
constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
constexpr int kMaxCode = 255;

// The beginning of `text`: at most so many bytes, and whole characters of UTF-8.
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

Json json_of(const EntryEnd& end) {
  Json out{{"time", end.time},
           {"code", end.code},
           {"vanished", end.vanished},
           {"cause", shortened(end.cause)},
           {"exits", end.exits}};
  if (end.ran > 0) out["ran"] = end.ran;
  if (!end.rule.is_null()) out["rule"] = end.rule;
  if (end.lost_output > 0) out["lost_output"] = end.lost_output;
  if (!end.report.is_null()) out["report"] = fitting_report(end.report);
  if (!end.usage.is_null()) out["usage"] = end.usage;
  if (!end.timeline.is_null()) out["timeline"] = end.timeline;
  return out;
}

// JSON may escape one byte by six, so a line can be too long though its texts are short enough: then whole members
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

Result<std::string> optional_string(const JsonAt& object, std::string_view key) {
  auto found = TRY(object.find(key));
  if (!found) return std::string();
  std::string text = TRY(found->string());
  if (text.size() > JobEntry::kMaxText) return found->error("is too long");
  return text;
}

// A time that can be shown as a date: neither negative nor far in the future.
Result<double> time_at(const JsonAt& object, std::string_view key) {
  constexpr double kFarFuture = 1e11;
  JsonAt at = TRY(object.at(key));
  double time = TRY(at.number());
  if (!(time >= 0 && time < kFarFuture)) return at.expected("seconds since the Epoch");
  return time;
}

Result<std::uint64_t> count_at(const JsonAt& object, std::string_view key) {
  return static_cast<std::uint64_t>(TRY(TRY(object.at(key)).integer(0, kMost)));
}

Result<Json> exits_at(const JsonAt& at) {
  auto elements = TRY(at.elements());
  if (elements.size() > JobEntry::kMaxClasses + 1) return at.error("has too many elements");
  Json out = Json::array();
  for (const JsonAt& each : elements) {
    std::string record = TRY(TRY(each.at("record")).string());
    std::uint64_t count = TRY(count_at(each, "count"));
    Json one{{"record", std::move(record)}, {"count", count}};
    if (auto ranks = TRY(each.find("ranks"))) {
      std::string text = TRY(ranks->string());
      if (auto parsed = value::Idset::parse(text); !parsed) return ranks->error(parsed.error().message);
      one["ranks"] = text;
    }
    out.push_back(std::move(one));
  }
  return out;
}

Result<EntryEnd> end_at(const JsonAt& at) {
  EntryEnd out;
  out.time = TRY(time_at(at, "time"));
  if (TRY(at.find("ran"))) out.ran = TRY(time_at(at, "ran"));
  out.code = static_cast<int>(TRY(TRY(at.at("code")).integer(0, kMaxCode)));
  out.vanished = TRY(TRY(at.at("vanished")).boolean());
  out.cause = TRY(optional_string(at, "cause"));
  out.exits = TRY(exits_at(TRY(at.at("exits"))));
  if (auto rule = TRY(at.find("rule"))) {
    if (!rule->json().is_object()) return rule->expected("an object");
    out.rule = rule->json();
  }
  if (TRY(at.find("lost_output"))) out.lost_output = TRY(count_at(at, "lost_output"));
  if (auto report = TRY(at.find("report"))) {
    if (!report->json().is_object()) return report->expected("an object");
    out.report = report->json();
  }
  if (auto usage = TRY(at.find("usage"))) {
    if (!usage->json().is_object()) return usage->expected("an object");
    out.usage = usage->json();
  }
  if (auto timeline = TRY(at.find("timeline"))) {
    if (!timeline->json().is_object()) return timeline->expected("an object");
    out.timeline = timeline->json();
  }
  return out;
}

Result<ProcessPlace> place_at(const JsonAt& at) {
  ProcessPlace out;
  out.host = TRY(TRY(at.at("host")).string());
  out.machine = TRY(TRY(at.at("machine")).string());
  out.boot = TRY(TRY(at.at("boot")).string());
  out.pids = TRY(count_at(at, "pids"));
  return out;
}

Result<Manager> manager_at(const JsonAt& at) {
  Manager out;
  out.kind = TRY(TRY(at.at("kind")).string());
  out.job = TRY(optional_string(at, "job"));
  out.step = TRY(optional_string(at, "step"));
  return out;
}

Result<JobEntry> entry_of(const JsonAt& at) {
  JobEntry out;
  static_cast<void>(TRY(TRY(at.at("entry")).integer(kEntryVersion, kEntryVersion)));
  out.version = TRY(TRY(at.at("nacre")).string());
  JsonAt id = TRY(at.at("id"));
  auto parsed = value::JobId::parse(TRY(id.string()));
  if (!parsed) return id.error(parsed.error().message);
  out.id = *parsed;
  out.name = TRY(optional_string(at, "name"));
  out.user = static_cast<std::uint32_t>(TRY(TRY(at.at("user")).integer(0, UINT32_MAX)));
  out.place = TRY(place_at(TRY(at.at("place"))));
  out.pid = TRY(TRY(at.at("pid")).integer(1, INT32_MAX));
  out.pid_start = TRY(count_at(at, "start"));
  out.address = TRY(optional_string(at, "address"));
  out.manager = TRY(manager_at(TRY(at.at("manager"))));
  out.shells = TRY(count_at(at, "shells"));
  if (TRY(at.find("gone"))) out.gone = TRY(count_at(at, "gone"));
  if (TRY(at.find("spares"))) out.spares = TRY(count_at(at, "spares"));
  if (TRY(at.find("restarts"))) out.restarts = TRY(count_at(at, "restarts"));
  out.tasks = TRY(count_at(at, "tasks"));
  out.command = TRY(TRY(at.at("command")).strings());
  out.cwd = TRY(optional_string(at, "cwd"));
  out.started = TRY(time_at(at, "started"));
  if (auto notes = TRY(at.find("notes"))) out.notes = TRY(notes->strings());
  if (out.notes.size() > JobEntry::kMaxNotes) return TRY(at.at("notes")).error("has too many elements");
  if (auto end = TRY(at.find("end"))) out.end = TRY(end_at(*end));
  return out;
}

}  // namespace

std::string JobEntry::text() const {
  Json out{
      {"nacre", version},
      {"entry", kEntryVersion},
      {"id", id.f58_plain()},
      {"name", shortened(name)},
      {"user", user},
      {"place",
       {{"host", shortened(place.host)},
        {"machine", shortened(place.machine)},
        {"boot", shortened(place.boot)},
        {"pids", place.pids}}},
      {"pid", pid},
      {"start", pid_start},
      {"address", shortened(address)},
      {"manager",
       {{"kind", shortened(manager.kind)}, {"job", shortened(manager.job)}, {"step", shortened(manager.step)}}},
      {"shells", shells},
      {"tasks", tasks},
      {"command", shortened_command(command)},
      {"cwd", shortened(cwd, kMaxCommand)},
      {"started", started}};
  if (gone > 0) out["gone"] = gone;
  if (spares > 0) out["spares"] = spares;
  if (restarts > 0) out["restarts"] = restarts;
  for (std::size_t i = 0; i < std::min(notes.size(), kMaxNotes); ++i) out["notes"].push_back(shortened(notes[i]));
  if (end) out["end"] = json_of(*end);
  return fitting_line(std::move(out)) + '\n';
}

Result<JobEntry> JobEntry::parse(std::string_view text) {
  if (text.size() > kMaxText) return invalid(fmt::format("longer than {} bytes", kMaxText));
  Json json = TRY(parse_json(text));
  return entry_of(JsonAt::root(json));
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

// The records of all tasks. Only which rank is `main` matters: ranks that were left out, as they are many, may be
// any others.
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
