// SPDX-License-Identifier: Apache-2.0
#include "plugins/output/routing.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include "base/file.hpp"
#include "base/text.hpp"
#include "event/clock.hpp"
#include "io/format.hpp"
#include "plugin/tags.hpp"
#include "plugins/pty/pty.hpp"

namespace nacre::plugins {
namespace {

const std::string kOutputKey = "output";  // in the job's namespace
constexpr const char* kLogEvent = "log";

// Whether this shell is the first on its host that has the file.
Result<bool> first_to_have(plugin::Host& host, const std::string& path) {
  const job::Job& job = host.job();
  const auto& nodes = job.resources.nodes;
  std::string mine = TRY(plugin::render_tags(host, path));
  for (std::uint32_t rank = 0; rank < job.shell_rank; ++rank) {
    if (nodes[rank].hostname != nodes[job.shell_rank].hostname) continue;
    if (TRY(plugin::render_tags(host, path, {rank})) == mine) return false;
  }
  return true;
}

std::string path_option(io::Stream stream) { return fmt::format("output.{}.path", io::name_of(stream)); }

// The first event of an output eventlog: its context, for `tasks` tasks.
Json eventlog_header(std::size_t tasks) {
  Json encoding{{"stdout", "UTF-8"}, {"stderr", "UTF-8"}};
  Json count{{"stdout", tasks}, {"stderr", tasks}};
  return {{"version", 1}, {"encoding", encoding}, {"count", count}, {"options", Json::object()}};
}

std::string header_event(std::size_t tasks) {
  return dump_json({{"timestamp", event::wall_clock()}, {"name", "header"}, {"context", eventlog_header(tasks)}});
}

// `shell`: the shell of the message, if it names none.
std::string message_event(const LogEntry& entry, std::uint32_t shell) {
  Json context{{"level", static_cast<int>(entry.level)},
               {"message", entry.message},
               {"rank", entry.shell.value_or(shell)},
               {"program", "nacre-shell"}};
  if (!entry.component.empty()) context["component"] = entry.component;
  if (entry.line > 0) context.update({{"file", entry.file}, {"line", entry.line}});
  return dump_json({{"timestamp", event::wall_clock()}, {"name", kLogEvent}, {"context", std::move(context)}});
}

}  // namespace

Result<void> OutputRouting::open(const value::Idset& ranks) {
  ranks_ = ranks;
  for (io::Stream stream : io::kStreams) {
    if (!of(stream).has(OutputType::file)) continue;
    CHECK_OK(in(path_option(stream), plugin::check_tags(host_, of(stream).path)));
    bool of_tasks = TRY(in(path_option(stream), plugin::differs_by_task(host_, of(stream).path)));
    bool differs = TRY(in(path_option(stream), plugin::differs_by_rank(host_, of(stream).path)));
    shared(stream).file = !of_tasks && !differs;
  }
  CHECK_OK(choose_direct());
  if (is_remote()) open_uplink();
  const bool has_eventlog = host_.record_directory() || host_.instance() != nullptr;
  if (has_eventlog && !is_remote()) CHECK_OK(open_eventlog());
  for (io::Stream stream : io::kStreams) {
    if (!is_remote()) CHECK_OK(open_shared(stream));
    if (!of(stream).has(OutputType::file)) continue;
    CHECK_OK(open_file(stream));
    if (host_.instance() != nullptr && !shared(stream).file && !is_remote())
      post_redirect(stream, wanted(), TRY(plugin::render_job_tags(host_.job(), of(stream).path)));
  }
  return {};
}

// Opens the shared places except files.
Result<void> OutputRouting::open_shared(io::Stream stream) {
  bool merged = stream == io::Stream::err && one_terminal();
  bool is_terminal = of(stream).has(OutputType::term) && !merged;
  bool has_events = options_.events && stream == io::Stream::out;
  if (is_terminal || has_events) CHECK_OK(open_terminal(stream));
  if (of(stream).has(OutputType::term)) shared(stream).places.push_back(terminal(stream));
  if (of(stream).has(OutputType::kvs)) shared(stream).places.push_back(eventlog_.get());
  return {};
}

Result<void> OutputRouting::lead(std::function<void(bulk::Id, bulk::Numbered, std::string_view)> take,
                                 std::function<void()> on_room) {
  leads_ = true;
  uplink_->lead(host_.job().shell_rank, std::move(take), std::move(on_room));
  if (host_.record_directory()) CHECK_OK(open_eventlog());
  for (io::Stream stream : io::kStreams) {
    CHECK_OK(open_shared(stream));
    if (!of(stream).has(OutputType::file) || !shared(stream).file) continue;
    const std::string path = TRY(in(path_option(stream), output_path(host_, of(stream).path, nullptr)));
    files_.keep(path);
    OutputTarget* place = TRY(file(stream, path, writers()));
    shared(stream).places.push_back(place);
    if (stream == io::Stream::err) messages_ = place;
  }
  return {};
}

Result<void> OutputRouting::open_file(io::Stream stream) {
  std::string path = TRY(in(path_option(stream), output_path(host_, of(stream).path, nullptr)));
  bool of_tasks = TRY(in(path_option(stream), plugin::differs_by_task(host_, of(stream).path)));
  bool common = shared(stream).file;
  if (of_tasks) return open_of_tasks(stream);
  if (common && is_remote()) return {};
  if (!common && !TRY(first_to_have(host_, of(stream).path))) files_.keep(path);
  OutputTarget* place = TRY(file(stream, path, common ? writers() : ranks_));
  if (common) shared(stream).places.push_back(place);
  if (stream == io::Stream::err) messages_ = place;
  return {};
}

// A task with a terminal writes only to it, which counts as stdout.
Result<void> OutputRouting::open_of_tasks(io::Stream stream) {
  const auto pty = TRY(PtyOptions::read(host_.options(), host_.job().tasks()));
  // The files of tasks that start later are opened then: there may be more of them than descriptors.
  const std::size_t most = TRY(job::tasks_at_once(host_.options(), host_.job(), host_.tasks().size()));
  for (const auto& task : host_.tasks().first(most)) {
    if (!ranks_.contains(task->rank())) continue;
    bool has_pty = pty.ranks.contains(task->rank());
    if (has_pty && (stream == io::Stream::err || !pty.captures)) continue;
    if (!has_pty && TRY(gives_file(*task, stream))) {
      own_[{task->rank(), stream}] = TRY(open_for(*task, stream));
    } else {
      static_cast<void>(TRY(of(*task, stream)));
    }
  }
  return {};
}

void OutputRouting::open_uplink() {
  OutputUplink::Callbacks callbacks;
  callbacks.on_room = callbacks_.on_room;
  callbacks.on_closed = [this](io::Stream stream, const Error& why) {
    if (OutputTarget* place = shared(stream).remote.get()) place->fail(why);
    callbacks_.on_room();
  };
  uplink_.emplace(*host_.bulk(), std::move(callbacks));
  if (may_have_another_leader()) uplink_->keep_whole();
  for (io::Stream stream : io::kStreams) {
    shared(stream).remote = OutputTarget::create(*uplink_, stream, callbacks_);
  }
}

// The tasks, of all shells, whose output comes out here.
value::Idset OutputRouting::writers() const { return host_.bulk() == nullptr ? ranks_ : wanted(); }

value::Idset OutputRouting::wanted() const {
  auto all = value::Idset::range(0, static_cast<value::Idset::Id>(host_.job().tasks() - 1));
  return options_.ranks ? all & *options_.ranks : all;
}

// Whether both streams of several tasks come out at one pipe or terminal, and look alike: then only whole lines of
// both may come out. The output of a single task is not changed.
bool OutputRouting::one_terminal() const {
  const StreamOptions& out = of(io::Stream::out);
  const StreamOptions& err = of(io::Stream::err);
  struct stat first {};
  struct stat second {};
  if (options_.events) return true;
  return host_.job().tasks() > 1 && out.has(OutputType::term) && err.has(OutputType::term) &&
         out.label == err.label && out.timestamps == err.timestamps && out.json == err.json &&
         ::fstat(STDOUT_FILENO, &first) == 0 && ::fstat(STDERR_FILENO, &second) == 0 &&
         first.st_dev == second.st_dev && first.st_ino == second.st_ino;
}

OutputTarget* OutputRouting::terminal(io::Stream stream) const {
  const auto& own = terminals_.at(static_cast<std::size_t>(stream));
  return own ? own.get() : terminals_.at(static_cast<std::size_t>(io::Stream::out)).get();
}

Result<void> OutputRouting::open_terminal(io::Stream stream) {
  int fd = stream == io::Stream::out ? STDOUT_FILENO : STDERR_FILENO;
  OutputTarget::Options options = place_options(stream, std::string(io::name_of(stream)));
  options.limit = options_.limit;
  if (options_.events) options.format = {io::Form::json, false, io::Timestamps::none};
  // The terminal is lent to task 0, whose own terminal already ends lines.
  options.format.carriage_return = ::isatty(fd) == 1 && TRY(host_.options().flag("pty.interactive"));
  auto& place = terminals_.at(static_cast<std::size_t>(stream));
  place = TRY(OutputTarget::create(host_.loop(), fd, UniqueFd(), std::move(options), callbacks_));
  place->expect(static_cast<std::size_t>(writers().size()));
  return {};
}

void OutputRouting::follow(plugin::OutputFollower* follower) {
  for (const auto& each : terminals_) {
    if (each) each->follow(follower);
  }
}

void OutputRouting::redirect_terminals(plugin::OutputFile* to) {
  for (const auto& each : terminals_) {
    if (each) each->redirect(to);
  }
}

Result<void> OutputRouting::open_eventlog() {
  OutputTarget::Options options;
  options.name = host_.record_directory().value_or("") + "/guest.output";
  options.format.form = io::Form::eventlog;
  options.sink = sink_options();
  options.limit = options_.limit;
  if (auto* instance = host_.instance()) {
    options.name = "guest.output";
    options.format.by_line = true;  // its clients put a label before each event's text
    eventlog_ = OutputTarget::create(*instance->eventlogs, std::move(options), callbacks_);
  } else {
    if (uplink_) files_.keep(options.name);
    UniqueFd fd = TRY(files_.open(options.name));
    int borrowed = fd.get();
    eventlog_ = TRY(OutputTarget::create(host_.loop(), borrowed, std::move(fd), std::move(options), callbacks_));
  }
  if (host_.instance() == nullptr && !uplink_) post("header", eventlog_header(wanted().size()));
  return {};
}

bool write_guest_output(broker::Instance& instance, const std::vector<LogEntry>& messages) {
  constexpr double kPatience = 2;  // seconds
  instance.eventlogs->append(kOutputKey, header_event(0) + '\n');
  for (const LogEntry& each : messages) instance.eventlogs->append(kOutputKey, message_event(each, 0) + '\n');
  return instance.eventlogs->flush(kPatience);
}

void OutputRouting::begin_guest_output(broker::Instance& instance) const {
  instance.eventlogs->append(kOutputKey, header_event(wanted().size()) + '\n');
}

void OutputRouting::add_to_guest_output(broker::Instance& instance, const LogEntry& entry) const {
  instance.eventlogs->append(kOutputKey, message_event(entry, host_.job().shell_rank) + '\n');
}

// Why all output of tasks to this place has to pass through the shell; empty: it need not.
Result<std::string> OutputRouting::why_not_direct(io::Stream stream) const {
  const StreamOptions& options = of(stream);
  if (options.types != std::vector{OutputType::file}) return "it does not go to a file alone";
  if (options.prefixed()) return "something is put before its lines";
  if (options.json) return "its format is json";
  if (options.buffering == io::Buffering::block) return "it comes in blocks (buffer.type)";
  const auto pty = TRY(PtyOptions::read(host_.options(), host_.job().tasks()));
  if (options_.direct == Direct::on && !pty.ranks.empty()) return "tasks have a terminal (pty)";
  if (options_.is_looked_at) return "restart (no-progress) or slow-watch looks at it";
  if (TRY(plugin::is_of_one_task(host_, options.path))) return "";
  return fmt::format("{} may be the file of several tasks: it needs a tag such as {{{{task.rank}}}}", options.path);
}

Result<void> OutputRouting::choose_direct() {
  auto refuse = [this](const std::string& why) { return host_.options().at("output")->error("direct=on: " + why); };
  std::array<std::string, io::kStreams.size()> why;
  std::array<std::string, io::kStreams.size()> paths;
  const task::Task any(0, 0, {});
  for (std::size_t i = 0; i < why.size(); ++i) {
    const io::Stream stream = io::kStreams.at(i);
    direct_.at(i) = of(stream).has(OutputType::file) && options_.direct != Direct::off;
    if (!direct_.at(i)) continue;
    why.at(i) = TRY(in(path_option(stream), why_not_direct(stream)));
    paths.at(i) = TRY(in(path_option(stream), output_path(host_, of(stream).path, &any)));
  }
  // Either all writers of a file are tasks, or none, as lines may mix otherwise.
  if (direct_[0] && direct_[1] && paths[0] == paths[1] && why[0].empty() != why[1].empty())
    why.at(why[0].empty() ? 0 : 1) = "the other stream goes to the same file, through the shell";
  if (options_.direct == Direct::on && !options_.has_files()) return refuse("no stream goes to a file");
  for (std::size_t i = 0; i < why.size(); ++i) {
    if (!direct_.at(i) || why.at(i).empty()) continue;
    if (options_.direct == Direct::on)
      return refuse(
          fmt::format("{} has to pass through the shell: {}", io::name_of(io::kStreams.at(i)), why.at(i)));
    direct_.at(i) = false;
  }
  return {};
}

Result<bool> OutputRouting::gives_file(const task::Task& task, io::Stream stream) const {
  if (!direct_.at(static_cast<std::size_t>(stream)) || task.pty() != nullptr) return false;
  if (own_.contains({task.rank(), stream})) return true;
  std::string path = TRY(in(path_option(stream), output_path(host_, of(stream).path, &task)));
  struct stat info {};
  if (::stat(path.c_str(), &info) < 0 || S_ISREG(info.st_mode) || S_ISDIR(info.st_mode)) return true;
  if (options_.direct != Direct::on) return false;
  return invalid(
      fmt::format("{}: {}: it is no regular file, as output.direct=on needs", path_option(stream), path));
}

namespace {

// `from`: an offset before which nothing is read, unless the file has become shorter.
std::string tail_of_file(const std::string& path, std::size_t most, off_t from = 0) {
  UniqueFd file(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  struct stat info {};
  if (!file || ::fstat(file.get(), &info) < 0 || !S_ISREG(info.st_mode)) return "";
  const off_t size = info.st_size >= from ? info.st_size - from : info.st_size;
  std::string bytes(std::min(most, static_cast<std::size_t>(size)), '\0');
  ssize_t got = ::pread(file.get(), bytes.data(), bytes.size(), info.st_size - static_cast<off_t>(bytes.size()));
  bytes.resize(static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  return bytes;
}

}  // namespace

Result<UniqueFd> OutputRouting::open_for(const task::Task& task, io::Stream stream, bool joins) {
  if (auto opened = own_.extract({task.rank(), stream})) return std::move(opened.mapped());
  std::string path = TRY(in(path_option(stream), output_path(host_, of(stream).path, &task)));
  keep_earlier(task, path);
  UniqueFd fd = TRY(in(path_option(stream), files_.open(path)));
  CHECK_OK(make_blocking(fd.get(), path));
  const std::string last = task.attempt() > 1 && !joins ? tail_of_file(path, 1) : "";
  // An earlier start has ended within a line. If this write fails, the task's own writes fail as well.
  if (!last.empty() && last != "\n") static_cast<void>(write_all(fd.get(), "\n"));
  redirect(stream, value::Idset::range(task.rank(), task.rank()), path);
  return fd;
}

// A task that starts again writes behind its earlier output.
void OutputRouting::keep_earlier(const task::Task& task, const std::string& path) {
  if (task.attempt() > 1) files_.keep(path);
}

std::string OutputRouting::last_of(const task::Task& task, io::Stream stream, TaskStreams& read) const {
  const std::size_t most = tail_size(stream, host_.tasks().size());
  const OutputChannel& channel = read.of(stream);
  if (!channel.own_from) return std::string(channel.tail.last(most));
  auto path = output_path(host_, of(stream).path, &task);
  return path ? tail_of_file(*path, most, *channel.own_from) : "";
}

Result<std::vector<OutputTarget*>> OutputRouting::of(const task::Task& task, io::Stream stream) {
  const StreamOptions& options = of(stream);
  std::vector<OutputTarget*> places;
  bool common = options.has(OutputType::term) || options.has(OutputType::kvs) || shared(stream).file;
  if (is_remote()) {
    if (common) places.push_back(shared(stream).remote.get());
  } else {
    places = collected(stream);
  }
  if (options.has(OutputType::file) && !shared(stream).file) {
    std::string path = TRY(in(path_option(stream), output_path(host_, of(stream).path, &task)));
    keep_earlier(task, path);
    places.push_back(TRY(file(stream, path, value::Idset::range(task.rank(), task.rank()))));
  }
  return places;
}

Result<OutputTarget*> OutputRouting::file(io::Stream stream, const std::string& path, const value::Idset& writers) {
  auto& place = file_places_[path];
  if (place == nullptr) {
    UniqueFd fd = TRY(in(path_option(stream), files_.open(path)));
    int borrowed = fd.get();
    place =
        TRY(OutputTarget::create(host_.loop(), borrowed, std::move(fd), place_options(stream, path), callbacks_));
    place->expect(static_cast<std::size_t>(writers.size()));
  }
  if (redirected_.emplace(path, stream).second) redirect(stream, writers, path);
  return place.get();
}

OutputTarget::Options OutputRouting::place_options(io::Stream stream, std::string name) const {
  OutputTarget::Options options;
  options.name = std::move(name);
  options.format = {of(stream).json ? io::Form::json : io::Form::text, of(stream).label.has_value(),
                    of(stream).timestamps};
  options.sink = sink_options();
  options.fold = options_.fold;
  if (options_.fold == Fold::hosts)
    options.names = [this](const std::vector<std::uint32_t>& ranks) { return hosts_of(ranks); };
  return options;
}

std::string OutputRouting::hosts_of(const std::vector<std::uint32_t>& ranks) const {
  const job::Job& job = host_.job();
  std::vector<value::Idset::Id> nodes;
  for (std::uint32_t rank : ranks) {
    if (auto node = job.taskmap.node_of(rank)) nodes.push_back(*node);
  }
  value::Hostlist hosts;
  for (value::Idset::Id node : value::Idset::of(nodes).ids()) hosts.append(job.resources.nodes[node].hostname);
  hosts.uniq();
  return hosts.str();
}

io::FdSink::Options OutputRouting::sink_options() const {
  return {options_.overflow, spill_directory(host_), options_.spill_limit};
}

void OutputRouting::post(std::string_view name, const Json& context) {
  if (!eventlog_ && (!uplink_ || leads_)) return;
  post_line(dump_json({{"timestamp", event::wall_clock()}, {"name", name}, {"context", context}}));
}

void OutputRouting::post_message(const LogEntry& entry) {
  if (eventlog_ || uplink_ || messages_ != nullptr) post_line(message_event(entry, host_.job().shell_rank));
}

// Writes a message of any shell as its event.
void OutputRouting::write_message(std::string_view line) {
  Json event = Json::parse(line, nullptr, false);
  if (member_of(event, "name") != kLogEvent || !event.contains("context")) return;
  const bool is_own = member_of(event.at("context"), "rank") == host_.job().shell_rank;
  if (!is_own && !shared(io::Stream::err).file) return;
  if (of(io::Stream::err).json) return messages_->write(std::string(line) + '\n');
  const Json& context = event.at("context");
  auto text = [&](const char* name) {
    const Json& value = member_of(context, name);
    return value.is_string() ? escape_controls(value.get<std::string>()) : "";
  };
  auto number = [&](const char* name) {
    const Json& value = member_of(context, name);
    return value.is_number_unsigned() ? value.get<std::uint32_t>() : 0U;
  };
  LogEntry entry{static_cast<Level>(number("level")), text("component"), "", 0, text("message"), number("rank")};
  messages_->write(log_line(entry, 0) + '\n');
}

void OutputRouting::post_line(std::string_view line) {
  if (messages_ != nullptr) write_message(line);
  if (eventlog_) return eventlog_->write(std::string(line) + '\n');
  if (!uplink_ || leads_) return;
  if (auto* instance = host_.instance(); instance != nullptr && is_late_)
    return instance->eventlogs->append(kOutputKey, std::string(line) + '\n');
  std::string record = io::WireFormat::event(line);
  uplink_->put(std::array{std::string_view(record)});
}

// If a sink is full the text must not be lost: half a line is better.
bool OutputRouting::take_err(std::string_view text) {
  const auto& own = terminals_.at(static_cast<std::size_t>(io::Stream::err));
  OutputTarget* place = own || options_.events || !one_terminal() ? own.get() : terminal(io::Stream::err);
  if (place == nullptr || place->flushed() || place->full()) return false;
  place->write(text);
  return !place->failed();
}

bool OutputRouting::put_event(std::string_view line) {
  if (OutputTarget* place = terminal(io::Stream::out); options_.events && place != nullptr) place->write(line);
  return flushed();
}

void OutputRouting::post_complete(std::uint32_t rank) {
  std::string record = io::WireFormat::complete(rank);
  if (uplink_) uplink_->put(std::array{std::string_view(record)});
}

OutputRouting::Marks OutputRouting::marks() const {
  Marks out;
  for (const OutputTarget* each : all()) {
    if (!each->flushed()) out.emplace_back(each, each->destination().sink().taken());
  }
  return out;
}

bool OutputRouting::has_passed(const Marks& marks) {
  return std::all_of(marks.begin(), marks.end(), [](const auto& mark) {
    const auto& [place, end] = mark;
    return place->flushed() || place->destination().sink().written() >= end;
  });
}

// What an instance's clients print of a stream is one line, however many files it has: open() has posted it.
void OutputRouting::redirect(io::Stream stream, const value::Idset& ranks, const std::string& path) {
  if (host_.instance() == nullptr || shared(stream).file) post_redirect(stream, ranks, path);
}

void OutputRouting::post_redirect(io::Stream stream, const value::Idset& ranks, const std::string& path) {
  if (of(stream).has(OutputType::kvs)) return;
  const bool in_brackets = host_.instance() != nullptr;  // as its clients show them
  post("redirect", {{"stream", io::name_of(stream)}, {"rank", ranks.str(in_brackets)}, {"path", path}});
}

std::vector<OutputTarget*> OutputRouting::all() const {
  std::vector<OutputTarget*> places;
  for (const auto& each : terminals_) places.push_back(each.get());
  for (const Shared& each : shared_) places.push_back(each.remote.get());
  for (const auto& [path, each] : file_places_) places.push_back(each.get());
  places.push_back(eventlog_.get());
  std::erase(places, nullptr);
  return places;
}

bool OutputRouting::flushed() const {
  std::vector<OutputTarget*> places = all();
  return std::all_of(places.begin(), places.end(), [](const OutputTarget* place) { return place->flushed(); });
}

std::optional<double> OutputRouting::expire(double time) {
  std::optional<double> next;
  for (OutputTarget* place : all()) {
    std::optional<double> due = place->expire(time);
    if (due && (!next || *due < *next)) next = due;
  }
  return next;
}

void OutputRouting::log_losses() const {
  for (const OutputTarget* place : all()) {
    for (io::Stream stream : io::kStreams) {
      const io::Destination::Lost& lost = place->destination().lost(stream);
      std::string_view of = place->name() == io::name_of(stream) ? "" : io::name_of(stream);
      auto warn = [&](const std::string& what) {
        host_.log().log(Level::warn, "output", "{}{}{}: {}", place->name(), of.empty() ? "" : ": ", of, what);
      };
      if (lost.over_limit > 0) warn(fmt::format("{} bytes over output.limit were cut", lost.over_limit));
      if (lost.dropped > 0) {
        warn(fmt::format("{} lines, {} bytes were dropped, as the reader was too slow", lost.dropped_lines,
                         lost.dropped));
      }
    }
  }
}

// ---- channel ----------------------------------------------------------------------------

TaskStreams& OutputChannels::begin(const task::Task& task, bool may_start_again) {
  TaskStreams& streams = task.attempt() > 1 ? renew(task.rank()) : tasks[task.rank()];
  streams.is_last = !may_start_again;
  for (auto& [word, each] : numbers) each.end_lines(task.rank(), event::wall_clock());
  return streams;
}

// Open channels of the earlier start go on as those of a process that writes as the task does.
TaskStreams& OutputChannels::renew(std::uint32_t rank) {
  auto node = tasks.extract(rank);
  TaskStreams& fresh = tasks[rank];
  if (!node) return fresh;
  for (io::Stream stream : io::kStreams) {
    OutputChannel& old = node.mapped().of(stream);
    OutputChannel& main = fresh.of(stream);
    main.others = std::exchange(old.others, 0) + (old.open() ? 1 : 0);
    auto follow = [&](OutputChannel& each) {
      if (each.main == &old) each.main = &main;
    };
    for (OutputChannel& each : others) follow(each);
    for (auto& each : earlier) follow(each.mapped().of(stream));
    old.main = &main;
    old.source.is_part = true;
    if (old.ended) tell_end(old, event::wall_clock());
  }
  std::erase_if(earlier, [](auto& each) {
    const auto& channels = each.mapped().channels;
    return std::none_of(channels.begin(), channels.end(), [](const auto& channel) { return channel.open(); });
  });
  earlier.push_back(std::move(node));
  return fresh;
}

void OutputChannels::end_source(OutputChannel& channel, double now) {
  OutputChannel& main = channel.main != nullptr ? *channel.main : channel;
  if (channel.main == nullptr) {
    main.ended = true;
  } else {
    tell_end(channel, now);
    --main.others;
  }
  end_if_over(main, now);
}

void OutputChannels::end_if_over(OutputChannel& main, double now) {
  if (!main.ended || main.others > 0 || !tasks.at(main.source.rank).is_last) return;
  tell_end(main, now);
}

// Places know a source by its address, which another one may have later.
void OutputChannels::tell_end(OutputChannel& channel, double now) {
  if (std::exchange(channel.is_told, true)) return;
  for (OutputTarget* place : channel.places) place->end(channel.source, now);
}

bool OutputChannels::end_for_good(const task::Task& task, double now) {
  TaskStreams& output = tasks[task.rank()];
  output.failed = task.status().job_code() != 0;
  if (!std::exchange(output.is_last, true)) {
    for (OutputChannel& channel : output.channels) end_if_over(channel, now);
  }
  return output.is_complete();
}

void OutputChannels::end_former(std::span<const std::unique_ptr<task::Task>> all, double now) {
  for (auto& [rank, output] : tasks) {
    const bool stays = std::any_of(all.begin(), all.end(),
                                   [of = rank](const auto& task) { return std::uint64_t{of} == task->rank(); });
    if (stays || std::exchange(output.is_last, true)) continue;
    for (OutputChannel& channel : output.channels) end_if_over(channel, now);
  }
}

std::vector<std::uint32_t> OutputChannels::end_all_for_good(std::span<const std::unique_ptr<task::Task>> all,
                                                            double now) {
  std::vector<std::uint32_t> out;
  for (const auto& task : all) {
    auto found = tasks.find(task->rank());
    bool waits = found != tasks.end() && !found->second.is_last && task->state() == task::State::exited;
    if (waits && end_for_good(*task, now)) out.push_back(task->rank());
  }
  return out;
}

// ---- channel maker ----------------------------------------------------------------------

Result<task::Task> task_elsewhere(const job::Job& job, std::int64_t rank) {
  constexpr std::uint32_t kBegun = 2;
  if (rank < 0 || static_cast<std::uint64_t>(rank) >= job.tasks())
    return invalid(fmt::format("there is no task {}", rank));
  const auto id = static_cast<value::Idset::Id>(rank);
  const auto up_to = job.taskmap.ranks_on(TRY(job.taskmap.node_of(id))) & value::Idset::range(0, id);
  return task::Task(id, static_cast<std::uint32_t>(up_to.size() - 1), {}, kBegun);
}

Result<void> ChannelMaker::prepare(task::Task& task, TaskStreams& output) {
  if (task.pty() != nullptr) return prepare_pty(task, output);
  for (io::Stream stream : io::kStreams) {
    OutputChannel& channel = output.of(stream);
    if (!options_.prints(task.rank())) {
      // goes to /dev/null
    } else if (places_ && TRY(places_->gives_file(task, stream))) {
      channel.task_end = TRY(places_->open_for(task, stream));
      struct stat info {};
      channel.own_from = ::fstat(channel.task_end.get(), &info) == 0 ? info.st_size : 0;
    } else {
      CHECK_OK(add_pipe(task, stream, channel));
    }
    int target = stream == io::Stream::out ? STDOUT_FILENO : STDERR_FILENO;
    task.command().setup.fds.push_back({target, channel.task_end.get()});
  }
  return {};
}

Result<void> ChannelMaker::add_pipe(const task::Task& task, io::Stream stream, OutputChannel& channel) const {
  CHECK_OK(make(task, stream, channel));
  Pipe pipe = TRY(make_pipe(O_CLOEXEC));
  // A spare that takes tasks over has not expected any.
  const std::size_t all = io::kStreams.size() * (printed_ > 0 ? printed_ : host_.tasks().size());
  channel.may_rest = widen_pipe(pipe.write.get(), all) >= kReadSize;
  channel.pipe = std::move(pipe.read);
  channel.task_end = std::move(pipe.write);
  return {};
}

// What is written to a terminal is stdout, if that is wanted at all.
Result<void> ChannelMaker::prepare_pty(const task::Task& task, TaskStreams& output) const {
  if (!task.pty()->captured() || !options_.prints(task.rank())) return {};
  OutputChannel& channel = output.of(io::Stream::out);
  channel.pty = task.pty();
  return make(task, io::Stream::out, channel);
}

Result<void> ChannelMaker::make(const task::Task& task, io::Stream stream, OutputChannel& channel) const {
  const auto& label = options_.streams.at(static_cast<std::size_t>(stream)).label;
  channel.source.rank = task.rank();
  channel.source.stream = stream;
  if (label) channel.source.label = TRY(plugin::render_tags(host_, *label, {std::nullopt, &task}));
  channel.assembler.emplace(channel.source, buffering(stream));
  if (places_) channel.places = TRY(places_->of(task, stream));
  return {};
}

// The output of a single task to a terminal or a pipe is not buffered: a prompt, or half a line, appears at once.
io::Buffering ChannelMaker::buffering(io::Stream stream) const {
  const StreamOptions& options = options_.streams.at(static_cast<std::size_t>(stream));
  bool alone = host_.job().tasks() == 1 && options.types == std::vector{OutputType::term};
  return alone && options.plain() && options.buffering == io::Buffering::line ? io::Buffering::none
                                                                              : options.buffering;
}

// ---- target -----------------------------------------------------------------------------

Result<std::unique_ptr<OutputTarget>> OutputTarget::create(event::Loop& loop, int fd, UniqueFd own, Options options,
                                                           Callbacks callbacks) {
  std::unique_ptr<OutputTarget> place(new OutputTarget(std::move(own), std::move(options), std::move(callbacks)));
  io::FdSink::Callbacks sink_callbacks;
  sink_callbacks.on_room = [self = place.get()] { self->callbacks_.on_room(); };
  sink_callbacks.on_error = [self = place.get()](const Error& error) { self->note(error); };
  sink_callbacks.on_spill = place->callbacks_.on_spill;
  sink_callbacks.after_error = [self = place.get()](const Error& error, std::size_t bytes) {
    return self->after_error(error, bytes);
  };
  const Options& wanted = place->options_;
  auto sink = TRY(io::FdSink::create(loop, fd, wanted.name, wanted.sink, std::move(sink_callbacks)));
  place->sink_ = sink.get();
  place->destination_ =
      std::make_unique<io::Destination>(io::Format::create(wanted.format), std::move(sink), wanted.limit);
  return place;
}

namespace {

// All that comes out here is in the store.
class StoreSink final : public io::Sink {
 public:
  explicit StoreSink(broker::EventlogWriter& store) : store_(store) {}

  Result<void> write(std::span<const std::string_view> pieces) override {
    if (store_.failure()) return *store_.failure();
    std::string all;
    for (std::string_view piece : pieces) all += piece;
    store_.append(kOutputKey, all);
    return {};
  }
  [[nodiscard]] bool takes() override { return true; }
  [[nodiscard]] bool full() const override { return store_.full(); }
  [[nodiscard]] bool flushed() const override { return store_.failure() || written() == taken(); }
  [[nodiscard]] std::uint64_t written() const override { return store_.stored(kOutputKey); }
  [[nodiscard]] std::uint64_t taken() const override { return store_.taken(kOutputKey); }

 private:
  broker::EventlogWriter& store_;
};

}  // namespace

std::unique_ptr<OutputTarget> OutputTarget::create(broker::EventlogWriter& store, Options options,
                                                   Callbacks callbacks) {
  std::unique_ptr<OutputTarget> place(new OutputTarget(UniqueFd(), std::move(options), std::move(callbacks)));
  place->listener_ = store.notify({[self = place.get()] { self->callbacks_.on_room(); },
                                   [self = place.get()](const Error& error) { self->note(error); }});
  const Options& wanted = place->options_;
  place->destination_ = std::make_unique<io::Destination>(io::Format::create(wanted.format),
                                                          std::make_unique<StoreSink>(store), wanted.limit);
  return place;
}

// With what precedes it, and a label, a batch of this size is still within a bulk record.
constexpr std::size_t kMostWhole = std::size_t{48} << 10;

std::unique_ptr<OutputTarget> OutputTarget::create(OutputUplink& uplink, io::Stream stream, Callbacks callbacks) {
  Options options;
  options.name = io::name_of(stream);
  if (uplink.keeps_whole()) options.most = kMostWhole;
  std::unique_ptr<OutputTarget> place(new OutputTarget(UniqueFd(), std::move(options), std::move(callbacks)));
  place->destination_ = std::make_unique<io::Destination>(
      std::make_unique<io::WireFormat>(stream, uplink.keeps_whole()), uplink.sink(stream), std::nullopt);
  return place;
}

void OutputTarget::expect(std::size_t sources) {
  if (options_.fold != Fold::off) folder_.emplace(sources, options_.names);
}

void OutputTarget::redirect(plugin::OutputFile* to) {
  file_ = to;
  auto fd = to != nullptr ? to->file() : std::nullopt;
  if (!fd || is_redirected_ || sink_ == nullptr) return;
  is_redirected_ = true;
  sink_->redirect(*fd);
}

// redirect() of another place may have made the file meanwhile.
io::FdSink::AfterError OutputTarget::after_error(const Error& why, std::size_t bytes) {
  using AfterError = io::FdSink::AfterError;
  if (file_ == nullptr) return AfterError::fail;
  if (is_redirected_) {
    file_->lost(why, bytes);
    return AfterError::drop;
  }
  if (!file_->closed()) return AfterError::fail;
  redirect(file_);
  return is_redirected_ ? AfterError::again : AfterError::fail;
}

void OutputTarget::put_in_parts(const io::Batch& batch) {
  std::string room;
  std::string_view left = batch.joined(room);
  io::Batch part = batch;
  part.head = {};
  while (!left.empty()) {
    part.body = left.substr(0, options_.most);
    left.remove_prefix(part.body.size());
    part.open = left.empty() ? batch.open : part.body.back() != '\n';
    put(part);
    part.continues = part.open;
  }
}

void OutputTarget::put(const io::Batch& batch) {
  if (failed_) return;
  if (batch.size() > options_.most) return put_in_parts(batch);
  if (follower_ != nullptr) follower_->put(batch);
  if (!folder_) return note(destination_->put(batch));
  folder_->add(batch, [this](const io::Batch& line) { note(destination_->put(line)); });
}

void OutputTarget::end(const io::Source& source, double time) {
  if (failed_) return;
  if (folder_ && !source.is_part)
    folder_->end(source, [this](const io::Batch& line) { note(destination_->put(line)); });
  note(destination_->end(source, time));
}

void OutputTarget::write(std::string_view text) {
  if (failed_) return;
  std::array<std::string_view, 1> pieces{text};
  note(destination_->sink().write(pieces));
}

std::optional<double> OutputTarget::expire(double time) {
  if (failed_ || !folder_) return std::nullopt;
  folder_->expire(time, [this](const io::Batch& line) { note(destination_->put(line)); });
  return folder_->deadline();
}

void OutputTarget::note(Result<void> result) {
  if (result || failed_) return;
  failed_ = true;
  callbacks_.on_error(*this, result.error());
}

// ---- uplink -----------------------------------------------------------------------------

namespace {

class UplinkSink final : public io::Sink {
 public:
  UplinkSink(OutputUplink& uplink, io::Stream stream) : uplink_(uplink), stream_(stream) {}

  Result<void> write(std::span<const std::string_view> pieces) override {
    if (uplink_.failure(stream_)) return *uplink_.failure(stream_);
    uplink_.put(pieces);
    for (std::string_view piece : pieces) written_ += piece.size();
    return {};
  }
  [[nodiscard]] bool takes() override { return true; }
  [[nodiscard]] bool full() const override { return uplink_.full(); }
  [[nodiscard]] bool flushed() const override { return uplink_.flushed(); }
  [[nodiscard]] std::uint64_t written() const override { return written_; }
  [[nodiscard]] std::uint64_t taken() const override { return written_; }

 private:
  OutputUplink& uplink_;
  io::Stream stream_;
  std::uint64_t written_ = 0;
};

}  // namespace

OutputUplink::OutputUplink(bulk::Port& port, Callbacks callbacks) : port_(port), callbacks_(std::move(callbacks)) {
  port_.serve(bulk::up::kOutput, upward());
  port_.serve(bulk::down::kOutputClosed, downward());
}

bulk::Port::Upward OutputUplink::upward() {
  bulk::Port::Upward out;
  out.on_room = [this] {
    bool was_full = full();
    send();
    if (was_full != full() || flushed()) callbacks_.on_room();
  };
  out.on_end = [this](const Error& why) {
    for (io::Stream stream : io::kStreams) fail(stream, Error{EPIPE, why.message});
  };
  return out;
}

bulk::Port::Downward OutputUplink::downward() {
  bulk::Port::Downward out;
  out.on_record = [this](bulk::Numbered number, std::string_view bytes) {
    if (auto stream = closed_stream(bytes)) fail(*stream, Error{EPIPE, "nobody reads the job's output any more"});
    port_.consumed(number);
  };
  return out;
}

void OutputUplink::lead(bulk::Id self, Take take, std::function<void()> on_room) {
  way_back_ = WayBack{queue_.size() + 1};
  queue_.emplace_back(WayBack::kBegins);
  queued_ += queue_.back().size();
  bulk::Port::Upward up = upward();
  up.on_record = [this, self, take = std::move(take)](bulk::Id shell, bulk::Numbered number,
                                                      std::string_view bytes) {
    shell == self ? came_back(number, bytes, take, self) : take(shell, number, bytes);
  };
  port_.serve(bulk::up::kOutput, std::move(up));
  bulk::Port::Downward down = downward();
  down.on_room = std::move(on_room);
  port_.serve(bulk::down::kOutputClosed, std::move(down));
  send();
}

void OutputUplink::came_back(bulk::Numbered number, std::string_view bytes, const Take& take, bulk::Id self) {
  const bool begins = bytes == WayBack::kBegins;
  if (way_back_ && way_back_->has_begun) --way_back_->count;
  if (way_back_ && begins) way_back_->has_begun = true;
  begins ? port_.taken(self, number) : take(self, number, bytes);
  if (flushed()) callbacks_.on_room();
}

std::unique_ptr<io::Sink> OutputUplink::sink(io::Stream stream) {
  return std::make_unique<UplinkSink>(*this, stream);
}

void OutputUplink::put(std::span<const std::string_view> record) {
  std::size_t size = 0;
  for (std::string_view piece : record) size += piece.size();
  const bool is_apart = way_back_ && way_back_->before == queue_.size();  // the last record is kBegins
  bool fits = !queue_.empty() && !is_apart && queue_.back().size() + size <= bulk::kMaxRecord;
  if (!fits) queue_.emplace_back();
  for (std::string_view piece : record) append(piece);
  queued_ += size;
  send();
}

void OutputUplink::append(std::string_view bytes) {
  while (!bytes.empty()) {
    if (queue_.back().size() == bulk::kMaxRecord) queue_.emplace_back();
    std::string_view part = bytes.substr(0, bulk::kMaxRecord - queue_.back().size());
    queue_.back() += part;
    bytes.remove_prefix(part.size());
  }
}

void OutputUplink::send() {
  while (!queue_.empty()) {
    Result<bool> sent = port_.put(bulk::up::kOutput, queue_.front());
    if (!sent) {
      for (io::Stream stream : io::kStreams) fail(stream, Error{EPIPE, sent.error().message});
      return;
    }
    if (!*sent) return;
    queued_ -= queue_.front().size();
    queue_.pop_front();
    if (!way_back_) continue;
    way_back_->before > 0 ? --way_back_->before : ++way_back_->count;
  }
}

void OutputUplink::fail(io::Stream stream, const Error& why) {
  auto& failure = failures_.at(static_cast<std::size_t>(stream));
  if (failure) return;
  failure = why;
  bool none_left =
      std::all_of(failures_.begin(), failures_.end(), [](const auto& each) { return each.has_value(); });
  if (none_left) {
    queue_.clear();
    queued_ = 0;
    way_back_.reset();
  }
  callbacks_.on_closed(stream, why);
}

}  // namespace nacre::plugins
