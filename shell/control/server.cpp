// SPDX-License-Identifier: Apache-2.0
#include "control/server.hpp"

#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bytes.hpp"

namespace nacre::control {
namespace {

constexpr std::size_t kReadAtOnce = std::size_t{64} << 10;
constexpr int kAcceptAtOnce = 16;
constexpr event::Seconds kRest{1};  // before the next accept(2) when no descriptor is left

// Whether there is a socket of this user at the path. It may be another one: fstat(2) of a socket does not show
// which file it is.
bool is_there(const std::string& path) {
  struct stat status {};
  return ::lstat(path.c_str(), &status) == 0 && S_ISSOCK(status.st_mode) && status.st_uid == ::geteuid();
}

}  // namespace

Result<void> check_peer(int socket) {
  ucred peer{};
  socklen_t size = sizeof peer;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0)
    return system_error(errno, "cannot find the user of the process on the other side");
  if (peer.uid == ::geteuid() || peer.uid == 0) return {};
  return Error{EPERM, fmt::format("process {} on the other side is user {}'s", peer.pid, peer.uid)};
}

ControlServer::ControlServer(event::Loop& loop, std::string parent, std::string version, Callbacks callbacks,
                             event::Seconds hello_time)
    : loop_(loop),
      parent_(std::move(parent)),
      version_(std::move(version)),
      callbacks_(std::move(callbacks)),
      hello_time_(hello_time) {}

Result<std::unique_ptr<ControlServer>> ControlServer::create(event::Loop& loop, std::string parent,
                                                             std::string version, Callbacks callbacks,
                                                             event::Seconds hello_time) {
  std::unique_ptr<ControlServer> out(
      new ControlServer(loop, std::move(parent), std::move(version), std::move(callbacks), hello_time));
  out->hello_timer_ = TRY(event::Timer::create(loop, [server = out.get()] { server->drop_silent(); }));
  out->hello_timer_->unref();
  CHECK_OK(out->open());
  return out;
}

Result<void> ControlServer::open() {
  poll_.reset();
  socket_.reset();
  directory_.reset();
  directory_ = TRY(transport::SocketDirectory::create(parent_, callbacks_.on_directory));
  socket_ = TRY(transport::BoundSocket::local(directory_->socket()));
  return listen();
}

Result<void> ControlServer::listen() {
  poll_ = TRY(event::Poll::create(loop_, socket_->fd(), [this](int) { accept_some(); }));
  poll_->keeps_running(false);
  return poll_->start(event::Poll::kReadable);
}

Result<bool> ControlServer::restore() {
  if (socket_ && is_there(socket_->path())) return false;
  CHECK_OK(open());
  return true;
}

