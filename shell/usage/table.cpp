// SPDX-License-Identifier: Apache-2.0
#include "usage/table.hpp"

#include "base/json.hpp"
#include "base/text.hpp"

namespace nacre::usage {
namespace {

constexpr std::size_t kLeastForOutliers = 5;  // values
constexpr double kLeastShare = 0.1;           // of the median: a smaller distance makes no outlier
constexpr const char* kOutliersLeftOut = "outliers_left_out";

// Changes the order of `values`. For an even number of values it is the mean of the two in the middle.
double median_of(std::vector<double>& values) {
  auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 != 0) return *middle;
  return std::midpoint(*std::max_element(values.begin(), middle), *middle);
}

struct Centre {
  double median = 0;
  double lower = 0;      // for an even number of values the lower one in the middle, otherwise the median
  double deviation = 0;  // the median absolute deviation
};

Centre centre_of(std::vector<double> values) {
  Centre out;
  out.median = median_of(values);
  auto lower = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
  std::nth_element(values.begin(), lower, values.end());
  out.lower = *lower;
  for (double& each : values) each = std::abs(each - out.median);
  out.deviation = median_of(values);
  return out;
}

// Where most values are equal the deviation is 0, so a value also has to be far off by itself.
bool is_outlier(double value, const Centre& centre, const Measure& measure) {
  double gap = std::abs(value - centre.median);
  return measure.least_gap > 0 && gap > kFarDeviations * centre.deviation && gap >= measure.least_gap &&
         gap > kLeastShare * centre.median;
}

Json json_of(const Spread::Extreme& extreme, const Hosts& hosts) {
  Json out{{"value", extreme.value}, {"rank", extreme.rank}, {"host", hosts.of_task(extreme.rank)}};
  if (extreme.is_bound) out["is_bound"] = true;
  return out;
}

Json histogram_of(const Spread& spread, const Measure& measure) {
  Json out = Json::array();
  for (std::size_t i = 0; i < Spread::kBuckets; ++i) {
    if (std::uint64_t count = spread.buckets().at(i); count > 0)
      out.push_back(Json::array({Spread::start_of(i, measure), count}));
  }
  return out;
}

// Rounds to four digits, which is enough for a picture, and short.
Json short_number(double value) {
  constexpr double kDigits = 1000;
  if (value <= 0) return 0;
  double step = std::pow(10, std::floor(std::log10(value))) / kDigits;
  double rounded = std::round(value / step) * step;
  if (step >= 1) return static_cast<std::uint64_t>(rounded);
  return std::round(rounded / step) / std::round(1 / step);
}

// The farthest first.
void sort_outliers(Json& outliers) {
  auto distance = [](const Json& each) {
    double median = each.at("median").get<double>();
    return std::abs(each.at("value").get<double>() - median) / std::max(median, 1e-6);
  };
  std::stable_sort(outliers.begin(), outliers.end(),
                   [&](const Json& one, const Json& other) { return distance(one) > distance(other); });
}

}  // namespace

void UsageTable::add(const UsageBatch& batch) {
  for (const TaskRow& each : batch.rows) rows_.emplace(each.rank, each);
  if (batch.node && !nodes_.emplace(batch.node->shell, *batch.node).second) return;
  if (batch.totals) totals_.merge(*batch.totals);
}

Totals UsageTable::totals() const {
  Totals out = totals_;
  for (const auto& [rank, row] : rows_) out.add(row);
  return out;
}

value::Idset UsageTable::ranks() const {
  value::Idset out;
  for (const auto& [rank, row] : rows_) out.insert(rank);
  return out;
}

