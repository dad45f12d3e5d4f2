// SPDX-License-Identifier: Apache-2.0
//
// <flux/subprocess.h>: starts processes and follows them. At the end: what they write and read.

#include "flux/flux.hpp"

using namespace nacre;          // NOLINT
using namespace nacre::capi;    // NOLINT
using namespace nacre::plugin;  // NOLINT
using nacre::flux::Runtime;

namespace {

// Callbacks may destroy the process that they are about.
template <typename Code>
void call_back(flux_subprocess* p, const Code& code) {
  ++p->calling;
  p->owner.run(code);
  if (--p->calling == 0 && p->destroyed) delete p;
}

task::Command command_of(const flux_cmd_t* cmd) {
  flux_cmd_t* copy = flux_cmd_copy(cmd);
  task::Command command = std::move(*of(copy));
  flux_cmd_destroy(copy);
  return command;
}

task::Subprocess::Options options_of(flux_subprocess* p, int flags, const flux_subprocess_hooks_t* hooks) {
  task::Subprocess::Options options;
  options.streams = {"stdin", "stdout", "stderr"};
  if ((flags & FLUX_SUBPROCESS_FLAGS_STDIO_FALLTHROUGH) != 0) {
    options.streams.clear();
    options.inherit_stdio = true;
  }
  if (hooks != nullptr && hooks->pre_exec != nullptr) {
    options.hook = [p, hook = hooks->pre_exec, arg = hooks->pre_exec_arg] {
      p->owner.run([&] { hook(p, arg); });
      return true;
    };
  }
  return options;
}

task::Subprocess::Callbacks callbacks_of(flux_subprocess* p) {
  task::Subprocess::Callbacks callbacks;
  callbacks.on_ready = [p](const std::string& name) { p->on_ready(name); };
  callbacks.on_room = [p](const std::string& name, std::size_t bytes) { p->on_room(name, bytes); };
  callbacks.on_exit = [p] { p->on_exit(); };
  callbacks.on_complete = [p] { p->on_complete(); };
  return callbacks;
}

void report_started(flux_subprocess* p) {
  p->report(FLUX_SUBPROCESS_RUNNING);
  std::vector<std::string> names = p->process->command().channels;
  names.emplace_back("stdin");
  for (const std::string& each : names) {
    if (task::BufferedStream* stream = p->stream(each)) p->on_room(each, stream->room());
  }
}

// The state changes only from the loop, so the first state is reported from there.
void report_soon(flux_subprocess* p) {
  auto* future = flux_future_create(nullptr, nullptr);
  flux_future_set_flux(future, p->runtime.handle());
  flux_subprocess_aux_set(p, "nacre::started", future,
                          [](void* f) { flux_future_destroy(static_cast<flux_future_t*>(f)); });
  flux_reactor* reactor = flux_future_get_reactor(future);
  static_cast<void>(future->arm(flux_future::When::then, reactor, [p] { report_started(p); }));
  flux_future_fulfill(future, nullptr, nullptr);
}

}  // namespace

// ---- a process -------------------------------------------------------------------

flux_subprocess::~flux_subprocess() { aux.clear(); }

task::BufferedStream* flux_subprocess::stream(std::string_view name) const {
  return task != nullptr ? task->channel(name) : process->stream(name);
}

bool flux_subprocess::exited() const {
  return task != nullptr ? task->state() == task::State::exited : process->exited();
}

void flux_subprocess::on_ready(const std::string& name) {
  flux_subprocess_output_f cb = ops.on_channel_out;
  if (name == "stdout") cb = ops.on_stdout;
  if (name == "stderr") cb = ops.on_stderr;
  if (cb == nullptr || destroyed) {
    stream(name)->read();  // drops it, as no callback is set
    return;
  }
  ++calling;
  owner.run([&] { cb(this, name.c_str()); });
  --calling;  // if it was destroyed meanwhile it goes with on_complete
}

