// SPDX-License-Identifier: Apache-2.0
#include "plugins/pmi/group.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/bytes.hpp"

namespace nacre::plugins {

std::string text_of(const pmi::Full& full, std::string_view name) {
  std::string what = full.client ? fmt::format("{}: what it puts is refused: with it", name)
                                 : "a barrier fails: with those of the other nodes";
  return fmt::format("{} the keys of the job would have {} bytes, and they may have {} (-o pmi.max-size=SIZE)",
                     what, full.bytes, full.limit);
}

PmiGroup::PmiGroup(event::Loop& loop, pmi::ClientGroup group, pmi::Names& names, pmi::KeyExchange& exchange,
                   Callbacks callbacks, PmiPort* port)
    : loop_(loop),
      server_(std::move(group), names),
      exchange_(exchange),
      callbacks_(std::move(callbacks)),
      port_(port),
      links_(server_.clients().size()) {
  exchange_.when_awaited([this](const pmi::BarrierGroup& awaited) {
    server_.group_awaited(awaited);
    pump();
  });
}

Result<UniqueFd> PmiGroup::offer(std::uint32_t client, task::Command& command) {
  return links_[client].offer(command, port_, server_.group().ranks[client], server_.group().size);
}

Result<void> PmiGroup::start(std::uint32_t client) {
  return links_[client].watch(loop_, [this, client](std::string_view bytes) { received(client, bytes); });
}

void PmiGroup::received(std::uint32_t client, std::string_view bytes) {
  if (!bytes.empty()) {
    if (callbacks_.on_bytes) callbacks_.on_bytes(client, false, bytes);
    if (bytes.find(kDead) != std::string_view::npos) {
      for (PmiLink& link : links_) link.drain_if_ended();
    }
    pmi::ClientStage before = server_.clients()[client].stage;
    server_.receive(client, bytes);
    pmi::ClientStage stage = server_.clients()[client].stage;
    if (callbacks_.on_stage && stage != before) callbacks_.on_stage(client, stage);
    return pump();
  }
  if (server_.clients()[client].stage != pmi::ClientStage::finalized) callbacks_.on_left(client);
  server_.closed(client);
  pump();
}

void PmiGroup::end(std::uint32_t client) {
  links_[client].close();
  server_.ended(client);
  pump();
}

void PmiGroup::reopen(std::uint32_t client) {
  links_[client].close();
  server_.reopened(client);
}

void PmiGroup::spawned(std::uint32_t client, const Result<std::string>& kvsname, const std::vector<int>& codes) {
  server_.spawned(client, kvsname, codes);
  pump();
}

void PmiGroup::close() {
  for (PmiLink& link : links_) link.close();
}

void PmiGroup::pump() {
  if (!pump_.run([this] { return step(); })) return;
  const bool waits = server_.barrier_begun() || server_.group_barrier_begun();
  if (waits != waited_) callbacks_.on_wait(waited_ = waits);
}

bool PmiGroup::step() {
  std::vector<pmi::Event> events = server_.take_events();
  server_.take_pending(pending_);
  for (std::uint32_t client : pending_) {
    if (callbacks_.on_bytes) callbacks_.on_bytes(client, true, server_.output(client));
    links_[client].send(server_.output(client));
  }
  bool is_any = !events.empty() || !pending_.empty();
  for (pmi::Event& event : events) carry_out(event);
  return is_any;
}

void PmiGroup::carry_out(pmi::Event& event) {
  if (auto* fence = std::get_if<pmi::Fence>(&event)) {
    if (!callbacks_.on_barrier()) return;
    exchange_.fence(fence->entries, [this](Result<pmi::Entries> others) {
      server_.fenced(std::move(others));
      pump();
    });
  } else if (auto* part = std::get_if<pmi::GroupFence>(&event)) {
    if (!callbacks_.on_group_barrier(part->clients)) return;
    exchange_.fence_group(part->group, part->entries,
                          [this, name = part->group.name()](Result<pmi::Entries> others) {
                            server_.group_fenced(name, std::move(others));
                            pump();
                          });
  } else if (auto* abort = std::get_if<pmi::Abort>(&event)) {
    callbacks_.on_abort(*abort);
  } else if (auto* dropped = std::get_if<pmi::Dropped>(&event)) {
    links_[dropped->client].close_when_sent();
    callbacks_.on_dropped(*dropped);
  } else if (auto* full = std::get_if<pmi::Full>(&event)) {
    callbacks_.on_full(*full);
  } else {
    callbacks_.on_spawn(std::move(std::get<pmi::SpawnRequest>(event)));
  }
}

// ---- link -------------------------------------------------------------------------------

namespace {

constexpr std::size_t kLinkRead = std::size_t{16} << 10;

}  // namespace

Result<UniqueFd> PmiLink::open() {
  int pair[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0) {
    return system_error(errno, "cannot open a socket pair for PMI");
  }
  ours_ = UniqueFd(pair[0]);
  return UniqueFd(pair[1]);
}

Result<UniqueFd> PmiLink::offer(task::Command& command, PmiPort* port, std::uint32_t rank, std::uint32_t size) {
  if (port == nullptr) {
    UniqueFd end = TRY(open());
    int target = command.setup.unused_target();
    command.setup.fds.push_back({target, end.get()});
    command.env.set("PMI_FD", fmt::format_int(target).str());
    return end;
  }
  close();
  id_ = TRY(port->expect(rank, size, [this](UniqueFd connection, bool is_greeted, const std::string& said) {
    admit(std::move(connection), is_greeted, said);
  }));
  port_ = port;
  command.env.set("PMI_PORT", port->address());
  command.env.set("PMI_ID", fmt::format_int(id_).str());
  return UniqueFd();
}

Result<void> PmiLink::watch(event::Loop& loop, Received received) {
  received_ = std::move(received);
  loop_ = &loop;
  return ours_ ? watch_ours() : Result<void>();
}

Result<void> PmiLink::watch_ours() {
  poll_ = TRY(event::Poll::create(*loop_, ours_.get(), [this](int events) { ready(events); }));
  poll_->keeps_running(false);
  return poll_->start(event::Poll::kReadable);
}

void PmiLink::admit(UniqueFd connection, bool is_greeted, std::string_view said) {
  port_ = nullptr;
  ours_ = std::move(connection);
  is_greeted_ = is_greeted;
  if (loop_ == nullptr || !watch_ours()) return close();
  if (!said.empty()) received_(said);
}

void PmiLink::ready(int events) {
  if ((events & event::Poll::kWritable) != 0) return flush();
  if (unsent_.empty()) read_some();
}

bool PmiLink::read_some() {
  HeapBuffer<kLinkRead> buffer;
  ssize_t size = ::recv(ours_.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
  if (size < 0 && (errno == EAGAIN || errno == EINTR)) return false;
  if (size > 0) {
    received_({buffer.data(), static_cast<std::size_t>(size)});
    return static_cast<std::size_t>(size) == buffer.size();
  }
  close();
  received_({});
  return false;
}

void PmiLink::drain() {
  if (port_ != nullptr) port_->look();
  while (ours_ && poll_ && read_some()) {
  }
}

void PmiLink::drain_if_ended() {
  while (ours_ && poll_) {
    pollfd state{ours_.get(), POLLIN | POLLRDHUP, 0};
    if (::poll(&state, 1, 0) <= 0 || (state.revents & (POLLHUP | POLLRDHUP)) == 0) return;
    drain();
  }
}

void PmiLink::send_some(std::string& bytes) {
  ssize_t sent = ::send(ours_.get(), bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  if (sent == static_cast<ssize_t>(bytes.size())) return bytes.clear();
  if (sent > 0) bytes.erase(0, static_cast<std::size_t>(sent));
  if (sent < 0 && errno != EAGAIN && errno != EINTR)
    bytes.clear();  // the peer has gone; the next read will find
                    // that
}

void PmiLink::send(std::string& bytes) {
  if (!ours_) return bytes.clear();
  if (!bytes.empty() && std::exchange(is_greeted_, false)) bytes.erase(0, bytes.find('\n') + 1);
  if (unsent_.empty()) send_some(bytes);
  if (bytes.empty()) return;
  unsent_ += bytes;
  bytes.clear();
  static_cast<void>(poll_->start(event::Poll::kWritable));
}

void PmiLink::flush() {
  send_some(unsent_);
  if (!unsent_.empty()) return;
  if (closing_) return close();
  static_cast<void>(poll_->start(event::Poll::kReadable));
}

void PmiLink::close_when_sent() {
  closing_ = true;
  if (unsent_.empty()) close();
}

void PmiLink::close() {
  if (port_ != nullptr) std::exchange(port_, nullptr)->forget(id_);
  poll_.reset();
  ours_.reset();
  unsent_.clear();
}

// ---- moved tasks ------------------------------------------------------------------------

Result<UniqueFd> PmiMovedTasks::offer(task::Task& task, PmiPort* port) {
  links_.erase(task.local_id());
  return links_[task.local_id()].offer(task.command(), port, task.rank(),
                                       static_cast<std::uint32_t>(host_.job().tasks()));
}

Result<void> PmiMovedTasks::watch(const task::Task& task) {
  return links_.at(task.local_id()).watch(host_.loop(), [this, rank = task.rank()](std::string_view bytes) {
    received(rank, bytes);
  });
}

void PmiMovedTasks::forget() {
  links_.clear();
  has_called_ = false;
}

void PmiMovedTasks::received(std::uint32_t rank, std::string_view bytes) {
  if (bytes.empty() || std::exchange(has_called_, true)) return;
  if (options_.starts_again) {
    log(host_, plugin_, Level::warn,
        "rank {}{} calls PMI, and has been started again on another shell: it is killed, so that all tasks start "
        "again together",
        rank, host_.job().node().on());
    return kill(rank);
  }
  host_.raise({"exec", 0,
               fmt::format("rank {}{} calls PMI, and has been started again on another shell: the other tasks "
                           "cannot know it again by PMI (-o pmi=off, if the program does not need it)",
                           rank, host_.job().node().on()),
               value::WaitStatus::exited(1)});
}

void PmiMovedTasks::kill(std::uint32_t rank) {
  for (const auto& task : host_.tasks()) {
    if (task->rank() == rank) task->kill(SIGKILL);
  }
}

}  // namespace nacre::plugins
