// SPDX-License-Identifier: Apache-2.0
#include "front/top_view.hpp"

#include "base/text.hpp"
#include "exits/record.hpp"
#include "front/table.hpp"
#include "value/duration.hpp"
#include "value/hostlist.hpp"
#include "wire/json.hpp"

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

// ---- top model --------------------------------------------------------------------------

Result<TopStatus> TopStatus::parse(const Json& json) {
  TopStatus out;
  value::Hostlist hosts;
  CHECK_OK(wire::Object{[&hosts](auto& io, TopStatus& m) {
             io.has("id", m.id);
             io.has("name", m.name);
             io.has("tasks", m.tasks);
             io.has("shells", m.shells);
             io.has("running", m.running);
             io.has("started", m.started);
             io.has("ending", m.ending);
             io.may_have("hosts", hosts);
             io.may_have("gone", m.gone);
           }}.read(JsonAt::root(json), out));
  out.hosts = hosts.names();
  return out;
}

Result<std::uint64_t> TopSample::failed_of(const Json& exits) {
  std::uint64_t out = 0;
  for (const JsonAt& each : TRY(TRY(JsonAt::root(exits).at("exits")).elements())) {
    auto count = static_cast<std::uint64_t>(TRY(TRY(each.at("count")).integer(0)));
    JsonAt text = TRY(each.at("record"));
    if (text.json() == "others") {  // of more ways to end than are listed one by one
      out += count;
      continue;
    }
    auto record = exits::Record::parse(TRY(text.string()));
    if (!record) return text.error(record.error().message);
    if (record->code() != 0) out += count;
  }
  return out;
}

Result<std::vector<std::string>> TopSample::late_of(const Json& ps) {
  auto late = TRY(JsonAt::root(ps).find("late"));
  if (!late) return std::vector<std::string>();
  return late->strings();
}

Result<std::vector<std::string>> TopSample::notes_of(const Json& ps) {
  auto notes = TRY(JsonAt::root(ps).find("notes"));
  if (!notes) return std::vector<std::string>();
  return notes->strings();
}

void TopModel::take(TopSample sample, double now) {
  status_ = std::move(sample.status);
  notes_ = std::move(sample.notes);
  failed_ = sample.failed;
  now_ = now;
  std::set<std::string> late(sample.late.begin(), sample.late.end());
  std::erase_if(nodes_, [this](const auto& each) { return status_.gone.contains(each.first); });
  for (std::uint32_t shell = 0; shell < status_.hosts.size(); ++shell) {
    if (status_.gone.contains(shell)) continue;
    auto [node, is_new] = nodes_.try_emplace(shell);
    node->second.host = status_.hosts[shell];
    if (is_new) node->second.seen = now;
  }
  for (const PsTask& task : sample.tasks) {
    if (!status_.gone.contains(task.shell)) nodes_[task.shell].host = task.host;
  }
  for (auto& [shell, node] : nodes_) {
    node.late = late.contains(node.host);
    if (!node.late) node.seen = now;
  }
  for (PsTask& task : sample.tasks) measure(task);
  std::set<std::uint32_t> fresh;
  for (const PsTask& task : sample.tasks) fresh.insert(task.rank);
  for (PsTask& task : tasks_) {
    auto node = nodes_.find(task.shell);
    if (node != nodes_.end() && node->second.late && !fresh.contains(task.rank))
      sample.tasks.push_back(std::move(task));
  }
  tasks_ = std::move(sample.tasks);
  std::sort(tasks_.begin(), tasks_.end(), [](const PsTask& a, const PsTask& b) { return a.rank < b.rank; });
  fresh.clear();
  for (const PsTask& task : tasks_) fresh.insert(task.rank);
  std::erase_if(usage_, [&](const auto& each) { return !fresh.contains(each.first); });
}

void TopModel::measure(PsTask& task) {
  constexpr double kShortest = 0.05;  // seconds: the kernel counts CPU time in hundredths
  Usage now{task.pid, task.time, task.cpu * task.time};
  auto [before, is_new] = usage_.try_emplace(task.rank, now);
  double passed = now.time - before->second.time;
  if (!is_new && before->second.pid == task.pid && passed >= kShortest)
    task.cpu = std::max(0.0, now.cpu - before->second.cpu) / passed;
  before->second = now;
}

