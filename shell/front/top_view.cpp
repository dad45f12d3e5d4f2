// SPDX-License-Identifier: Apache-2.0
#include "front/top_view.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "base/text.hpp"
#include "front/table.hpp"
#include "value/duration.hpp"

namespace nacre::front {
namespace {

constexpr std::size_t kTopHostWidth = 24;
constexpr std::size_t kTopNameWidth = 32;
constexpr std::size_t kTopCommandWidth = 32;
constexpr std::size_t kTopNoteWidth = 200;
constexpr std::size_t kAboveRows = 3;  // lines: two of header, the headings
constexpr std::size_t kBesideRows = kAboveRows + 1;

std::string cpu_text(double cpu) { return fmt::format("{:.1f}", cpu * 100); }

constexpr std::size_t kBehindNodeRss = 4;  // cells
constexpr std::size_t kBehindTaskRss = 7;

double tasks_or_time(const TopNode& node) { return static_cast<double>(node.tasks); }
double tasks_or_time(const PsTask& task) { return task.time; }

std::size_t page_of(std::size_t height) { return height > kBesideRows ? height - kBesideRows : 1; }

}  // namespace

Result<double> parse_delay(std::string_view text) {
  auto duration = value::Duration::parse(text);
  bool fits = duration && duration->seconds() >= TopView::kLeastDelay && duration->seconds() <= TopView::kMostDelay;
  if (fits) return duration->seconds();
  return invalid(
      fmt::format("{}: expected {} to {} seconds", in_quotes(text), TopView::kLeastDelay, TopView::kMostDelay));
}

std::vector<TopLine> TopView::header(const TopModel& model) const {
  using Style = TopLine::Style;
  const TopStatus& status = model.status();
  std::vector<std::string> late;
  for (const TopNode& each : model.nodes()) {
    if (each.late) late.push_back(printable(each.host, kTopHostWidth));
  }
  std::string first = fmt::format("nacre top: {} {}  {}  {}  {} node{}", printable(status.id, kTopNameWidth),
                                  printable(status.name, kTopNameWidth), status.ending ? "ending" : "running",
                                  time_text(model.time()), status.nodes(), status.nodes() == 1 ? "" : "s");
  std::uint64_t over = status.tasks - std::min(status.tasks, status.running);
  std::string second =
      fmt::format("tasks {}: {} running, {} failed, {} ended  cpu {}%  rss {}", status.tasks, status.running,
                  model.failed(), over, cpu_text(model.cpu()), size_text(model.rss()));
  if (!late.empty()) second += fmt::format("  late: {}", fmt::join(late, ","));
  for (const std::string& each : model.notes()) second += "  gpu: " + printable(each, kTopNoteWidth);
  bool is_bad = model.failed() > 0 || !late.empty() || !model.notes().empty();
  return {{first, Style::title}, {second, is_bad ? Style::alarm : Style::plain}};
}

// The largest first.
template <typename Each>
void TopView::sort(std::vector<Each>& rows) const {
  auto value = [this](const Each& row) {
    if (sort_ == Sort::cpu) return row.cpu;
    if (sort_ == Sort::rss) return row.rss;
    if (sort_ == Sort::gpu_memory) return row.gpu_memory.value_or(-1);
    return sort_ == Sort::tasks_or_time ? tasks_or_time(row) : 0;
  };
  std::stable_sort(rows.begin(), rows.end(), [&](const Each& a, const Each& b) { return value(a) > value(b); });
}

template <typename Each>
void TopView::put_gpu(const Each& row, std::vector<std::string>& cells, std::size_t behind) const {
  if (!with_gpus_) return;
  cells.insert(cells.begin() + static_cast<std::ptrdiff_t>(behind),
               {row.gpu_memory ? size_text(*row.gpu_memory) : "-",
                row.gpu_device_use ? cpu_text(*row.gpu_device_use) : "-"});
}

void TopView::next_sort() {
  sort_ = sort_ == Sort::tasks_or_time ? Sort::order : static_cast<Sort>(static_cast<int>(sort_) + 1);
  if (sort_ == Sort::gpu_memory && !with_gpus_) sort_ = Sort::tasks_or_time;
}

std::vector<TopView::Row> TopView::node_rows(const TopModel& model) const {
  std::vector<TopNode> nodes = model.nodes();
  sort(nodes);
  std::vector<Row> out;
  for (const TopNode& each : nodes) {
    out.push_back({each.shell,
                   each.late.has_value(),
                   {printable(each.host, kTopHostWidth), std::to_string(each.tasks), cpu_text(each.cpu),
                    size_text(each.rss), each.late ? time_text(*each.late) : "-"}});
    put_gpu(each, out.back().cells, kBehindNodeRss);
  }
  return out;
}

std::vector<TopView::Row> TopView::task_rows(const TopModel& model) const {
  std::vector<PsTask> tasks;
  for (const PsTask& each : model.tasks()) {
    if (rows_ == Rows::tasks || each.shell == node_) tasks.push_back(each);
  }
  sort(tasks);
  std::set<std::uint32_t> late;
  for (const TopNode& each : model.nodes()) {
    if (each.late) late.insert(each.shell);
  }
  std::vector<Row> out;
  for (const PsTask& each : tasks) {
    out.push_back({each.rank,
                   late.contains(each.shell),
                   {std::to_string(each.rank), printable(each.host, kTopHostWidth), std::to_string(each.pid),
                    printable(each.state, 2), time_text(each.time), cpu_text(each.cpu), size_text(each.rss),
                    printable(each.command, kTopCommandWidth)}});
    put_gpu(each, out.back().cells, kBehindTaskRss);
  }
  return out;
}

std::vector<TopView::Row> TopView::rows(const TopModel& model) const {
  return rows_ == Rows::nodes ? node_rows(model) : task_rows(model);
}

std::vector<std::string> TopView::table(const std::vector<Row>& rows) const {
  using Side = Table::Side;
  using Columns = std::vector<Table::Column>;
  bool is_nodes = rows_ == Rows::nodes;
  Columns columns = is_nodes ? Columns{{"HOST"},
                                       {"TASKS", Side::right},
                                       {"CPU%", Side::right},
                                       {"RSS", Side::right},
                                       {"LATE", Side::right}}
                             : Columns{{"RANK", Side::right}, {"HOST"},
                                       {"PID", Side::right},  {"ST"},
                                       {"TIME", Side::right}, {"CPU%", Side::right},
                                       {"RSS", Side::right},  {"CMD"}};
  if (with_gpus_) {
    auto behind = columns.begin() + (is_nodes ? kBehindNodeRss : kBehindTaskRss);
    columns.insert(behind, {{"GPUMEM", Side::right}, {"GPU%", Side::right}});
  }
  Table out(std::move(columns));
  for (const Row& each : rows) out.add(each.cells);
  std::vector<std::string> lines;
  std::string text = out.text(true);
  for (std::string_view each : split(text, '\n')) lines.emplace_back(each);
  lines.resize(rows.size() + 1);
  return lines;
}

std::string TopView::sort_name() const {
  switch (sort_) {
    case Sort::cpu: return "CPU%";
    case Sort::rss: return "RSS";
    case Sort::gpu_memory: return "GPUMEM";
    case Sort::tasks_or_time: return rows_ == Rows::nodes ? "TASKS" : "TIME";
    default: return rows_ == Rows::nodes ? "HOST" : "RANK";
  }
}

std::string TopView::hint() const {
  if (prompt_)
    return fmt::format("seconds from one look to the next ({} to {}): {}_", kLeastDelay, kMostDelay, *prompt_);
  if (!message_.empty()) return message_;
  if (waiting_) return fmt::format("the leader has not answered for {}", time_text(*waiting_));
  std::string where = rows_ == Rows::nodes           ? "enter: tasks"
                      : rows_ == Rows::tasks_of_node ? fmt::format("tasks of {}, q: nodes", node_name_)
                                                     : "all tasks";
  return fmt::format("{}  s: by {}  d: every {:g} s{}", where, sort_name(), delay_,
                     rows_ == all_ ? "  q: quit" : "");
}

std::size_t TopView::selected(const std::vector<Row>& rows) const {
  if (rows.empty()) return 0;
  if (key_) {
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (rows[i].key == *key_) return i;
    }
  }
  return std::min(index_, rows.size() - 1);
}