Json UsageTable::measure(std::size_t number, const Spread& spread, const Hosts& hosts, Json& outliers) const {
  const Measure& measure = measures()[number];
  Json out{{"n", spread.count()},
           {"min", json_of(spread.min(), hosts)},
           {"max", json_of(spread.max(), hosts)},
           {"histogram", histogram_of(spread, measure)}};
  if (measure.has_sum()) out["sum"] = spread.sum();
  std::vector<double> values;
  std::optional<double> bound;  // the largest value that is only an upper bound
  for (const auto& [rank, row] : rows_) {
    if (!row.started) continue;
    auto value = measure.of(row);
    if (!value) continue;
    values.push_back(*value);
    if (measure.is_bound(row)) bound = std::max(bound.value_or(0), *value);
  }
  if (values.size() != spread.count()) {
    out["median_at_most"] = spread.median_at_most(measure);
    return out;
  }
  Centre centre = centre_of(std::move(values));
  out["median"] = centre.median;
  out["mad"] = centre.deviation;
  if (bound && *bound >= centre.lower) out["median_is_bound"] = true;
  if (spread.count() < kLeastForOutliers) return out;
  for (const auto& [rank, row] : rows_) {
    auto value = row.started ? measure.of(row) : std::nullopt;
    if (!value || !is_outlier(*value, centre, measure)) continue;
    outliers.push_back({{"measure", measure.name},
                        {"rank", rank},
                        {"host", hosts.of_task(rank)},
                        {"value", *value},
                        {"median", centre.median}});
  }
  return out;
}

// {"ranks": N, "max": [...]}: the largest of each N ranks, null if none is known; with "min" if N is above 1.
Json UsageTable::by_rank(const Measure& measure, std::uint64_t tasks, std::size_t cells) const {
  std::uint64_t width = std::max<std::uint64_t>(1, (tasks + cells - 1) / cells);
  std::vector<std::optional<std::pair<double, double>>> found((tasks + width - 1) / width);
  for (const auto& [rank, row] : rows_) {
    auto value = row.started ? measure.of(row) : std::nullopt;
    std::uint64_t cell = rank / width;
    if (!value || cell >= found.size()) continue;
    auto& of = found[cell];
    of = of ? std::pair(std::min(of->first, *value), std::max(of->second, *value)) : std::pair(*value, *value);
  }
  Json out{{"ranks", width}, {"max", Json::array()}};
  for (const auto& each : found) {
    out["max"].push_back(each ? short_number(each->second) : Json());
    if (width > 1) out["min"].push_back(each ? short_number(each->first) : Json());
  }
  return out;
}

Json UsageTable::summary(std::uint64_t tasks, const value::Idset& missing, const Hosts& hosts,
                         std::size_t cells) const {
  Totals all = totals();
  Json out{{"tasks", tasks}, {"ended", all.ended}, {"unstarted", all.unstarted}};
  if (!missing.empty()) out["missing"] = missing.str();
  Json outliers = Json::array();
  Json by_name = Json::object();
  for (std::size_t i = 0; i < kMeasures; ++i) {
    const Spread& spread = all.spreads.at(i);
    if (spread.count() == 0) continue;
    const Measure& of = measures()[i];
    Json& json = by_name[std::string(of.name)] = measure(i, spread, hosts, outliers);
    bool has_rows = json.contains("median");
    if (has_rows && of.least_gap > 0 && spread.max().value > 0) json["by_rank"] = by_rank(of, tasks, cells);
  }
  sort_outliers(outliers);
  if (outliers.size() > kMostOutliers) {
    out[kOutliersLeftOut] = outliers.size() - kMostOutliers;
    outliers.erase(outliers.begin() + kMostOutliers, outliers.end());
  }
  out["measures"] = std::move(by_name);
  out["outliers"] = std::move(outliers);
  out["nodes"] = Json::array();
  for (const auto& [shell, node] : nodes_) out["nodes"].push_back(node.json(hosts.of_shell(shell)));
  return out;
}

Json fitting_summary(Json summary, std::size_t most) {
  auto fits = [&] { return dump_json(summary).size() <= most; };
  if (fits()) return summary;
  for (Json& each : summary["measures"]) each.erase("by_rank");
  if (fits()) return summary;
  summary["shortened"] = true;
  for (Json& each : summary["measures"]) each.erase("histogram");
  for (Json& each : summary["nodes"]) each.erase("gpus");
  for (const char* part : {"nodes", "outliers", "missing", "measures"}) {
    if (fits()) break;
    summary.erase(part);
  }
  return summary;
}