void flux_subprocess::on_room(const std::string& name, std::size_t bytes) {
  if (ops.on_credit == nullptr || destroyed) return;
  ++calling;
  owner.run([&] { ops.on_credit(this, name.c_str(), static_cast<int>(bytes)); });
  --calling;
}

void flux_subprocess::report(flux_subprocess_state_t state) {
  if (ops.on_state_change == nullptr || destroyed) return;
  ++calling;
  owner.run([&] { ops.on_state_change(this, state); });
  --calling;
}

void flux_subprocess::on_exit() { report(FLUX_SUBPROCESS_EXITED); }

void flux_subprocess::on_complete() {
  call_back(this, [this] {
    if (ops.on_completion != nullptr && !destroyed) ops.on_completion(this);
  });
}

// ---- its start and end -------------------------------------------------------------

flux_subprocess_t* flux_local_exec_ex(flux_reactor_t* r, int flags, const flux_cmd_t* cmd,
                                      const flux_subprocess_ops_t* ops, const flux_subprocess_hooks_t* hooks,
                                      subprocess_log_f /*log_fn*/, void* /*log_data*/) noexcept {
  constexpr int kKnown = FLUX_SUBPROCESS_FLAGS_STDIO_FALLTHROUGH | FLUX_SUBPROCESS_FLAGS_NO_SETPGRP |
                         FLUX_SUBPROCESS_FLAGS_FORK_EXEC | FLUX_SUBPROCESS_FLAGS_LOCAL_UNBUF;
  flux_shell* shell = current_shell();
  if (r == nullptr || cmd == nullptr || (flags & ~kKnown) != 0 || flux_cmd_argc(cmd) < 1 || shell == nullptr) {
    return none(EINVAL);
  }
  Runtime* runtime = nacre::flux::runtime_of(*shell);
  if (runtime == nullptr) return nullptr;
  if (r->own) {
    runtime->debug("flux_local_exec: only on the shell's reactor");
    return none(ENOSYS);
  }
  auto p = std::make_unique<flux_subprocess>(*runtime, ops);
  task::Command command = command_of(cmd);
  command.setup.ends_with_parent = true;
  command.setup.new_process_group = (flags & FLUX_SUBPROCESS_FLAGS_NO_SETPGRP) == 0;
  auto started = task::Subprocess::start(shell->host.loop(), shell->host.children(), std::move(command),
                                         options_of(p.get(), flags, hooks), callbacks_of(p.get()));
  if (!started) {
    runtime->debug("flux_local_exec: " + started.error().error.message);
    return none(started.error().error.code);
  }
  p->process = *std::move(started);
  if (hooks != nullptr && hooks->post_fork != nullptr) {
    p->owner.run([&] { hooks->post_fork(p.get(), hooks->post_fork_arg); });
  }
  report_soon(p.get());
  return p.release();
}

flux_subprocess_t* flux_local_exec(flux_reactor_t* r, int flags, const flux_cmd_t* cmd,
                                   const flux_subprocess_ops_t* ops) noexcept {
  return flux_local_exec_ex(r, flags, cmd, ops, nullptr, nullptr, nullptr);
}

flux_subprocess_t* flux_rexec(flux_t* h, int /*rank*/, int /*flags*/, const flux_cmd_t* cmd,
                              const flux_subprocess_ops_t* /*ops*/) noexcept {
  if (h == nullptr || cmd == nullptr) return none(EINVAL);
  h->runtime.debug("flux_rexec: not offered by this shell: there is no Flux broker");
  return none(ENOSYS);
}

void flux_subprocess_destroy(flux_subprocess_t* p) noexcept {
  if (p == nullptr || p->task != nullptr) return;
  int saved = errno;
  if (p->calling > 0) {
    p->destroyed = true;
  } else {
    delete p;
  }
  errno = saved;
}