std::vector<TopLine> TopView::screen(const TopModel& model, std::size_t width, std::size_t height) {
  using Style = TopLine::Style;
  std::vector<TopLine> out;
  if (!model.empty()) {
    out = header(model);
    std::vector<Row> rows = this->rows(model);
    std::vector<std::string> lines = table(rows);
    index_ = selected(rows);
    if (!rows.empty()) key_ = rows[index_].key;
    std::size_t page = page_of(height);
    first_ = std::min(first_, rows.size() > page ? rows.size() - page : 0);
    first_ = std::clamp(first_, index_ >= page ? index_ - page + 1 : 0, index_);
    out.push_back({lines[0], Style::heading});
    for (std::size_t i = first_; i < std::min(rows.size(), first_ + page); ++i)
      out.push_back({lines[i + 1], i == index_ ? Style::selected : rows[i].is_late ? Style::alarm : Style::plain});
  }
  if (height > kBesideRows || prompt_) {
    if (height > 0) out.resize(height - 1);
    out.push_back({hint(), Style::hint});
  }
  out.resize(std::min(out.size(), height));
  for (TopLine& each : out) each.text.resize(std::min(each.text.size(), width));
  return out;
}

std::string TopView::text(const TopModel& model) const {
  std::string out;
  for (const TopLine& each : header(model)) out += each.text + '\n';
  for (const std::string& each : table(rows(model))) out += each + '\n';
  return out;
}

