// SPDX-License-Identifier: Apache-2.0
//
// nacre control --bridge ID: copies bytes between the control socket of a job of this host and its own standard
// input and output. Other verbs start it where the job's leader is; see nacre-control(1).
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/bytes.hpp"
#include "base/file.hpp"
#include "base/program.hpp"
#include "cli/command_line.hpp"
#include "control/client.hpp"
#include "event/clock.hpp"
#include "front/verbs.hpp"
#include "record/places.hpp"

namespace nacre::front {
namespace {

constexpr std::size_t kCopied = std::size_t{64} << 10;  // bytes at once

// Returns whether there may be more. Waits until the other side has taken what was read.
bool copy_some(int from, int to) {
  HeapBuffer<kCopied> buffer;
  ssize_t got = ::read(from, buffer.data(), buffer.size());
  if (got < 0) return errno == EAGAIN || errno == EINTR;
  return got > 0 && write_all(to, {buffer.data(), static_cast<std::size_t>(got)}) == 0;
}

void copy_both_ways(int socket) {
  std::array<pollfd, 2> ends{{{STDIN_FILENO, POLLIN, 0}, {socket, POLLIN, 0}}};
  for (;;) {
    if (::poll(ends.data(), ends.size(), -1) < 0 && errno != EINTR) return;
    if (ends[1].revents != 0 && !copy_some(socket, STDOUT_FILENO)) return;
    if (ends[0].revents != 0 && !copy_some(STDIN_FILENO, socket)) return;
  }
}

class ControlVerb final : public cli::Verb {
 public:
  void add_to(cli::CommandLine& verb) override {
    verb_ = &verb;
    verb_->add_option("--bridge", id_, "Copy bytes between standard input and output and this job's leader")
        ->option_text("ID")
        ->required();
    verb_->add_option("--jobs-dir", directory_, "Look for it in this directory, too")->option_text("DIR");
  }

  Result<int> run() override {
    std::signal(SIGPIPE, SIG_IGN);
    std::vector<std::string> places = record::places(own_variable);
    if (directory_.starts_with('/')) places.insert(places.begin(), directory_);
    auto list = record::JobList::read(places, record::own_witness(), event::wall_clock());
    const record::Listed* job = TRY(list.find(id_));
    if (job->entry.ended()) return Error{ESRCH, fmt::format("job {} has ended", job->entry.id.f58_plain())};
    if (job->state == record::JobState::unknown && job->entry.place.host != record::own_place().host)
      return invalid(fmt::format("job {}: its leader is on {}", job->entry.id.f58_plain(), job->entry.place.host));
    UniqueFd socket = TRY(control::Client::connect(job->entry.address));
    copy_both_ways(socket.get());
    return 0;
  }

 private:
  cli::CommandLine* verb_ = nullptr;
  std::string id_;
  std::string directory_;
};

}  // namespace

VerbPtr make_control() { return std::make_unique<ControlVerb>(); }

}  // namespace nacre::front
