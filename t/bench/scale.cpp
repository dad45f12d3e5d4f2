// SPDX-License-Identifier: Apache-2.0
//
// What one shell has to do and to keep by how many shells its job has: each part by the shell's own code, with a
// membership that is made up. One row for each part and number of shells: CPU time, the least of three runs, and
// bytes of memory that stay, each in all and for a shell of the job; and bytes of text. A part that grows faster
// than the membership has more for each shell. Build it with the release preset.
#include <malloc.h>
#include <time.h>

#include "boot/make_resources.hpp"
#include "group/directory.hpp"
#include "group/first_words.hpp"
#include "job/resources.hpp"
#include "launch/record.hpp"
#include "overlay/node.hpp"
#include "value/taskmap.hpp"

using namespace nacre;  // NOLINT

namespace {

constexpr std::array<std::uint32_t, 4> kSizes{100, 1'000, 10'000, 100'000};
constexpr std::uint32_t kArity = 16;
constexpr int kRuns = 3;

double cpu_seconds() {
  timespec now{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
}

std::size_t bytes_in_use() {
  const struct mallinfo2 info = ::mallinfo2();
  return info.uordblks + info.hblkhd;
}

void check(const auto& result) {
  if (result) return;
  fmt::print(stderr, "scale: {}\n", result.error().message);
  std::exit(1);
}

template <typename T>
T must(Result<T> result) {
  check(result);
  return *std::move(result);
}

void row(const char* part, std::uint32_t shells, double seconds, std::size_t memory, std::size_t text) {
  fmt::print("| {} | {} | {:.2f} | {:.0f} | {:.2f} | {:.0f} | {:.0f} |\n", part, shells, seconds * 1e3,
             seconds * 1e9 / shells, static_cast<double>(memory) / (1 << 20), static_cast<double>(memory) / shells,
             static_cast<double>(text));
}

// `make` returns what is kept, and the bytes of text that it is about.
template <typename Make>
void measure(const char* part, std::uint32_t shells, Make make) {
  double least = 1e9;
  std::size_t memory = 0;
  std::size_t text = 0;
  for (int run = 0; run < kRuns; ++run) {
    const std::size_t before = bytes_in_use();
    const double begun = cpu_seconds();
    auto kept = make();
    least = std::min(least, cpu_seconds() - begun);
    memory = bytes_in_use() - std::min(before, bytes_in_use());
    text = kept.second;
  }
  row(part, shells, least, memory, text);
}

// "n12", or names without an order, as clouds have them.
std::string name_of(std::uint32_t rank, bool in_order) {
  return in_order ? fmt::format("n{}", rank) : fmt::format("ip-10-{}-x{:x}", rank % 251, rank * 2654435761U);
}

std::string address_of(std::uint32_t rank) {
  return fmt::format("10.{}.{}.{}:{}", rank >> 16 & 255, rank >> 8 & 255, rank & 255, 40000 + rank % 20000);
}

launch::LaunchRecord record_of(std::uint32_t shells, bool in_order) {
  launch::LaunchRecord record;
  record.version = "0.1.0";
  record.protocol = group::kProtocol;
  record.rank = 0;
  record.size = shells;
  record.arity = kArity;
  for (std::uint32_t rank = 0; rank < shells; ++rank) record.hosts.append(name_of(rank, in_order));
  record.shell = {"/usr/bin/nacre-shell"};
  return record;
}

void measure_record(std::uint32_t shells, bool in_order) {
  const launch::LaunchRecord record = record_of(shells, in_order);
  const std::string line = record.line();
  const auto part = [in_order](const char* what) {
    return fmt::format("{}, names {}", what, in_order ? "in order" : "without order");
  };
  measure(part("read the launch record").c_str(), shells,
          [&] { return std::pair(must(launch::LaunchRecord::parse(line)), line.size()); });
  measure(part("write it for each child").c_str(), shells, [&] {
    std::size_t bytes = 0;
    for (const std::string& each : record.lines_of_children(address_of(0))) bytes += each.size();
    return std::pair(0, bytes);
  });
}

void measure_shell(std::uint32_t shells) {
  measure("addresses of all", shells, [&] {
    auto directory = std::make_unique<group::Directory>();
    for (std::uint32_t rank = 0; rank < shells; ++rank) {
      check(directory->set(rank, address_of(rank)));
    }
    return std::pair(std::move(directory), std::size_t{0});
  });
  for (bool in_order : {true, false}) {
    std::vector<boot::NodeOffer> offers;
    for (std::uint32_t rank = 0; rank < shells; ++rank)
      offers.push_back({name_of(rank, in_order), value::Idset::range(0, 63), {}});
    measure(in_order ? "R of their offers, names in order" : "R of their offers, names without order", shells, [&] {
      return std::pair(must(job::Resources::from_json(must(boot::make_resources(offers)))), std::size_t{0});
    });
  }
  measure("taskmap, 64 tasks each", shells, [&] {
    auto map = value::Taskmap::block(std::vector<std::uint32_t>(shells, 64));
    std::size_t sum = 0;
    for (std::uint32_t node = 0; node < shells; ++node) sum += map.ranks_on(node).size();
    if (sum != std::size_t{64} * shells) std::exit(1);
    return std::pair(std::move(map), std::size_t{0});
  });
  for (const std::uint32_t self : {0U, shells - 1}) {
    measure(self == 0 ? "member of the overlay, the leader" : "member of the overlay, a leaf", shells, [&] {
      overlay::OverlayOptions options;
      options.self = self;
      options.members = shells;
      options.arity = kArity;
      auto node = std::make_unique<overlay::Node>(std::move(options));
      node->tick(overlay::Time{});
      check(node->enter("join", overlay::Merge::gather, std::string(100, 'x')));
      return std::pair(std::move(node), std::size_t{0});
    });
  }
}

}  // namespace

int main() {
  fmt::print(
      "| part | shells | CPU, ms | ns a shell | memory, MiB | bytes a shell | text, bytes |\n"
      "|---|---|---|---|---|---|---|\n");
  for (const std::uint32_t shells : kSizes) {
    measure_record(shells, true);
    measure_record(shells, false);
    measure_shell(shells);
  }
}