flux_future_t* flux_subprocess_kill(flux_subprocess_t* p, int signum) noexcept {
  if (p == nullptr || signum < 1 || signum >= NSIG) return none(EINVAL);
  flux_future_t* f = flux_future_create(nullptr, nullptr);
  flux_future_set_flux(f, p->runtime.handle());
  errno = ESRCH;
  bool sent = p->task != nullptr ? p->task->kill(signum) : p->process->kill(signum).has_value();
  if (sent) {
    flux_future_fulfill(f, nullptr, nullptr);
  } else {
    flux_future_fulfill_error(f, p->exited() ? ESRCH : errno, nullptr);
  }
  return f;
}

// ---- its state ---------------------------------------------------------------------

flux_subprocess_state_t flux_subprocess_state(flux_subprocess_t* p) noexcept {
  if (p == nullptr || (p->task != nullptr && p->task->state() == task::State::init)) return FLUX_SUBPROCESS_INIT;
  if (!p->exited()) return FLUX_SUBPROCESS_RUNNING;
  return p->pid() > 0 ? FLUX_SUBPROCESS_EXITED : FLUX_SUBPROCESS_FAILED;
}

const char* flux_subprocess_state_string(flux_subprocess_state_t state) noexcept {
  switch (state) {
    case FLUX_SUBPROCESS_INIT: return "Init";
    case FLUX_SUBPROCESS_RUNNING: return "Running";
    case FLUX_SUBPROCESS_EXITED: return "Exited";
    case FLUX_SUBPROCESS_FAILED: return "Failed";
    case FLUX_SUBPROCESS_STOPPED: return "Stopped";
  }
  return nullptr;
}

bool flux_subprocess_active(flux_subprocess_t* p) noexcept {
  if (p == nullptr) return false;
  return p->task != nullptr ? p->task->state() == task::State::running : !p->process->complete();
}

pid_t flux_subprocess_pid(flux_subprocess_t* p) noexcept {
  if (p == nullptr || p->pid() <= 0) return fail(EINVAL);
  return p->pid();
}

int flux_subprocess_rank(flux_subprocess_t* /*p*/) noexcept { return fail(EINVAL); }

int flux_subprocess_fail_errno(flux_subprocess_t* p) noexcept {
  if (p == nullptr || flux_subprocess_state(p) != FLUX_SUBPROCESS_FAILED) return fail(EINVAL);
  return p->status().exit_code() == task::kExitNotFound ? ENOENT : EACCES;
}

const char* flux_subprocess_fail_error(flux_subprocess_t* p) noexcept {
  int code = flux_subprocess_fail_errno(p);
  return code < 0 ? "no failure" : std::strerror(code);
}

int flux_subprocess_status(flux_subprocess_t* p) noexcept {
  return p != nullptr && p->exited() ? p->status().raw() : fail(EINVAL);
}

int flux_subprocess_exit_code(flux_subprocess_t* p) noexcept {
  return p != nullptr && p->exited() && p->status().is_exit() ? p->status().exit_code() : fail(EINVAL);
}

int flux_subprocess_signaled(flux_subprocess_t* p) noexcept {
  return p != nullptr && p->exited() && p->status().signal() > 0 ? p->status().signal() : fail(EINVAL);
}

flux_cmd_t* flux_subprocess_get_cmd(flux_subprocess_t* p) noexcept {
  if (p == nullptr) return none(EINVAL);
  return p->task != nullptr ? handle(&p->task->command()) : handle(&p->process->command());
}

flux_reactor_t* flux_subprocess_get_reactor(flux_subprocess_t* p) noexcept {
  return p != nullptr ? p->runtime.handle()->reactor : none(EINVAL);
}

int flux_subprocess_aux_set(flux_subprocess_t* p, const char* name, void* ctx, flux_free_f free_fn) noexcept {
  if (p == nullptr) return fail(EINVAL);
  Result<void> set = p->aux.set(name, ctx, free_fn);
  return set ? 0 : fail(set.error().code);
}

void* flux_subprocess_aux_get(flux_subprocess_t* p, const char* name) noexcept {
  if (p == nullptr || name == nullptr) return none(EINVAL);
  void* found = p->aux.get(name);
  return found != nullptr ? found : none(ENOENT);
}

// ---- streams ----------------------------------------------------------------------------
//
// <flux/subprocess.h>: streams; and the streams of tasks.