namespace {

constexpr std::size_t kMostNodes = 32;   // that are shown
constexpr std::size_t kMostBlocks = 64;  // block characters of a line

using Cells = std::vector<std::string>;

// Aligns columns as wide as their widest cell: the first one to the left, the others to the right.
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

// A character for each cell, with a height in proportion to the largest value; a blank if none is known.
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

// Adds a cell behind each line of `text`. It is the last column because its characters have several bytes.
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
    // A row of zeros for what was never read or written tells nobody anything.
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

// A line for each task, with all values by which it is an outlier.
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

// ---- picture ----------------------------------------------------------------------------

namespace {

// All in pixels.
constexpr double kWidth = 960;
constexpr double kHead = 56;    // above the first panel
constexpr double kPanel = 170;  // from one panel to the next
constexpr double kLeft = 80, kRight = 20;
constexpr double kPlot = 100;      // the height of a panel's bars
constexpr double kPlotTop = 26;    // from the top of its panel: below its heading
constexpr double kMostBar = 48;    // the width of a bar
constexpr double kGapAbove = 5;    // wide bars have a gap between them
constexpr double kLabelRoom = 56;  // the width of a label below the bars
constexpr std::size_t kMostBars = kMostCells;

constexpr std::string_view kStyle =
    "text{font:12px sans-serif;fill:#222}.h{font-weight:bold}.s{font-size:11px;fill:#555}.t{font-size:14px}"
    ".g{stroke:#ccc;stroke-width:1}.m{stroke:#222;stroke-width:1;stroke-dasharray:4 3}"
    ".b{fill:#4477aa}.r{fill:#99bbdd}.f{fill:#cc3311}";

struct Bar {
  double low = 0, high = 0;  // low: of several ranks, the least
  std::string about;         // "rank 3"
  std::string label;         // below it, where there is room
  bool is_far = false;       // one of its ranks is an outlier
  bool is_known = true;
};

struct Panel {
  std::string heading;
  std::string below;  // the caption below the bars
  Unit unit = Unit::count;
  double most = 0;
  std::optional<double> median;
  std::vector<Bar> bars;
};

// Text as XML 1.0 allows it.
std::string xml(std::string_view text) {
  std::string out;
  for (char c : escape_controls(text)) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      case '\t': out += ' '; break;
      default: out += c;
    }
  }
  return out;
}

std::string heading_of(const Measure& measure, const Json& of) {
  auto part = [&](const char* name, std::string_view value, const std::string& who) {
    return fmt::format("{} {}{}", name, value, who.empty() ? "" : " (rank " + who + ")");
  };
  auto value_of = [&](const char* name) {
    const Json& extreme = member_in(of, name);
    return (member_in(extreme, "is_bound") == true ? "<=" : "") +
           value_text(number_in(extreme, "value").value_or(0), measure.unit);
  };
  std::string median;
  if (auto value = number_in(of, "median")) median = ", median " + value_text(*value, measure.unit);
  return fmt::format(": {}{}, {}", part("min", value_of("min"), who_in(member_in(of, "min"))), median,
                     part("max", value_of("max"), who_in(member_in(of, "max"))));
}

std::set<std::uint64_t> far_ranks(const Json& summary, std::string_view measure) {
  std::set<std::uint64_t> out;
  const Json& outliers = member_in(summary, "outliers");
  if (!outliers.is_array()) return out;
  for (const Json& each : outliers) {
    auto rank = number_in(each, "rank");
    if (rank && *rank >= 0 && text_in(each, "measure") == measure) out.insert(static_cast<std::uint64_t>(*rank));
  }
  return out;
}

