// SPDX-License-Identifier: Apache-2.0
#include "usage/text.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <vector>

#include <fmt/format.h>

#include "base/json.hpp"
#include "base/text.hpp"
#include "usage/measure.hpp"

namespace nacre::usage {
namespace {

constexpr std::size_t kMostNodes = 32;   // that are shown
constexpr std::size_t kMostBlocks = 64;  // block characters of a line

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

std::string extreme_text(const Json& extreme, Unit unit) {
  auto value = number_in(extreme, "value");
  if (!value) return "";
  return (member_in(extreme, "is_bound") == true ? "<=" : "") + value_text(*value, unit);
}

std::string median_text(const Json& measure, Unit unit) {
  if (auto median = number_in(measure, "median"))
    return (member_in(measure, "median_is_bound") == true ? "<=" : "") + value_text(*median, unit);
  auto bound = number_in(measure, "median_at_most");
  return bound ? "<=" + value_text(*bound, unit) : "";
}

std::string head_of(const Json& summary) {
  auto count = [&](std::string_view name) { return number_in(summary, name).value_or(0); };
  std::string out = fmt::format("usage: {:.0f} of {:.0f} task{} ended", count("ended"), count("tasks"),
                                count("tasks") == 1 ? "" : "s");
  auto cpu = is_unmeasured(summary) ? number_in(summary, "cpu")
                                    : number_in(member_in(member_in(summary, "measures"), "cpu"), "sum");
  if (cpu) out += fmt::format(", {} of cpu time", value_text(*cpu, Unit::seconds));
  if (auto most = number_in(summary, "maxrss"))
    out += fmt::format(", max RSS of the largest {}{}", member_in(summary, "maxrss_is_bound") == true ? "<=" : "",
                       value_text(*most, Unit::bytes));
  if (double unstarted = count("unstarted"); unstarted > 0)
    out += fmt::format("; {:.0f} could not be started", unstarted);
  if (std::string missing = text_in(summary, "missing"); !missing.empty())
    out += fmt::format("; not known, as their shell is lost or late: {}", missing);
  return out + '\n';
}

// A character for each cell, as high as the value to the largest one; a blank where none is known.
std::string blocks_of(const Json& measure) {
  constexpr std::array<const char*, 8> kBlocks = {"\u2581", "\u2582", "\u2583", "\u2584",
                                                  "\u2585", "\u2586", "\u2587", "\u2588"};
  const Json& cells = member_in(member_in(measure, "by_rank"), "max");
  double most = number_in(member_in(measure, "max"), "value").value_or(0);
  if (!cells.is_array() || cells.size() > kMostBlocks || most <= 0) return "";
  std::string out;
  for (const Json& each : cells) {
    double height = each.is_number() ? std::clamp(each.get<double>() / most, 0.0, 1.0) : 0;
    auto eighths = static_cast<std::size_t>(std::ceil(height * kBlocks.size()));
    out += !each.is_number() ? " " : kBlocks.at(std::max<std::size_t>(eighths, 1) - 1);
  }
  return out;
}

std::string blocks_title(const Json& summary) {
  auto tasks = number_in(summary, "tasks").value_or(0);
  return tasks > 1 ? fmt::format("RANKS 0-{:.0f}", tasks - 1) : "RANK 0";
}

// Each line of `text` with a cell behind it. Cells have several bytes a character, and nothing comes behind them.
std::string with_last_column(std::string_view text, const std::vector<std::string>& cells) {
  std::vector<std::string_view> lines = split(text.substr(0, text.size() - 1), '\n');
  std::size_t width = 0;
  for (std::string_view line : lines) width = std::max(width, line.size());
  std::string out;
  for (std::size_t i = 0; i < lines.size(); ++i)
    out +=
        cells[i].empty() ? fmt::format("{}\n", lines[i]) : fmt::format("{:<{}}  {}\n", lines[i], width, cells[i]);
  return out;
}

std::string measures_text(const Json& summary, std::string_view prefix, bool has_blocks) {
  const Json& all = member_in(summary, "measures");
  std::vector<Cells> rows;
  std::vector<std::string> blocks;  // of the rows
  for (const Measure& each : measures()) {
    const Json& of = member_in(all, each.name);
    auto most = number_in(member_in(of, "max"), "value");
    if (each.title.empty() || !most) continue;
    // Nothing read, nothing written: a row of zeros informs nobody.
    bool is_core = each.name == "wall" || each.name == "cpu" || each.is_peak;
    if (*most == 0 && !is_core) continue;
    rows.push_back({std::string(each.title), extreme_text(member_in(of, "min"), each.unit),
                    who_in(member_in(of, "min")), median_text(of, each.unit),
                    extreme_text(member_in(of, "max"), each.unit), who_in(member_in(of, "max"))});
    blocks.push_back(has_blocks ? blocks_of(of) : "");
  }
  if (rows.empty()) return "";
  rows.insert(rows.begin(), {"", "MIN", "RANK", "MEDIAN", "MAX", "RANK"});
  std::string out = aligned(rows, prefix);
  if (std::all_of(blocks.begin(), blocks.end(), [](const std::string& each) { return each.empty(); })) return out;
  blocks.insert(blocks.begin(), blocks_title(summary));
  return with_last_column(out, blocks);
}

// A line for each task, of all that it is far off in.
std::string outliers_text(const Json& summary, std::string_view prefix) {
  const Json& outliers = member_in(summary, "outliers");
  if (!outliers.is_array()) return "";
  std::vector<std::pair<std::string, std::string>> lines;  // the task, and its values
  for (const Json& each : outliers) {
    std::string name = text_in(each, "measure");
    auto found =
        std::find_if(measures().begin(), measures().end(), [&](const Measure& of) { return of.name == name; });
    auto value = number_in(each, "value");
    auto median = number_in(each, "median");
    if (found == measures().end() || !value || !median) continue;
    std::string task = who_in(each);
    auto line = std::find_if(lines.begin(), lines.end(), [&](const auto& of) { return of.first == task; });
    if (line == lines.end()) line = lines.insert(lines.end(), {task, ""});
    line->second += fmt::format("{}{} {} (median {})", line->second.empty() ? "" : ", ", found->title,
                                value_text(*value, found->unit), value_text(*median, found->unit));
  }
  std::string out;
  for (const auto& [task, values] : lines)
    out += fmt::format("{}far from the others: task {}: {}\n", prefix, task, values);
  if (auto more = number_in(summary, "outliers_left_out"))
    out += fmt::format("{}and {:.0f} more values far from the others\n", prefix, *more);
  return out;
}

std::string nodes_text(const Json& summary, std::string_view prefix) {
  const Json& nodes = member_in(summary, "nodes");
  if (!nodes.is_array() || nodes.empty()) return "";
  std::vector<Cells> rows{{"NODE", "TASKS", "CPU", "MEMORY PEAK", "OOM KILLS"}};
  for (const Json& each : nodes) {
    if (rows.size() > kMostNodes) break;
    auto peak = number_in(each, "memory_peak");
    auto kills = number_in(each, "oom_kills");
    std::string host = text_in(each, "host");
    rows.push_back({host.empty() ? fmt::format("shell {:.0f}", number_in(each, "shell").value_or(0)) : host,
                    fmt::format("{:.0f}", number_in(each, "tasks").value_or(0)),
                    value_text(number_in(each, "cpu").value_or(0), Unit::seconds),
                    peak ? value_text(*peak, Unit::bytes) : "-", kills ? fmt::format("{:.0f}", *kills) : "-"});
  }
  std::string out = aligned(rows, prefix);
  if (nodes.size() > kMostNodes) out += fmt::format("{}and {} more nodes\n", prefix, nodes.size() - kMostNodes);
  return out;
}

// A row for each device of all nodes, if they were asked for.
std::string gpus_text(const Json& summary, std::string_view prefix) {
  const Json& nodes = member_in(summary, "nodes");
  if (!nodes.is_array()) return "";
  std::vector<Cells> rows;
  std::size_t more = 0;
  for (const Json& node : nodes) {
    const Json& gpus = member_in(node, "gpus");
    if (!gpus.is_array()) continue;
    for (const Json& each : gpus) {
      if (rows.size() == kMostNodes) {
        ++more;
        continue;
      }
      auto cell = [&](std::string_view name, Unit unit) {
        auto value = number_in(each, name);
        return value ? value_text(*value, unit) : "-";
      };
      rows.push_back({text_in(node, "host"),
                      fmt::format("{} {:.0f}", text_in(each, "vendor"), number_in(each, "index").value_or(0)),
                      cell("memory_peak", Unit::bytes), cell("memory", Unit::bytes), cell("use", Unit::share)});
    }
  }
  if (rows.empty()) return "";
  rows.insert(rows.begin(), {"NODE", "GPU", "MEMORY PEAK", "OF", "DEVICE USE"});
  std::string out = aligned(rows, prefix);
  if (more > 0) out += fmt::format("{}and {} more GPUs\n", prefix, more);
  return out;
}

std::string end_text(const Json& row) {
  if (auto signum = number_in(row, "signal")) return fmt::format("s{:.0f}", *signum);
  return fmt::format("{}{:.0f}", member_in(row, "started").is_null() ? "f" : "x",
                     number_in(row, "code").value_or(0));
}

}  // namespace

bool is_unmeasured(const Json& summary) { return number_in(summary, "cpu").has_value(); }

std::string summary_text(const Json& summary, std::string_view prefix, bool has_blocks) {
  std::string out(prefix);
  out += head_of(summary) + measures_text(summary, prefix, has_blocks) + outliers_text(summary, prefix) +
         nodes_text(summary, prefix) + gpus_text(summary, prefix);
  if (is_unmeasured(summary))
    out += fmt::format("{}more is known of a job that is started with --usage, or -o usage\n", prefix);
  if (member_in(summary, "shortened") == true)
    out += fmt::format("{}(shortened: it was too long to be kept)\n", prefix);
  return out;
}

std::string rows_text(const Json& rows) {
  std::vector<Cells> table{{"RANK", "HOST", "END", "TIME", "USER", "SYSTEM", "MAX RSS", "MAJOR FAULTS", "READ",
                            "WRITTEN", "STDOUT", "STDERR"}};
  if (!rows.is_array()) return "";
  bool has_gpus = std::any_of(rows.begin(), rows.end(), [](const Json& each) {
    return number_in(each, "gpu_memory") || number_in(each, "gpu_device_use");
  });
  if (has_gpus) table[0].insert(table[0].end(), {"GPU MEMORY", "GPU DEVICE USE"});
  for (const Json& each : rows) {
    auto cell = [&](std::string_view name, Unit unit) {
      auto value = number_in(each, name);
      return value ? value_text(*value, unit) : "-";
    };
    std::string bound = member_in(each, "maxrss_is_bound") == true ? "<=" : "";
    table.push_back({fmt::format("{:.0f}", number_in(each, "rank").value_or(0)), text_in(each, "host"),
                     end_text(each), cell("wall", Unit::seconds), cell("user", Unit::seconds),
                     cell("system", Unit::seconds), bound + cell("maxrss", Unit::bytes),
                     cell("major_faults", Unit::count), cell("read_chars", Unit::bytes),
                     cell("written_chars", Unit::bytes), cell("stdout", Unit::bytes), cell("stderr", Unit::bytes)});
    if (!has_gpus) continue;
    table.back().push_back(cell("gpu_memory", Unit::bytes));
    table.back().push_back(cell("gpu_device_use", Unit::share));
  }
  return aligned(table, "");
}

}  // namespace nacre::usage
