// SPDX-License-Identifier: Apache-2.0
//
// Bytes of a standard error that may have lines of a carriage in them: all other bytes are passed on unchanged, in
// whatever pieces they come. The first byte says how long the pieces are.
#include "launch/record.hpp"

#include "require.hpp"

using namespace nacre;          // NOLINT
using namespace nacre::launch;  // NOLINT
using nacre::fuzz::require;

namespace {

const std::string kToken(Carriage::kToken, '0');

struct Read {
  std::string other;
  std::string messages;
  int losses = 0;

  bool operator==(const Read&) const = default;
};

Read read_in_pieces(std::string_view bytes, std::size_t size, bool is_labelled = false) {
  Read out;
  CarriageReader::Callbacks callbacks;
  callbacks.on_other = [&out](std::string_view some) { out.other += some; };
  callbacks.on_message = [&out](std::string_view channel, std::string_view message) {
    require(!channel.empty(), "a channel has a name");
    out.messages += message;
  };
  callbacks.on_loss = [&out] { ++out.losses; };
  CarriageReader reader(kToken, std::move(callbacks), is_labelled);
  for (std::size_t at = 0; at < bytes.size(); at += size) reader.take(bytes.substr(at, size));
  reader.end();
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  if (size < 2) return 0;
  std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  Read whole = read_in_pieces(bytes, bytes.size());
  require(whole == read_in_pieces(bytes, std::size_t{data[0]} + 1), "the same in pieces");
  Read labelled = read_in_pieces(bytes, bytes.size(), true);
  require(labelled == read_in_pieces(bytes, std::size_t{data[0]} + 1, true), "labelled lines: the same in pieces");
  require(labelled.messages == whole.messages, "labels hide no message");
  require(whole.other.size() + whole.messages.size() <= bytes.size(), "no more than came");
  if (bytes.find("\x1e" + kToken) == bytes.npos) require(whole.other == bytes, "all that is no line is passed on");
  return 0;
}
