// SPDX-License-Identifier: Apache-2.0
#include "group_world.hpp"

#include <sys/socket.h>
#include <sys/un.h>

namespace nacre::group {

int break_links_to(const std::string& path) {
  constexpr int kMostDescriptors = 1024;
  int broken = 0;
  for (int fd = 0; fd < kMostDescriptors; ++fd) {
    sockaddr_un name{};
    socklen_t size = sizeof name;
    int listens = 1;
    socklen_t listens_size = sizeof listens;
    bool is_socket = ::getsockname(fd, reinterpret_cast<sockaddr*>(&name), &size) == 0 &&
                     name.sun_family == AF_UNIX &&
                     ::getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &listens_size) == 0;
    if (is_socket && listens == 0 && path == name.sun_path && ::shutdown(fd, SHUT_RDWR) == 0) ++broken;
  }
  return broken;
}

Membership World::prepare(Rank rank, Over over) {
  std::vector<transport::BoundSocket> sockets;
  std::string address;
  if (over == Over::tcp) {
    sockets.push_back(transport::BoundSocket::tcp("127.0.0.1", 0).value());
    address = fmt::format("127.0.0.1:{}", sockets.back().port());
  } else {
    sockets.push_back(transport::BoundSocket::local(folder.path(fmt::format("s{}", rank))).value());
    address = "unix:" + sockets.back().path();
  }
  return {"1.2.3",      value::JobId(kTestJob), rank,    size, arity, secret_of('a'),
          std::nullopt, std::move(sockets),     address, {},   false};
}

Group::Callbacks World::callbacks(FakeShell& shell) {
  Group::Callbacks out;
  out.on_exception = [&shell](const JobException& e) {
    shell.exceptions.push_back(
        fmt::format("{} {} {} {}: {}", e.origin, e.type, e.severity, e.exit_code.value_or(-1), e.message));
  };
  out.on_signal = [&shell](int signum, const Targets& tasks) {
    shell.signals.push_back(fmt::format("{} {}", signum, tasks ? "for '" + tasks->str() + "'" : "for all"));
  };
  out.on_exec = [&shell](const value::ExecShare& share) {
    shell.orders.push_back(fmt::format("{} {} {}", share.number, share.ranks.str(), share.command));
  };
  out.on_lost = [&shell](Rank rank) { shell.lost.push_back(rank); };
  out.on_left = [&shell](const value::Idset& shells) { shell.shrinks.push_back("left " + shells.str()); };
  out.on_shrunk = [&shell](const value::Shrunk& shrunk) {
    shell.shrinks.push_back(fmt::format("gone {} unconfirmed {}", shrunk.gone.str(), shrunk.unconfirmed.str()));
  };
  out.on_leave = [&shell] { shell.shrinks.emplace_back("leave"); };
  out.on_tasks = [&shell](const value::Idset& started, const std::vector<Ended>& ended) {
    shell.started = shell.started | started;
    for (const Ended& each : ended) shell.ended.add(each.tasks, each.record);
  };
  out.on_cut_off = [&shell](const Error& why) { shell.cut_off = why.message; };
  return out;
}

std::string World::story() const {
  std::string out;
  std::size_t rank = 0;
  for (const FakeShell& shell : shells) {
    out += fmt::format("\nshell {}{}, lost {}, cut off '{}':", rank++, shell.member ? "" : " (gone)",
                       fmt::join(shell.lost, ","), shell.cut_off);
    for (const std::string& line : shell.log) out += "\n  " + line;
  }
  return out;
}

}  // namespace nacre::group
