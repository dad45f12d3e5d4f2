// SPDX-License-Identifier: Apache-2.0
#include "base/fingerprint.hpp"

#include <fmt/format.h>

namespace nacre {
namespace {

constexpr std::uint64_t kPrime = 0x100000001b3;
constexpr int kBytesOfSize = 8;

std::uint64_t with_byte(std::uint64_t hash, unsigned char byte) { return (hash ^ byte) * kPrime; }

}  // namespace

void Fingerprint::add(std::string_view piece) {
  is_empty_ = false;
  for (char each : piece) hash_ = with_byte(hash_, static_cast<unsigned char>(each));
  std::uint64_t size = piece.size();
  for (int i = 0; i < kBytesOfSize; ++i) hash_ = with_byte(hash_, static_cast<unsigned char>(size >> (8 * i)));
}

std::string Fingerprint::str() const { return is_empty_ ? "-" : fmt::format("{:016x}", hash_); }

}  // namespace nacre