namespace {

task::BufferedStream* stream_of(flux_subprocess_t* p, const char* stream) {
  if (p == nullptr || stream == nullptr) return none(EINVAL);
  task::BufferedStream* found = p->stream(stream);
  return found != nullptr ? found : none(EINVAL);
}

// Keeps a copy of what was read, as the stream's own buffer has no NUL at its end.
int give(flux_subprocess_t* p, const char* stream, const char** bufp, std::string_view bytes) {
  std::string& kept = p->read[stream];
  kept = bytes;
  if (bufp != nullptr) *bufp = kept.c_str();
  return static_cast<int>(kept.size());
}

}  // namespace

int flux_subprocess_write(flux_subprocess_t* p, const char* stream, const char* buf, size_t len) noexcept {
  task::BufferedStream* to = stream_of(p, stream);
  if (to == nullptr || buf == nullptr) return fail(EINVAL);
  Result<void> written = to->write({buf, len});
  return written ? static_cast<int>(len) : fail(written.error().code == EBADF ? EINVAL : written.error().code);
}

int flux_subprocess_close(flux_subprocess_t* p, const char* stream) noexcept {
  task::BufferedStream* to = stream_of(p, stream);
  if (to == nullptr) return -1;
  to->close();
  return 0;
}

int flux_subprocess_read(flux_subprocess_t* p, const char* stream, const char** bufp) noexcept {
  task::BufferedStream* from = stream_of(p, stream);
  return from != nullptr ? give(p, stream, bufp, from->read()) : -1;
}

int flux_subprocess_read_line(flux_subprocess_t* p, const char* stream, const char** bufp) noexcept {
  task::BufferedStream* from = stream_of(p, stream);
  return from != nullptr ? give(p, stream, bufp, from->read_line()) : -1;
}

int flux_subprocess_read_trimmed_line(flux_subprocess_t* p, const char* stream, const char** bufp) noexcept {
  task::BufferedStream* from = stream_of(p, stream);
  if (from == nullptr) return -1;
  std::string_view line = from->read_line();
  if (!line.empty()) line.remove_suffix(1);
  return give(p, stream, bufp, line);
}

int flux_subprocess_getline(flux_subprocess_t* p, const char* stream, const char** bufp) noexcept {
  task::BufferedStream* from = stream_of(p, stream);
  return from != nullptr ? give(p, stream, bufp, from->get_line()) : -1;
}

bool flux_subprocess_read_stream_closed(flux_subprocess_t* p, const char* stream) noexcept {
  task::BufferedStream* from = stream_of(p, stream);
  return from != nullptr && from->at_end();
}

void flux_subprocess_stream_start(flux_subprocess_t* p, const char* stream) noexcept {
  if (task::BufferedStream* from = stream_of(p, stream)) static_cast<void>(from->resume());
}

void flux_subprocess_stream_stop(flux_subprocess_t* p, const char* stream) noexcept {
  if (task::BufferedStream* from = stream_of(p, stream)) from->pause();
}

// ---- tasks -----------------------------------------------------------------------

flux_subprocess_t* flux_shell_task_subprocess(flux_shell_task_t* task) noexcept {
  flux_shell* shell = current_shell();
  if (task == nullptr || shell == nullptr) return none(EINVAL);
  nacre::flux::Runtime* runtime = nacre::flux::runtime_of(*shell);
  return runtime != nullptr ? runtime->process_of(*of(task)) : nullptr;
}

int flux_shell_task_channel_subscribe(flux_shell_task_t* task, const char* channel, flux_shell_task_io_f cb,
                                      void* arg) noexcept {
  if (task == nullptr || channel == nullptr || cb == nullptr) return fail(EINVAL);
  Callback owner("task channel callback");
  std::string name = channel;
  auto on_ready = [=] { owner.run([&] { cb(task, name.c_str(), arg); }); };
  Result<void> subscribed = of(task)->subscribe(name, on_ready);
  return subscribed ? 0 : fail(subscribed.error().code);
}