void ControlServer::accept_some() {
  for (int count = 0; count < kAcceptAtOnce; ++count) {
    UniqueFd fd(::accept4(socket_->fd(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (fd) {
      add(std::move(fd));
      continue;
    }
    if (errno == EMFILE || errno == ENFILE) {
      poll_->stop();  // else accept_some() would be called again at once
      look_again_in(kRest);
    }
    if (errno != ECONNABORTED && errno != EINTR) return;
  }
}

void ControlServer::add(UniqueFd fd) {
  if (!check_peer(fd.get())) return;
  if (clients_.size() >= kMaxClients) {
    std::string line = line_of(ControlHello{version_, fmt::format("{} others are connected already", kMaxClients)});
    [[maybe_unused]] ssize_t sent = ::send(fd.get(), line.data(), line.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    return;
  }
  ClientId id = ++last_id_;
  std::unique_ptr<Client> client(
      new Client{std::move(fd), Session(version_, callbacks_of(id)), loop_.now(), std::nullopt});
  auto poll = event::Poll::create(loop_, client->fd.get(), [this, id](int events) { on_ready(id, events); });
  if (!poll) return;
  client->poll = *std::move(poll);
  client->poll->keeps_running(false);
  await(id, *client);
  clients_.emplace(id, std::move(client));
  look_again_in(hello_time_);
}

Session::Callbacks ControlServer::callbacks_of(ClientId id) {
  Session::Callbacks out;
  out.on_request = [this, id](const ControlRequest& request) { callbacks_.on_request(id, request); };
  if (callbacks_.on_data) out.on_data = [this, id](StreamData data) { callbacks_.on_data(id, std::move(data)); };
  if (callbacks_.on_end) out.on_end = [this, id](const StreamEnd& end) { callbacks_.on_end(id, end); };
  if (callbacks_.on_room) out.on_room = [this, id](std::uint64_t request) { callbacks_.on_room(id, request); };
  return out;
}

void ControlServer::await(ClientId, Client& client) {
  // Only the loop drops a client, as this may be called while the client is read from.
  if (client.session.is_full()) ::shutdown(client.fd.get(), SHUT_RDWR);
  int events = event::Poll::kReadable;
  if (!client.session.output().empty()) events |= event::Poll::kWritable;
  static_cast<void>(
      client.poll->start(events));  // if this fails there are no events, and the link ends with the job
}

void ControlServer::on_ready(ClientId id, int events) {
  auto found = clients_.find(id);
  if (found == clients_.end()) return;
  Client& client = *found->second;
  bool goes_on = events != 0;
  if (goes_on && (events & event::Poll::kReadable) != 0) goes_on = read_some(client);
  if (goes_on) goes_on = write_some(client) && !client.session.is_full();
  if (goes_on)
    await(id, client);
  else
    drop(id);
}

bool ControlServer::read_some(Client& client) {
  HeapBuffer<kReadAtOnce> buffer;
  ssize_t got = ::recv(client.fd.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
  if (got < 0) return errno == EAGAIN || errno == EINTR;
  if (got == 0) return false;
  return client.session.receive({buffer.data(), static_cast<std::size_t>(got)}).has_value();
}

bool ControlServer::write_some(Client& client) {
  std::string_view output = client.session.output();
  if (output.empty()) return true;
  ssize_t sent = ::send(client.fd.get(), output.data(), output.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent < 0) return errno == EAGAIN || errno == EINTR;
  sent_bytes_ += static_cast<std::uint64_t>(sent);
  client.session.sent(static_cast<std::size_t>(sent));
  return true;
}

void ControlServer::answer(ClientId client, std::uint64_t id, const Result<Json>& value) {
  auto found = clients_.find(client);
  if (found == clients_.end()) return;
  found->second->session.answer(id, value);
  await(client, *found->second);
}

void ControlServer::answer_part(ClientId client, std::uint64_t id, Json value) {
  auto found = clients_.find(client);
  if (found == clients_.end()) return;
  found->second->session.answer_part(id, std::move(value));
  await(client, *found->second);
}

bool ControlServer::put(ClientId client, const StreamData& data) {
  auto found = clients_.find(client);
  if (found == clients_.end()) return true;
  bool is_sent = found->second->session.put(data);
  if (is_sent) await(client, *found->second);
  return is_sent;
}

std::size_t ControlServer::room(ClientId client, std::uint64_t id) const {
  auto found = clients_.find(client);
  return found == clients_.end() ? 0 : found->second->session.room(id);
}

void ControlServer::put_end(ClientId client, const StreamEnd& end) {
  auto found = clients_.find(client);
  if (found == clients_.end()) return;
  found->second->session.put_end(end);
  await(client, *found->second);
}

void ControlServer::grant(ClientId client, std::uint64_t id, std::size_t bytes) {
  auto found = clients_.find(client);
  if (found == clients_.end()) return;
  found->second->session.grant(id, bytes);
  await(client, *found->second);
}

void ControlServer::notify(const ControlEvent& event) {
  for (auto& [id, client] : clients_) {
    client->session.notify(event);
    await(id, *client);
  }
}

bool ControlServer::flushed() const {
  for (const auto& [id, client] : clients_) {
    if (!client->session.output().empty()) return false;
  }
  return true;
}

void ControlServer::drop(ClientId id) {
  if (clients_.erase(id) > 0 && callbacks_.on_gone) callbacks_.on_gone(id);
}

// Further connections do not delay the look.
void ControlServer::look_again_in(event::Seconds delay) {
  double at = loop_.now() + delay.count();
  if (looks_at_ && *looks_at_ <= at) return;
  looks_at_ = at;
  hello_timer_->start(delay);
}

void ControlServer::drop_silent() {
  looks_at_.reset();
  std::vector<ClientId> silent;
  std::optional<double> first;  // of the clients that are not silent for too long yet
  for (const auto& [id, client] : clients_) {
    if (client->session.is_greeted()) continue;
    if (loop_.now() - client->connected >= hello_time_.count())
      silent.push_back(id);
    else
      first = std::min(first.value_or(client->connected), client->connected);
  }
  for (ClientId id : silent) drop(id);
  static_cast<void>(poll_->start(event::Poll::kReadable));
  if (first) look_again_in(event::Seconds(*first - loop_.now()) + hello_time_);
}

}  // namespace nacre::control
