// SPDX-License-Identifier: Apache-2.0
#include "usage/text.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <vector>

#include <fmt/format.h>

#include "base/json.hpp"
#include "usage/measure.hpp"

namespace nacre::usage {
namespace {

constexpr std::size_t kMostNodes = 32;  // that are shown
constexpr std::size_t kMostText = 200;  // bytes of a host's name, and of a set of ranks

std::optional<double> number(const Json& object, std::string_view name) {
  if (!object.is_object()) return std::nullopt;
  auto found = object.find(name);
  return found != object.end() && found->is_number() ? std::optional(found->get<double>()) : std::nullopt;
}

// Without bytes that a terminal would take for commands.
std::string text(const Json& object, std::string_view name) {
  if (!object.is_object()) return "";
  auto found = object.find(name);
  if (found == object.end() || !found->is_string()) return "";
  std::string out = found->get<std::string>().substr(0, kMostText);
  std::replace_if(
      out.begin(), out.end(), [](unsigned char c) { return c < ' ' || c == 0x7f; }, '?');
  return out;
}

const Json& member(const Json& object, std::string_view name) {
  static const Json kNone;
  if (!object.is_object()) return kNone;
  auto found = object.find(name);
  return found == object.end() ? kNone : *found;
}

std::string with_units(double value, double step, std::string_view units) {
  if (value < step) return fmt::format("{:.0f}", value);
  std::size_t unit = 0;
  for (value /= step; value >= step && unit + 1 < units.size(); ++unit) value /= step;
  return fmt::format("{:.1f}{}", value, units[unit]);
}

std::string value_text(double value, Unit unit) {
  constexpr double kBinary = 1024;
  constexpr double kDecimal = 1000;
  constexpr double kMinute = 60;
  constexpr double kHour = 3600;
  if (unit == Unit::bytes) return with_units(value, kBinary, "KMGTPE");
  if (unit == Unit::count)
    return value < 10 * kDecimal ? fmt::format("{:.0f}", value) : with_units(value, kDecimal, "kMGTPE");
  if (value < kMinute) return fmt::format("{:.{}f}s", value, value < 10 ? 3 : 1);
  if (value < 10 * kMinute) return fmt::format("{:.1f}m", value / kMinute);
  return fmt::format("{:.1f}h", value / kHour);
}

using Cells = std::vector<std::string>;

// Columns as wide as their widest cell; the first one is on the left, the others on the right.
std::string aligned(const std::vector<Cells>& rows, std::string_view prefix) {
  std::vector<std::size_t> widths;
  for (const Cells& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string out;
  for (const Cells& row : rows) {
    std::string line(prefix);
    for (std::size_t i = 0; i < row.size(); ++i)
      line += i == 0 ? fmt::format("{:<{}}", row[i], widths[i]) : fmt::format("  {:>{}}", row[i], widths[i]);
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + '\n';
  }
  return out;
}

std::string who(const Json& extreme) {
  auto rank = number(extreme, "rank");
  std::string host = text(extreme, "host");
  if (!rank) return "";
  return fmt::format("{:.0f}{}", *rank, host.empty() ? "" : " on " + host);
}

std::string extreme_text(const Json& extreme, Unit unit) {
  auto value = number(extreme, "value");
  if (!value) return "";
  return (member(extreme, "is_bound") == true ? "<=" : "") + value_text(*value, unit);
}

std::string median_text(const Json& measure, Unit unit) {
  if (auto median = number(measure, "median"))
    return (member(measure, "median_is_bound") == true ? "<=" : "") + value_text(*median, unit);
  auto bound = number(measure, "median_at_most");
  return bound ? "<=" + value_text(*bound, unit) : "";
}

std::string head_of(const Json& summary) {
  auto count = [&](std::string_view name) { return number(summary, name).value_or(0); };
  std::string out = fmt::format("usage: {:.0f} of {:.0f} task{} ended", count("ended"), count("tasks"),
                                count("tasks") == 1 ? "" : "s");
  if (auto cpu = number(member(member(summary, "measures"), "cpu"), "sum"))
    out += fmt::format(", {} of cpu time", value_text(*cpu, Unit::seconds));
  if (double unstarted = count("unstarted"); unstarted > 0)
    out += fmt::format("; {:.0f} could not be started", unstarted);
  if (std::string missing = text(summary, "missing"); !missing.empty())
    out += fmt::format("; not known, as their shell is lost or late: {}", missing);
  return out + '\n';
}

std::string measures_text(const Json& summary, std::string_view prefix) {
  const Json& all = member(summary, "measures");
  std::vector<Cells> rows;
  for (const Measure& each : measures()) {
    const Json& of = member(all, each.name);
    auto most = number(member(of, "max"), "value");
    if (each.title.empty() || !most) continue;
    // Nothing read, nothing written: a row of zeros informs nobody.
    bool is_core = each.name == "wall" || each.name == "cpu" || each.is_peak;
    if (*most == 0 && !is_core) continue;
    rows.push_back({std::string(each.title), extreme_text(member(of, "min"), each.unit), who(member(of, "min")),
                    median_text(of, each.unit), extreme_text(member(of, "max"), each.unit),
                    who(member(of, "max"))});
  }
  if (rows.empty()) return "";
  rows.insert(rows.begin(), {"", "MIN", "RANK", "MEDIAN", "MAX", "RANK"});
  return aligned(rows, prefix);
}

// A line for each task, of all that it is far off in.
std::string outliers_text(const Json& summary, std::string_view prefix) {
  const Json& outliers = member(summary, "outliers");
  if (!outliers.is_array()) return "";
  std::vector<std::pair<std::string, std::string>> lines;  // the task, and its values
  for (const Json& each : outliers) {
    std::string name = text(each, "measure");
    auto found =
        std::find_if(measures().begin(), measures().end(), [&](const Measure& of) { return of.name == name; });
    auto value = number(each, "value");
    auto median = number(each, "median");
    if (found == measures().end() || !value || !median) continue;
    std::string task = who(each);
    auto line = std::find_if(lines.begin(), lines.end(), [&](const auto& of) { return of.first == task; });
    if (line == lines.end()) line = lines.insert(lines.end(), {task, ""});
    line->second += fmt::format("{}{} {} (median {})", line->second.empty() ? "" : ", ", found->title,
                                value_text(*value, found->unit), value_text(*median, found->unit));
  }
  std::string out;
  for (const auto& [task, values] : lines)
    out += fmt::format("{}far from the others: task {}: {}\n", prefix, task, values);
  if (auto more = number(summary, "outliers_left_out"))
    out += fmt::format("{}and {:.0f} more values far from the others\n", prefix, *more);
  return out;
}

std::string nodes_text(const Json& summary, std::string_view prefix) {
  const Json& nodes = member(summary, "nodes");
  if (!nodes.is_array() || nodes.empty()) return "";
  std::vector<Cells> rows{{"NODE", "TASKS", "CPU", "MEMORY PEAK", "OOM KILLS"}};
  for (const Json& each : nodes) {
    if (rows.size() > kMostNodes) break;
    auto peak = number(each, "memory_peak");
    auto kills = number(each, "oom_kills");
    std::string host = text(each, "host");
    rows.push_back({host.empty() ? fmt::format("shell {:.0f}", number(each, "shell").value_or(0)) : host,
                    fmt::format("{:.0f}", number(each, "tasks").value_or(0)),
                    value_text(number(each, "cpu").value_or(0), Unit::seconds),
                    peak ? value_text(*peak, Unit::bytes) : "-", kills ? fmt::format("{:.0f}", *kills) : "-"});
  }
  std::string out = aligned(rows, prefix);
  if (nodes.size() > kMostNodes) out += fmt::format("{}and {} more nodes\n", prefix, nodes.size() - kMostNodes);
  return out;
}

std::string end_text(const Json& row) {
  if (auto signum = number(row, "signal")) return fmt::format("s{:.0f}", *signum);
  return fmt::format("{}{:.0f}", member(row, "started").is_null() ? "f" : "x", number(row, "code").value_or(0));
}

}  // namespace

std::string summary_text(const Json& summary, std::string_view prefix) {
  std::string out(prefix);
  out += head_of(summary) + measures_text(summary, prefix) + outliers_text(summary, prefix) +
         nodes_text(summary, prefix);
  if (member(summary, "shortened") == true)
    out += fmt::format("{}(shortened: it was too long to be kept)\n", prefix);
  return out;
}

std::string rows_text(const Json& rows) {
  std::vector<Cells> table{{"RANK", "HOST", "END", "TIME", "USER", "SYSTEM", "MAX RSS", "MAJOR FAULTS", "READ",
                            "WRITTEN", "STDOUT", "STDERR"}};
  if (!rows.is_array()) return "";
  for (const Json& each : rows) {
    auto cell = [&](std::string_view name, Unit unit) {
      auto value = number(each, name);
      return value ? value_text(*value, unit) : "-";
    };
    std::string bound = member(each, "maxrss_is_bound") == true ? "<=" : "";
    table.push_back({fmt::format("{:.0f}", number(each, "rank").value_or(0)), text(each, "host"), end_text(each),
                     cell("wall", Unit::seconds), cell("user", Unit::seconds), cell("system", Unit::seconds),
                     bound + cell("maxrss", Unit::bytes), cell("major_faults", Unit::count),
                     cell("read_chars", Unit::bytes), cell("written_chars", Unit::bytes),
                     cell("stdout", Unit::bytes), cell("stderr", Unit::bytes)});
  }
  return aligned(table, "");
}

}  // namespace nacre::usage
