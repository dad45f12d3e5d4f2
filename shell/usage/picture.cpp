// SPDX-License-Identifier: Apache-2.0
#include "usage/picture.hpp"

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

#include <fmt/format.h>

#include "base/json.hpp"
#include "base/text.hpp"
#include "usage/measure.hpp"
#include "usage/table.hpp"

namespace nacre::usage {
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
  bool is_far = false;       // one of its ranks is far from the others
  bool is_known = true;
};

struct Panel {
  std::string heading;
  std::string below;  // what the bars are
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

  // What all ranks of a bar have is dark, what only some have is light.
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
