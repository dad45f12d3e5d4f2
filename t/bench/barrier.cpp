// SPDX-License-Identifier: Apache-2.0
//
// What a barrier of N shells costs without anybody who asks for it: as many processes, each a member of the group
// and nothing else, over Unix sockets.
//   bench_barrier SHELLS ROUNDS FILE: microseconds of a barrier go to FILE
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

#include "event/loop.hpp"
#include "group/overlay_driver.hpp"

using namespace nacre;         // NOLINT
using namespace nacre::group;  // NOLINT

namespace {

constexpr std::uint64_t kJob = 1;

std::vector<Membership> memberships(std::uint32_t size, const std::string& folder) {
  auto secret = transport::Secret::generate().value();
  std::vector<Membership> out;
  for (Rank rank = 0; rank < size; ++rank) {
    auto socket = transport::BoundSocket::local(fmt::format("{}/{}", folder, rank)).value();
    std::string address = "unix:" + socket.path();
    std::vector<transport::BoundSocket> sockets;
    sockets.push_back(std::move(socket));
    out.push_back({"bench",
                   value::JobId(kJob),
                   rank,
                   size,
                   Membership::kDefaultArity,
                   secret.copy(),
                   std::nullopt,
                   std::move(sockets),
                   std::move(address),
                   {}});
  }
  for (Membership& each : out) {
    for (const Membership& other : out) static_cast<void>(each.directory.set(other.rank, other.address));
  }
  return out;
}

// Microseconds of a barrier, after one that all have come to; < 0: cut off.
double measure(Membership membership, int rounds) {
  auto loop = event::Loop::create().value();
  Log log;
  bool is_cut_off = false;
  auto member = OverlayDriver::create(*loop, std::move(membership), log).value();
  Group::Callbacks callbacks;
  callbacks.on_cut_off = [&](const Error&) { is_cut_off = true; };
  member->serve(std::move(callbacks));
  std::chrono::steady_clock::time_point begin;
  for (int round = 0; round <= rounds && !is_cut_off; ++round) {
    bool done = false;
    member->enter(fmt::format("round.{}", round), [&](const Result<void>&) { done = true; });
    loop->run_until([&] { return done || is_cut_off; });
    if (round == 0) begin = std::chrono::steady_clock::now();
  }
  std::chrono::duration<double, std::micro> taken = std::chrono::steady_clock::now() - begin;
  bool gone = false;
  member->leave(0, [&](std::optional<int>) { gone = true; });
  loop->run_until([&] { return gone || is_cut_off; });
  return is_cut_off ? -1 : taken.count() / rounds;
}

}  // namespace

int main(int argc, char** argv) {
  int size = argc == 4 ? std::atoi(argv[1]) : 0;
  int rounds = argc == 4 ? std::atoi(argv[2]) : 0;
  if (size < 1 || rounds < 1) {
    std::fputs("usage: bench_barrier SHELLS ROUNDS FILE\n", stderr);
    return 2;
  }
  auto folder = transport::SocketDirectory::create("/tmp").value();  // goes last, when it is empty
  std::vector<Membership> all = memberships(static_cast<std::uint32_t>(size), folder.path());
  for (auto rank = static_cast<std::size_t>(size) - 1; rank > 0; --rank) {
    if (::fork() == 0) ::_exit(measure(std::move(all[rank]), rounds) < 0 ? 1 : 0);
  }
  double microseconds = measure(std::move(all[0]), rounds);
  int failed = microseconds < 0 ? 1 : 0;
  for (int status = 0; ::wait(&status) > 0;) failed += status != 0 ? 1 : 0;
  std::ofstream(argv[3]) << microseconds << "\n";
  if (failed != 0) std::fprintf(stderr, "bench_barrier: %d of %d failed\n", failed, size);
  return failed != 0 ? 1 : 0;
}