bool TopView::press(TopKey key, const TopModel& model, std::size_t height) {
  using Kind = TopKey::Kind;
  message_.clear();
  if (prompt_) {
    press_in_prompt(key);
    return true;
  }
  auto page = static_cast<std::ptrdiff_t>(page_of(height));
  auto all = static_cast<std::ptrdiff_t>(rows(model).size());
  switch (key.kind) {
    case Kind::up: move(-1, model); break;
    case Kind::down: move(1, model); break;
    case Kind::page_up: move(-page, model); break;
    case Kind::page_down: move(page, model); break;
    case Kind::home: move(-all, model); break;
    case Kind::end: move(all, model); break;
    case Kind::enter: enter(model); break;
    case Kind::back:
      if (rows_ != all_) leave();
      break;
    case Kind::erase: break;
    case Kind::text: return press_letter(key.letter, model);
  }
  return true;
}

bool TopView::press_letter(char letter, const TopModel& model) {
  switch (letter) {
    case 'k': move(-1, model); break;
    case 'j': move(1, model); break;
    case 's': next_sort(); break;
    case 'd': prompt_.emplace(); break;
    case 'q': return leave();
    default: message_ = "keys: j k arrows, enter: tasks of the node, s: sort, d: delay, q: leave"; break;
  }
  return true;
}

void TopView::press_in_prompt(TopKey key) {
  constexpr std::size_t kMostDigits = 8;
  using Kind = TopKey::Kind;
  if (key.kind == Kind::back) return prompt_.reset();
  if (key.kind == Kind::erase && !prompt_->empty()) return prompt_->pop_back();
  bool is_digit = key.kind == Kind::text && (key.letter == '.' || (key.letter >= '0' && key.letter <= '9'));
  if (is_digit && prompt_->size() < kMostDigits) return prompt_->push_back(key.letter);
  if (key.kind != Kind::enter) return;
  std::string typed = *std::exchange(prompt_, std::nullopt);
  if (typed.empty()) return;
  auto delay = parse_delay(typed);
  if (!delay) message_ = delay.error().message;
  if (delay) delay_ = *delay;
}

void TopView::move(std::ptrdiff_t by, const TopModel& model) {
  std::vector<Row> rows = this->rows(model);
  if (rows.empty()) return;
  auto last = static_cast<std::ptrdiff_t>(rows.size()) - 1;
  index_ = static_cast<std::size_t>(
      std::clamp<std::ptrdiff_t>(static_cast<std::ptrdiff_t>(selected(rows)) + by, 0, last));
  key_ = rows[index_].key;
}

void TopView::enter(const TopModel& model) {
  if (rows_ != Rows::nodes) return;
  std::vector<Row> rows = this->rows(model);
  if (rows.empty()) return;
  const Row& row = rows[selected(rows)];
  node_ = row.key;
  node_name_ = row.cells[0];
  rows_ = Rows::tasks_of_node;
  key_.reset();
  index_ = first_ = 0;
}

bool TopView::leave() {
  if (rows_ == all_) return false;
  rows_ = all_;
  key_ = node_;
  return true;
}

}  // namespace nacre::front