std::vector<TopNode> TopModel::nodes() const {
  std::map<std::uint32_t, TopNode> out;
  std::map<std::uint32_t, std::uint64_t> on_devices;  // tasks, by shell
  for (const auto& [shell, node] : nodes_)
    out[shell] = {node.host, shell, 0, 0, 0, node.late ? std::optional(now_ - node.seen) : std::nullopt, {}, {}};
  for (const PsTask& task : tasks_) {
    TopNode& node = out[task.shell];
    node.tasks += 1;
    node.cpu += task.cpu;
    node.rss += task.rss;
    if (task.gpu_memory) node.gpu_memory = node.gpu_memory.value_or(0) + *task.gpu_memory;
    if (!task.gpu_device_use) continue;
    node.gpu_device_use = node.gpu_device_use.value_or(0) + *task.gpu_device_use;
    ++on_devices[task.shell];
  }
  for (const auto& [shell, tasks] : on_devices) *out[shell].gpu_device_use /= static_cast<double>(tasks);
  std::vector<TopNode> nodes;
  for (auto& [shell, node] : out) nodes.push_back(std::move(node));
  return nodes;
}

double TopModel::cpu() const {
  double sum = 0;
  for (const PsTask& task : tasks_) sum += task.cpu;
  return sum;
}

double TopModel::rss() const {
  double sum = 0;
  for (const PsTask& task : tasks_) sum += task.rss;
  return sum;
}

Json TopModel::json(bool with_tasks) const {
  Json out{{"timestamp", now_},
           {"id", status_.id},
           {"name", status_.name},
           {"state", "running"},
           {"ending", status_.ending},
           {"time", time()},
           {"ntasks", status_.tasks},
           {"running", status_.running},
           {"failed", failed_},
           {"nnodes", status_.nodes()},
           {"cpu", cpu()},
           {"rss", rss()}};
  if (!notes_.empty()) out["notes"] = notes_;
  Json& nodes = out["nodes"] = Json::array();
  for (const TopNode& each : this->nodes()) {
    nodes.push_back({{"host", each.host},
                     {"shell", each.shell},
                     {"tasks", each.tasks},
                     {"cpu", each.cpu},
                     {"rss", each.rss},
                     {"late", each.late ? Json(*each.late) : Json()}});
    if (each.gpu_memory) nodes.back()["gpu_memory"] = *each.gpu_memory;
    if (each.gpu_device_use) nodes.back()["gpu_device_use"] = *each.gpu_device_use;
  }
  if (!with_tasks) return out;
  Json& tasks = out["tasks"] = Json::array();
  for (const PsTask& each : tasks_) tasks.push_back(each.json());
  return out;
}

// ---- top feed ---------------------------------------------------------------------------

Result<void> TopFeed::ask() {
  if (waiting_since_) return {};
  sample_ = {};
  is_busy_ = false;
  status_ = client_.begin("status");
  exits_ = client_.begin("exits");
  ps_ = client_.begin("ps", with_gpus_ ? Json{{"gpu", true}} : Json::object());
  waiting_since_ = event::clock_now();
  return client_.exchange();
}

Result<void> TopFeed::take_answer(const control::Answer& answer) {
  bool is_ours = answer.id == status_ || answer.id == exits_ || answer.id == ps_;
  if (!is_ours) return {};
  std::uint64_t& open = answer.id == status_ ? status_ : answer.id == exits_ ? exits_ : ps_;
  if (answer.error) {
    if (answer.error->code != EBUSY) return *answer.error;
    is_busy_ = true;
  } else if (&open == &status_) {
    sample_.status = TRY(TopStatus::parse(answer.value));
  } else if (&open == &exits_) {
    sample_.failed = TRY(TopSample::failed_of(answer.value));
  } else {
    for (const JsonAt& each : TRY(TRY(JsonAt::root(answer.value).at("tasks")).elements()))
      sample_.tasks.push_back(TRY(PsTask::parse(each.json())));
    sample_.late = TRY(TopSample::late_of(answer.value));
    sample_.notes = TRY(TopSample::notes_of(answer.value));
  }
  if (!answer.more) open = 0;
  return {};
}

Result<std::optional<TopSample>> TopFeed::take() {
  Result<void> alive = client_.exchange();
  std::optional<TopSample> sample;
  while (auto got = TRY(client_.take())) {
    if (const auto* event = std::get_if<control::ControlEvent>(&*got)) {
      auto code = event->context.find("code");
      if (event->name == "end" && code != event->context.end() && code->is_number_integer())
        code_ = code->get<int>();
      continue;
    }
    const auto* answer = std::get_if<control::Answer>(&*got);
    if (answer == nullptr) continue;
    CHECK_OK(in("what the leader answers", take_answer(*answer)));
    if (!waiting_since_ || status_ + exits_ + ps_ != 0) continue;
    waiting_since_.reset();
    if (!is_busy_) sample = std::exchange(sample_, {});
  }
  if (!sample && !alive) return std::move(alive).error();
  return sample;
}

}  // namespace nacre::front
