// SPDX-License-Identifier: Apache-2.0
#include "front/job_report.hpp"

#include <array>
#include <ctime>

#include <fmt/format.h>

#include "event/clock.hpp"
#include "exits/report_text.hpp"
#include "front/table.hpp"
#include "record/list.hpp"

namespace nacre::front {
namespace {

constexpr std::size_t kLine = 160;
constexpr std::size_t kRanks = 60;

std::string date_of(double time) {
  auto seconds = static_cast<std::time_t>(time);
  std::tm parts{};
  std::array<char, 64> text{};
  ::localtime_r(&seconds, &parts);
  std::strftime(text.data(), text.size(), "%F %T", &parts);
  return text.data();
}

std::string ranks_text(const Json& each) {
  auto ranks = each.find("ranks");
  return ranks == each.end() || !ranks->is_string() ? "" : printable(ranks->get<std::string>(), kRanks);
}

std::string exits_text(const Json& exits) {
  if (exits.empty() || !exits.is_array()) return "";
  Table table({{"RECORD"}, {"TASKS", Table::Side::right}, {"RANKS"}});
  for (const Json& each : exits) {
    if (!each.is_object()) continue;
    table.add({printable(each.value("record", ""), kRanks), std::to_string(each.value("count", std::uint64_t{0})),
               ranks_text(each)});
  }
  return table.text(true);
}

}  // namespace

std::string head_of(const record::JobEntry& entry) {
  std::string notes;
  for (const std::string& each : entry.notes) notes += printable(each, kLine) + '\n';
  return fmt::format("job {} ({}): {} task{}, {} shell{}, leader on {}\ncommand: {}\n{} started\n",
                     entry.id.f58_plain(), printable(entry.name, kLine), entry.tasks, entry.tasks == 1 ? "" : "s",
                     entry.shells, entry.shells == 1 ? "" : "s", printable(entry.place.host, kLine),
                     printable(fmt::format("{}", fmt::join(entry.command, " ")), kLine), date_of(entry.started)) +
         notes;
}

std::string end_of(const record::JobEntry& entry, const std::optional<OtherCode>& other) {
  const record::EntryEnd& end = *entry.end;
  std::string how = end.vanished ? "vanished" : fmt::format("ended with exit code {}", end.code);
  std::string out = fmt::format("{} {}, {} after its start\n", date_of(end.time), how,
                                time_text(record::time_of(entry, {}, end.time)));
  if (other) out += fmt::format("policy {}: exit code {}\n", other->policy, other->code);
  if (!end.cause.empty()) out += fmt::format("because: {}\n", printable(end.cause, kLine));
  out += exits_text(end.exits);
  if (end.code != 0 && end.report.is_object()) out += exits::report_text(end.report);
  return out;
}

std::string progress_of(const record::JobEntry& entry, const Json& exits) {
  return fmt::format("runs since {}: ranks {}\n",
                     time_text(record::time_of(entry, record::own_witness(), event::wall_clock())),
                     printable(exits.value("running", ""), kRanks)) +
         exits_text(exits.value("exits", Json::array()));
}

}  // namespace nacre::front
