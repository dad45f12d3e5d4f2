// SPDX-License-Identifier: Apache-2.0
//
// What clients of PyTorch's TCPStore send, as bytes on a connection. Numbers are in the host's order, a text is its
// length in 8 bytes and its bytes. A request is a byte that says what is asked for, and:
//
//   set, append, queue_push   a key, a value             no answer
//   multi_set                 8 bytes: how many; for each a key and a value; no answer
//   compare_set               a key, what is expected, a value; answer: what is there now
//   get                       a key; answer: the value
//   multi_get                 8 bytes: how many; the keys; answer: the values
//   add                       a key, 8 bytes; answer: the sum in 8 bytes
//   check                     8 bytes: how many; the keys; answer: a byte, 0 if all are there, else 1
//   wait                      likewise; answer, once all are there: a byte, 0
//   cancel_wait               answer: a byte, 1
//   count_keys                answer: 8 bytes
//   delete_key                a key; answer: how many were there, in 8 bytes
//   ping                      4 bytes; answer: the same
//   queue_pop                 a key; answer: how many were there, in 8 bytes; the first one if there was one
//   queue_size                a key; answer: 8 bytes
//
// Clients of PyTorch 2.2 and later begin with a byte 0 and the number 0x3c85f7ce in 4 bytes; their "set" is 1.
// Earlier clients have no greeting, their "set" is 0, and behind count_keys they have "watch", which is not here.
// Source: pytorch/pytorch, torch/csrc/distributed/c10d, TCPStore and its backends.
#pragma once

#include "base/result.hpp"

namespace nacre::plugins {

struct StoreRequest {
  enum class Kind : std::uint8_t {
    set,
    compare_set,
    get,
    add,
    check,
    wait,
    count_keys,
    delete_key,
    append,
    multi_get,
    multi_set,
    cancel_wait,
    ping,
    queue_push,
    queue_pop,
    queue_size
  };

  Kind kind = Kind::ping;
  std::vector<std::string> words;  // keys and values, in the order in which they come
  std::int64_t number = 0;         // for add, ping

  [[nodiscard]] bool changes_keys() const;
};

// Numbers and texts as clients have them.
void append_store_number(std::string& out, std::int64_t number);
void append_store_text(std::string& out, std::string_view text);

// The requests of one connection.
class StoreRequests {
 public:
  static constexpr std::size_t kMaxKey = std::size_t{8} << 10;          // bytes; these three as PyTorch's own store
  static constexpr std::size_t kMaxValue = std::size_t{8} << 20;        // bytes
  static constexpr std::uint64_t kMaxWords = std::uint64_t{128} << 10;  // keys of one request
  static constexpr std::size_t kMaxRequest = std::size_t{48} << 20;     // bytes

  void add(std::string_view bytes) { bytes_ += bytes; }
  // None: more bytes are needed. After an error there is no next request.
  Result<std::optional<StoreRequest>> next();
  [[nodiscard]] std::size_t unread() const { return bytes_.size() - begin_; }

 private:
  Result<bool> greet();

  std::string bytes_;
  std::size_t begin_ = 0;  // of what has not been taken
  enum class Dialect : std::uint8_t { unknown, before_2_2, since_2_2 } dialect_ = Dialect::unknown;
};

// A request on its way to the other shells.
void encode_store_request(std::string& out, const StoreRequest& request);
// Takes a request off `bytes` that encode_store_request() has written.
Result<StoreRequest> decode_store_request(std::string_view& bytes);

}  // namespace nacre::plugins