// The measure by rank; no bars: the summary does not have it.
std::vector<Bar> bars_by_rank(const Json& of, double tasks, const std::set<std::uint64_t>& far) {
  std::vector<Bar> out;
  const Json& by_rank = member_in(of, "by_rank");
  const Json& most = member_in(by_rank, "max");
  const Json& least = member_in(by_rank, "min");
  auto width = static_cast<std::uint64_t>(std::clamp(number_in(by_rank, "ranks").value_or(0), 0.0, 1e9));
  if (!most.is_array() || most.size() > kMostBars || width == 0) return out;
  for (std::size_t i = 0; i < most.size(); ++i) {
    std::uint64_t first = i * width;
    auto last = std::min(first + width - 1, static_cast<std::uint64_t>(std::max(tasks - 1, 0.0)));
    Bar bar;
    bar.is_known = most[i].is_number();
    if (bar.is_known) bar.high = bar.low = std::max(0.0, most[i].get<double>());
    if (least.is_array() && i < least.size() && least[i].is_number())
      bar.low = std::clamp(least[i].get<double>(), 0.0, bar.high);
    bar.about = first >= last ? fmt::format("rank {}", first) : fmt::format("ranks {}-{}", first, last);
    bar.label = fmt::format("{}", first);
    auto next_far = far.lower_bound(first);
    bar.is_far = next_far != far.end() && *next_far <= last;
    out.push_back(std::move(bar));
  }
  return out;
}

std::vector<Bar> bars_by_value(const Json& of, Unit unit) {
  std::vector<Bar> out;
  const Json& histogram = member_in(of, "histogram");
  if (!histogram.is_array()) return out;
  for (const Json& each : histogram) {
    bool is_pair = each.is_array() && each.size() == 2 && each[0].is_number() && each[1].is_number();
    if (!is_pair || out.size() == Spread::kBuckets) continue;
    double start = std::max(0.0, each[0].get<double>());
    Bar bar;
    bar.high = bar.low = std::max(0.0, each[1].get<double>());
    bar.label = value_text(start, unit);
    bar.about = start > 0 ? fmt::format("from {} to {}", bar.label, value_text(2 * start, unit)) : "none";
    out.push_back(std::move(bar));
  }
  return out;
}

std::vector<Panel> panels_of(const Json& summary) {
  std::vector<Panel> out;
  double tasks = std::clamp(number_in(summary, "tasks").value_or(0), 0.0, 1e9);
  for (const Measure& measure : measures()) {
    const Json& of = member_in(member_in(summary, "measures"), measure.name);
    auto most = number_in(member_in(of, "max"), "value");
    if (!most || *most <= 0 || measure.least_gap <= 0) continue;
    Panel panel;
    panel.heading = std::string(measure.title) + heading_of(measure, of);
    panel.bars = bars_by_rank(of, tasks, far_ranks(summary, measure.name));
    panel.unit = measure.unit;
    panel.most = *most;
    panel.median = number_in(of, "median");
    panel.below = "rank";
    if (panel.bars.empty()) {
      panel.bars = bars_by_value(of, measure.unit);
      panel.unit = Unit::count;
      panel.median = std::nullopt;
      panel.most = 0;
      panel.below = "tasks by their value, from";
    }
    if (panel.bars.empty()) continue;
    for (const Bar& bar : panel.bars) panel.most = std::max(panel.most, bar.high);
    out.push_back(std::move(panel));
  }
  return out;
}

class Drawing {
 public:
  Drawing(std::string_view title, std::size_t panels) {
    double height = kHead + kPanel * static_cast<double>(std::max<std::size_t>(panels, 1));
    out_ = fmt::format(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" "
        "height=\"{1}\" viewBox=\"0 0 {0} {1}\" role=\"img\">\n<title>{2}</title>\n<style>{3}</style>\n"
        "<rect width=\"{0}\" height=\"{1}\" fill=\"#fff\"/>\n",
        kWidth, height, xml(title), kStyle);
    text(kLeft, 24, "t", title);
  }

