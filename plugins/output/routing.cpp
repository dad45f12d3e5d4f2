// SPDX-License-Identifier: Apache-2.0
#include "plugins/output/routing.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "base/escape.hpp"
#include "base/log_line.hpp"
#include "event/clock.hpp"
#include "io/batch_wire.hpp"
#include "plugin/tags.hpp"
#include "plugins/output/spill_directory.hpp"
#include "plugins/pty/options.hpp"

namespace nacre::plugins {
namespace {

constexpr const char* kLogEvent = "log";

// Whether this is the first shell on its host that has the file.
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
  if (is_remote()) open_uplink();
  if (host_.record_directory() && !is_remote()) CHECK_OK(open_eventlog());
  for (io::Stream stream : io::kStreams) {
    bool merged = stream == io::Stream::err && one_terminal();
    bool is_terminal = of(stream).has(OutputType::term) && !merged;
    bool has_events = options_.events && stream == io::Stream::out;
    if ((is_terminal || has_events) && !is_remote()) CHECK_OK(open_terminal(stream));
    if (of(stream).has(OutputType::term) && !is_remote()) shared(stream).places.push_back(terminal(stream));
    if (of(stream).has(OutputType::kvs) && !is_remote()) shared(stream).places.push_back(eventlog_.get());
    if (of(stream).has(OutputType::file)) CHECK_OK(open_file(stream));
  }
  return {};
}

Result<void> OutputRouting::open_file(io::Stream stream) {
  std::string path = TRY(in(path_option(stream), output_path(host_, of(stream).path, nullptr)));
  bool of_tasks = TRY(in(path_option(stream), plugin::differs_by_task(host_, of(stream).path)));
  bool common = shared(stream).file;
  if (direct(stream) || of_tasks) return open_of_tasks(stream);
  if (common && is_remote()) return {};
  if (!common && !TRY(first_to_have(host_, of(stream).path))) files_.keep(path);
  OutputTarget* place = TRY(file(stream, path, common ? writers() : ranks_));
  if (common) shared(stream).places.push_back(place);
  if (common && stream == io::Stream::err) messages_ = place;
  return {};
}

// A task with a terminal writes to it alone, which is stdout.
Result<void> OutputRouting::open_of_tasks(io::Stream stream) {
  const auto pty = TRY(PtyOptions::read(host_.options(), host_.job().tasks()));
  for (const auto& task : host_.tasks()) {
    if (!ranks_.contains(task->rank())) continue;
    bool has_pty = pty.ranks.contains(task->rank());
    if (has_pty && (stream == io::Stream::err || !pty.captures)) continue;
    if (direct(stream) && !has_pty) {
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
  for (io::Stream stream : io::kStreams) {
    shared(stream).remote = OutputTarget::create(*uplink_, stream, callbacks_);
  }
}

// The tasks of all shells whose output comes out here.
value::Idset OutputRouting::writers() const {
  if (host_.bulk() == nullptr) return ranks_;
  auto all = value::Idset::range(0, static_cast<value::Idset::Id>(host_.job().tasks() - 1));
  return options_.ranks ? all & *options_.ranks : all;
}

// Whether both streams of several tasks come out at the same pipe or terminal, and look alike: then only whole
// lines of both may come out. A single task's output is not changed.
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
  // The terminal is lent to task 0, whose own terminal ends lines already.
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
  std::string path = *host_.record_directory() + "/guest.output";
  UniqueFd fd = TRY(files_.open(path));
  OutputTarget::Options options;
  options.name = path;
  options.format.form = io::Form::eventlog;
  options.sink = sink_options();
  options.limit = options_.limit;
  int borrowed = fd.get();
  eventlog_ = TRY(OutputTarget::create(host_.loop(), borrowed, std::move(fd), std::move(options), callbacks_));
  value::Idset ranks = writers();
  Json encoding{{"stdout", "UTF-8"}, {"stderr", "UTF-8"}};
  Json count{{"stdout", ranks.size()}, {"stderr", ranks.size()}};
  post("header", {{"version", 1}, {"encoding", encoding}, {"count", count}, {"options", Json::object()}});
  return {};
}

bool OutputRouting::direct(io::Stream stream) const {
  const StreamOptions& options = of(stream);
  bool own = options.path.find("{{task") != std::string::npos;
  return own && options.plain() && options.types == std::vector{OutputType::file};
}

Result<UniqueFd> OutputRouting::open_for(const task::Task& task, io::Stream stream) {
  if (auto opened = own_.extract({task.rank(), stream})) return std::move(opened.mapped());
  std::string path = TRY(in(path_option(stream), output_path(host_, of(stream).path, &task)));
  keep_earlier(task, path);
  UniqueFd fd = TRY(in(path_option(stream), files_.open(path)));
  CHECK_OK(make_blocking(fd.get(), path));
  redirect(stream, value::Idset::range(task.rank(), task.rank()), path);
  return fd;
}

// A task that starts again writes behind what it has written before.
void OutputRouting::keep_earlier(const task::Task& task, const std::string& path) {
  if (task.attempt() > 1) files_.keep(path);
}

std::string OutputRouting::last_of(const task::Task& task, io::Stream stream, TaskStreams& read) const {
  std::size_t most = tail_size(stream, host_.tasks().size());
  std::string own = direct(stream) ? tail_of_file(task, stream, most) : "";
  return own + std::string(read.of(stream).tail.last(most));
}

std::string OutputRouting::tail_of_file(const task::Task& task, io::Stream stream, std::size_t most) const {
  auto path = output_path(host_, of(stream).path, &task);
  UniqueFd file(path ? ::open(path->c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC) : -1);
  struct stat info {};
  if (!file || ::fstat(file.get(), &info) < 0 || !S_ISREG(info.st_mode)) return "";
  std::string bytes(std::min(most, static_cast<std::size_t>(info.st_size)), '\0');
  ssize_t got = ::pread(file.get(), bytes.data(), bytes.size(), info.st_size - static_cast<off_t>(bytes.size()));
  bytes.resize(static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  return bytes;
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
  return options;
}

io::FdSink::Options OutputRouting::sink_options() const {
  return {options_.overflow, spill_directory(host_), options_.spill_limit};
}

void OutputRouting::post(std::string_view name, const Json& context) {
  if (!eventlog_ && !uplink_) return;
  post_line(dump_json({{"timestamp", event::wall_clock()}, {"name", name}, {"context", context}}));
}

void OutputRouting::post_message(const LogEntry& entry) {
  if (!eventlog_ && !uplink_ && messages_ == nullptr) return;
  Json context{{"level", static_cast<int>(entry.level)},
               {"message", entry.message},
               {"rank", entry.shell.value_or(host_.job().shell_rank)},
               {"program", "nacre-shell"}};
  if (!entry.component.empty()) context["component"] = entry.component;
  if (entry.line > 0) context.update({{"file", entry.file}, {"line", entry.line}});
  post_line(dump_json({{"timestamp", event::wall_clock()}, {"name", kLogEvent}, {"context", std::move(context)}}));
}

// Of any shell, as its event.
void OutputRouting::write_message(std::string_view line) {
  Json event = Json::parse(line, nullptr, false);
  if (member_of(event, "name") != kLogEvent || !event.contains("context")) return;
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
  if (!uplink_) return;
  std::string record = io::WireFormat::event(line);
  uplink_->put(std::array{std::string_view(record)});
}

// Where it is full the text must not be lost: half a line is better.
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

void OutputRouting::redirect(io::Stream stream, const value::Idset& ranks, const std::string& path) {
  if (of(stream).has(OutputType::kvs)) return;
  post("redirect", {{"stream", io::name_of(stream)}, {"rank", ranks.str()}, {"path", path}});
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

}  // namespace nacre::plugins
