// SPDX-License-Identifier: Apache-2.0
//
// <flux/subprocess.h>: streams; and the streams of tasks.
#include "flux/subprocess.hpp"

using namespace nacre;          // NOLINT
using namespace nacre::capi;    // NOLINT
using namespace nacre::plugin;  // NOLINT

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
