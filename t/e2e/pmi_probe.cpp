// SPDX-License-Identifier: Apache-2.0
//
// pmi_probe BYTES: a process of a PMI server, as a shell of several nodes is. Each puts a card of that many bytes,
// and reads all cards after a barrier. Prints "rank 1 of 4: 4 cards"; exit code 1 if anything is wrong.

#include "boot/pmi_session.hpp"

using namespace nacre;  // NOLINT

namespace {

std::optional<std::string> variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? std::optional<std::string>(value) : std::nullopt;
}

// All possible bytes; each rank begins with another one.
std::string card_of(std::uint32_t rank, std::size_t size) {
  std::string card(size, '\0');
  for (std::size_t i = 0; i < size; ++i) card[i] = static_cast<char>(rank + i);
  return card;
}

Result<void> exchange(std::size_t size) {
  boot::PmiSession session = TRY(boot::PmiSession::open(variable));
  CHECK_OK(session.put_long("card." + std::to_string(session.rank()), card_of(session.rank(), size)));
  CHECK_OK(session.barrier());
  for (std::uint32_t rank = 0; rank < session.size(); ++rank) {
    if (TRY(session.get_long("card." + std::to_string(rank))) != card_of(rank, size)) {
      return invalid("the card of rank " + std::to_string(rank) + " is another");
    }
  }
  CHECK_OK(session.barrier());
  CHECK_OK(session.finalize());
  std::printf("rank %u of %u: %u cards\n", session.rank(), session.size(), session.size());
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  Result<void> done = exchange(argc > 1 ? std::strtoul(argv[1], nullptr, 10) : 100);
  if (done) return 0;
  std::fprintf(stderr, "pmi_probe: %s\n", done.error().message.c_str());
  return 1;
}