  void text(double x, double y, std::string_view kind, std::string_view text, std::string_view anchor = "start") {
    out_ += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" class=\"{}\" text-anchor=\"{}\">{}</text>\n", x, y, kind,
                        anchor, xml(text));
  }

  void add(const Panel& panel) {
    double top = kHead + kPanel * static_cast<double>(count_++) + kPlotTop;
    out_ += "<g>\n";
    text(kLeft, top - 10, "h", panel.heading);
    constexpr int kLines = 2;
    for (int i = 0; i <= kLines; ++i) {
      double share = static_cast<double>(i) / kLines;
      double y = top + kPlot * (1 - share);
      line("g", kLeft, y, kWidth - kRight, y);
      text(kLeft - 6, y + 4, "s", value_text(panel.most * share, panel.unit), "end");
    }
    double step = std::min((kWidth - kLeft - kRight) / static_cast<double>(panel.bars.size()), kMostBar);
    auto each = static_cast<std::size_t>(std::ceil(kLabelRoom / step));
    for (std::size_t i = 0; i < panel.bars.size(); ++i) {
      double x = kLeft + step * static_cast<double>(i);
      add_bar(panel, panel.bars[i], x, step, top);
      if (i % each == 0) text(x + step / 2, top + kPlot + 15, "s", panel.bars[i].label, "middle");
    }
    text(kLeft - 6, top + kPlot + 15, "s", panel.below == "rank" ? panel.below : "", "end");
    if (panel.below != "rank") text(kWidth - kRight, top - 10, "s", panel.below, "end");
    if (panel.median && panel.most > 0) {
      double y = top + kPlot * (1 - std::clamp(*panel.median / panel.most, 0.0, 1.0));
      line("m", kLeft, y, kWidth - kRight, y);
    }
    out_ += "</g>\n";
  }

  [[nodiscard]] std::string finish() && { return std::move(out_) + "</svg>\n"; }

 private:
  void line(std::string_view kind, double x1, double y1, double x2, double y2) {
    out_ += fmt::format("<line class=\"{}\" x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\"/>\n", kind, x1,
                        y1, x2, y2);
  }

  // The part of a bar that all its ranks reach is dark, the rest is light.
  void add_bar(const Panel& panel, const Bar& bar, double x, double step, double top) {
    if (!bar.is_known || panel.most <= 0) return;
    double width = step > kGapAbove ? step - 1 : step;
    double low = kPlot * bar.low / panel.most;
    double high = kPlot * bar.high / panel.most;
    std::string value = value_text(bar.high, panel.unit);
    if (bar.low != bar.high) value = fmt::format("{} to {}", value_text(bar.low, panel.unit), value);
    out_ += fmt::format("<g><title>{}: {}</title>", xml(bar.about), value);
    if (bar.high > bar.low) add_rect(bar.is_far ? "f" : "r", x, top + kPlot - high, width, high - low);
    add_rect(bar.is_far && bar.high == bar.low ? "f" : "b", x, top + kPlot - low, width, low);
    out_ += "</g>\n";
  }

  void add_rect(std::string_view kind, double x, double y, double width, double height) {
    out_ += fmt::format("<rect class=\"{}\" x=\"{:.2f}\" y=\"{:.2f}\" width=\"{:.2f}\" height=\"{:.2f}\"/>", kind,
                        x, y, width, height);
  }

  std::string out_;
  std::size_t count_ = 0;
};

}  // namespace

std::string svg_of(const Json& summary, std::string_view title) {
  std::vector<Panel> panels = panels_of(summary);
  Drawing drawing(title, panels.size());
  auto count = [&](std::string_view name) { return number_in(summary, name).value_or(0); };
  std::string legend = fmt::format("{:.0f} of {:.0f} tasks ended", count("ended"), count("tasks"));
  if (!panels.empty())
    legend += "; dashed: the median; red: far from the others; light: only some of a bar's ranks";
  drawing.text(kLeft, 44, "s", legend);
  if (panels.empty()) drawing.text(kLeft, kHead + kPlotTop, "h", "nothing has been measured yet");
  for (const Panel& each : panels) drawing.add(each);
  return std::move(drawing).finish();
}

}  // namespace nacre::usage
