// SPDX-License-Identifier: Apache-2.0
#include "plugins/instance/rexec.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/bytes.hpp"
#include "base/text.hpp"
#include "io/format.hpp"

namespace nacre::plugins {
namespace {

constexpr const char* kRexec = "rexec";
constexpr const char* kRexecHold = "instance.rexec";
enum RexecFlag { kStdout = 1, kStderr = 2, kChannels = 4, kWriteCredit = 8, kWaitable = 16 };

Result<std::vector<std::string>> strings_of(const JsonAt& array) {
  std::vector<std::string> out;
  for (const JsonAt& each : TRY(array.elements())) out.push_back(TRY(each.string()));
  return out;
}

}  // namespace

struct Rexec::Wanted {
  std::vector<std::string> argv, channels;
  std::optional<std::string> cwd;
  Json environment = Json::object(), options = Json::object();

  static Result<Wanted> parse(const JsonAt& command) {
    Wanted out;
    out.argv = TRY(strings_of(TRY(command.at("cmdline"))));
    if (out.argv.empty()) return TRY(command.at("cmdline")).expected("a program and its arguments");
    if (auto cwd = TRY(command.find("cwd"))) out.cwd = TRY(cwd->string());
    if (auto channels = TRY(command.find("channels"))) out.channels = TRY(strings_of(*channels));
    for (auto [name, to] : {std::pair{"env", &out.environment}, std::pair{"opts", &out.options}}) {
      auto members = TRY(command.find(name));
      if (!members) continue;
      if (!members->json().is_object()) return members->expected("an object");
      for (const auto& [key, value] : members->json().items()) {
        if (!value.is_string()) return members->expected("strings in it");
      }
      *to = members->json();
    }
    return out;
  }
};

Rexec::Rexec(plugin::Host& host, broker::Instance& instance, value::Duration after_term)
    : host_(host),
      instance_(instance),
      after_term_(after_term),
      is_trusted_(instance.broker->owner() == ::getuid()) {
  instance.methods[kRexec] = [this](const Request& request) { take(request); };
}

Rexec::~Rexec() {
  instance_.methods.erase(kRexec);
  for (Process& each : processes_) {
    if (each.child) static_cast<void>(each.child->kill(SIGKILL));
  }
}

void Rexec::take(const Request& request) {
  broker::Broker& broker = *instance_.broker;
  const std::size_t prefix = instance_.service.size() + std::string_view(kRexec).size() + 2;
  const std::string method = request.topic->size() > prefix ? request.topic->substr(prefix) : "";
  if (method == "disconnect") return disconnect(request);
  if (request.userid != ::getuid()) return broker.respond_error(request, EPERM, "this is another user's job");
  if (!is_trusted_)
    return broker.respond_error(request, EPERM,
                                "the instance is another user's: nobody can start commands beside a job");
  if (method == "write") return write(request);
  if (method == "list") return list(request);
  const Result<void> done = answer(method, request);
  if (!done) broker.respond_error(request, done.error().code, done.error().message);
}

Result<void> Rexec::answer(std::string_view method, const Request& request) {
  if (method == "exec") return exec(request);
  if (method == "kill") return kill(request);
  if (method == "wait") return wait(request);
  return Error{ENOSYS, fmt::format("rexec.{}: nacre-shell has no such method", method)};
}

// ---- the start --------------------------------------------------------------------------

Result<void> Rexec::exec(const Request& request) {
  if (is_over_ || host_.ending()) return Error{ENOSYS, "the job is ending: nothing is started beside it any more"};
  const Json parsed = TRY(parse_json(request.text()));
  const JsonAt message = JsonAt::root(parsed);
  Wanted wanted = TRY(Wanted::parse(TRY(message.at("cmd"))));
  Process process;
  process.request = request;
  process.is_streamed = (request.flags & Request::kStreaming) != 0;
  process.flags = TRY(TRY(message.at("flags")).integer(0, INT32_MAX));
  process.is_waited = (process.flags & kWaitable) != 0;
  process.name = wanted.argv[0];
  if (auto label = TRY(TRY(message.at("cmd")).find("label"))) process.label = TRY(label->string());
  const bool is_known = std::any_of(processes_.begin(), processes_.end(), [&](const Process& each) {
    return !process.label.empty() && each.label == process.label;
  });
  if (is_known) return Error{EEXIST, fmt::format("a command with the label {} runs already", process.label)};
  if (process.is_streamed && process.is_waited)
    return Error{EINVAL, "who follows a command cannot ask for its end to be kept, too"};
  if (!process.is_streamed && ((process.flags & kWriteCredit) != 0 || !wanted.channels.empty()))
    return Error{EINVAL, "a command in the background has no input and no channels"};
  processes_.push_back(std::move(process));
  Result<void> started = start(processes_.back(), std::move(wanted));
  if (!started) processes_.pop_back();
  return started;
}

Result<void> Rexec::start(Process& process, Wanted wanted) {
  task::Command command;
  command.argv = std::move(wanted.argv);
  command.env = job::Environment::over(host_.environment());
  if (!wanted.environment.empty()) {
    command.env = job::Environment();
    for (const auto& [name, value] : wanted.environment.items()) command.env.set(name, value.get<std::string>());
  }
  command.env.set("FLUX_URI", instance_.broker->uri());
  command.env.unset("FLUX_PROXY_REMOTE");
  command.setup.cwd = std::move(wanted.cwd);
  command.setup.ends_with_parent = true;
  command.channels = std::move(wanted.channels);
  for (const auto& [name, value] : wanted.options.items()) command.stream_options[name] = value.get<std::string>();
  task::Subprocess::Options options;
  if (process.is_streamed) options.streams.emplace_back("stdin");
  task::Subprocess::Callbacks callbacks;
  callbacks.on_ready = [this, &process](const std::string& stream) { read(process, stream); };
  callbacks.on_room = [this, &process](const std::string& stream, std::size_t bytes) {
    if (stream == "stdin") give_credit(process, bytes);
  };
  callbacks.on_exit = [this, &process] { exited(process); };
  callbacks.on_complete = [this, &process] { complete(process); };
  auto started = task::Subprocess::start(host_.loop(), host_.children(), std::move(command), std::move(options),
                                         std::move(callbacks));
  if (!started) return started.error().error;
  process.child = *std::move(started);
  instance_.broker->respond(process.request, {{"type", "started"}, {"pid", process.child->pid()}});
  const task::BufferedStream* input = process.child->stream("stdin");
  if (input != nullptr) give_credit(process, input->room());
  return {};
}

// ---- what it writes, and its end --------------------------------------------------------

void Rexec::read(Process& process, const std::string& stream) {
  task::BufferedStream* from = process.child ? process.child->stream(stream) : nullptr;
  if (from == nullptr) return;
  if (const std::string_view bytes = from->read(); !bytes.empty()) put(process, stream, bytes, false);
  if (from->at_end() && from->unread() == 0) put(process, stream, "", true);
}

void Rexec::put(Process& process, const std::string& stream, std::string_view bytes, bool is_end) {
  if (!process.is_streamed) {
    for (std::string_view line : split(trim(bytes), '\n')) {
      if (!line.empty())
        host_.log().log(Level::notice, kRexec, "{}[{}]: {}", process.name, process.child->pid(), line);
    }
    return;
  }
  const int flag = stream == "stdout" ? kStdout : stream == "stderr" ? kStderr : kChannels;
  if ((process.flags & flag) == 0) return;
  Json io{{"stream", stream}, {"rank", fmt::format("{}", instance_.rank)}};
  if (is_end) io["eof"] = true;
  if (!bytes.empty()) {
    const bool is_text = io::is_utf8(bytes) && bytes.find('\0') == bytes.npos;
    std::string data(is_text ? bytes : "");
    if (!is_text) append_base64(data, bytes);
    io["data"] = std::move(data);
    if (!is_text) io["encoding"] = "base64";
  }
  instance_.broker->respond(process.request,
                            {{"type", "output"}, {"pid", process.child->pid()}, {"io", std::move(io)}});
}

void Rexec::exited(Process& process) {
  const int status = process.child->status().raw();
  if (process.is_streamed)
    instance_.broker->respond(process.request, {{"type", "finished"}, {"status", status}});
  else
    host_.log().log(Level::notice, kRexec, "{}[{}]: {}", process.name, process.child->pid(),
                    process.child->status().str());
}

void Rexec::complete(Process& process) {
  process.is_complete = true;
  if (process.is_streamed) instance_.broker->respond_error(process.request, ENODATA, "");
  if (process.waiter) {
    instance_.broker->respond(*process.waiter, {{"status", process.child->status().raw()}});
    process.is_waited = false;
  }
  remove_complete();
}

void Rexec::remove_complete() {
  std::erase_if(processes_,
                [this](const Process& each) { return each.is_complete && (!each.is_waited || is_over_); });
  if (!processes_.empty() || !std::exchange(holds_, false)) return;
  timer_.reset();
  static_cast<void>(host_.release(kRexecHold));
}

void Rexec::end_all() {
  is_over_ = true;
  remove_complete();
  if (processes_.empty()) return;
  host_.hold(kRexecHold);
  holds_ = true;
  auto timer = event::Timer::create(host_.loop(), [this] {
    for (Process& each : processes_) static_cast<void>(each.child->kill(SIGKILL));
  });
  if (timer) {
    timer_ = *std::move(timer);
    if (!after_term_.is_infinite()) timer_->start(event::Seconds(after_term_.seconds()));
  }
  for (Process& each : processes_) static_cast<void>(each.child->kill(timer_ ? SIGTERM : SIGKILL));
}

// ---- input ------------------------------------------------------------------------------

// It is about a command that may have ended meanwhile, and nobody waits for an answer.
void Rexec::write(const Request& request) {
  auto done = [&]() -> Result<void> {
    const Json parsed = TRY(parse_json(request.text()));
    const JsonAt message = JsonAt::root(parsed);
    const auto tag = TRY(TRY(message.at("matchtag")).integer(0, UINT32_MAX));
    const JsonAt io = TRY(message.at("io"));
    auto found = std::find_if(processes_.begin(), processes_.end(), [&](const Process& each) {
      return each.is_streamed && each.request.tag == static_cast<std::uint32_t>(tag) &&
             broker::sender_of(each.request) == broker::sender_of(request);
    });
    if (found == processes_.end()) return {};
    std::string bytes;
    if (TRY(io.find("data"))) bytes = TRY(broker::data_in(io));
    const std::string stream = TRY(TRY(io.at("stream")).string());
    const auto eof = TRY(io.find("eof"));
    const bool ends = eof && TRY(eof->boolean());
    if (stream == "stdin") {
      found->input += bytes;
      found->input_ends = found->input_ends || ends;
      feed(*found);
    } else if (task::BufferedStream* channel = found->child->stream(stream)) {
      static_cast<void>(channel->write(bytes));  // it reads no more
      if (ends) channel->close();
    }
    return {};
  }();
  if (!done) host_.log().log(Level::warn, kRexec, "write: {}", done.error().message);
}

void Rexec::feed(Process& process) {
  task::BufferedStream* input = process.child->stream("stdin");
  if (input == nullptr) return;
  if (const std::size_t size = std::min(process.input.size(), input->room()); size > 0) {
    if (!input->write(std::string_view(process.input).substr(0, size))) process.input.clear();  // it reads no more
    process.input.erase(0, size);
  }
  if (process.input.empty() && process.input_ends && !input->closed()) input->close();
}

void Rexec::give_credit(Process& process, std::size_t bytes) {
  if (!process.child) return;
  feed(process);
  if ((process.flags & kWriteCredit) == 0) return;
  instance_.broker->respond(process.request, {{"type", "add-credit"}, {"channels", {{"stdin", bytes}}}});
}

// ---- the others -------------------------------------------------------------------------

Result<Rexec::Process*> Rexec::find(const JsonAt& message) {
  const auto pid = TRY(TRY(message.at("pid")).integer(-1, INT32_MAX));
  std::optional<std::string> label;
  if (auto given = TRY(message.find("label"))) label = TRY(given->string());
  for (Process& each : processes_) {
    if (label ? each.label == *label : each.child->pid() == pid) return &each;
  }
  return Error{ESRCH, label ? fmt::format("no command has the label {}", *label)
                            : fmt::format("no command has the process {}", pid)};
}

Result<void> Rexec::kill(const Request& request) {
  const Json parsed = TRY(parse_json(request.text()));
  const JsonAt message = JsonAt::root(parsed);
  Process* process = TRY(find(message));
  CHECK_OK(process->child->kill(static_cast<int>(TRY(TRY(message.at("signum")).integer(1, NSIG - 1)))));
  instance_.broker->respond(request, nullptr);
  return {};
}

Result<void> Rexec::wait(const Request& request) {
  const Json parsed = TRY(parse_json(request.text()));
  Process* process = TRY(find(JsonAt::root(parsed)));
  if (!process->is_waited) return Error{EINVAL, "it was not started to be waited for"};
  if (process->waiter) return Error{EINVAL, "another client waits for it"};
  process->waiter = request;
  if (process->is_complete) complete(*process);
  return {};
}

void Rexec::list(const Request& request) {
  Json rows = Json::array();
  for (const Process& each : processes_) {
    rows.push_back({{"pid", each.child->pid()},
                    {"cmd", each.name},
                    {"label", each.label},
                    {"state", each.child->exited() ? "Z" : "R"}});
  }
  instance_.broker->respond(request, {{"rank", instance_.rank}, {"procs", std::move(rows)}});
}

void Rexec::disconnect(const Request& request) {
  const std::string sender = broker::sender_of(request);
  for (Process& each : processes_) {
    if (each.is_streamed && broker::sender_of(each.request) == sender) static_cast<void>(each.child->kill(SIGKILL));
    if (each.waiter && broker::sender_of(*each.waiter) == sender) each.waiter.reset();
  }
}

}  // namespace nacre::plugins
