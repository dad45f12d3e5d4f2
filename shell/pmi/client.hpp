// SPDX-License-Identifier: Apache-2.0
//
// The client's side of PMI-1.1 (Flux RFC 13), sans-I/O: for a shell that a PMI server has started. It understands
// the answers of the servers of Hydra, Slurm, Flux and nacre-shell itself (t/unit/pmi/servers has each one's
// words), also if they offer a later PMI 1.
//
// A request returns the bytes to be sent. What comes back goes to receive(), until that returns the reply. There is
// one request at a time: a second one is an error and changes nothing, and so does a request that cannot be written
// as a message, or that exceeds the server's limits. If the server refuses, receive() returns an error with the
// server's text, and the session goes on. After an error with the code EPROTO, after abort() and after finalize's
// reply the session is over: every request is an error.
#pragma once

#include "pmi/message.hpp"

namespace nacre::pmi {

class ClientSession {
 public:
  struct Maxes {  // bytes, the final NUL of C included
    std::size_t name = 0;
    std::size_t key = 0;
    std::size_t value = 0;
  };
  struct Reply {
    std::string request;  // the request that it answers: "get", "barrier_in"
    std::string text;     // get's value, get_my_kvsname's name
  };

  // The first request. Then get_maxes() and get_kvsname() have to come before put() and get().
  Result<std::string> init() { return ask("init", "response_to_init", " pmi_version=1 pmi_subversion=1"); }
  Result<std::string> get_maxes() { return ask("get_maxes", "maxes"); }
  Result<std::string> get_kvsname() { return ask("get_my_kvsname", "my_kvsname"); }
  // A key is a word: visible characters except '='. A value may have blanks, at which some servers (Hydra) cut it.
  // A value that ends with " found=TRUE" comes back without that.
  Result<std::string> put(std::string_view key, std::string_view value);
  Result<std::string> get(std::string_view key);
  Result<std::string> barrier() { return ask("barrier_in", "barrier_out"); }
  Result<std::string> finalize() { return ask("finalize", "finalize_ack"); }
  // May be called at any time, even while a request waits. It has no reply.
  std::string abort(int exit_code, std::string_view message);

  // None: more bytes have to come. "": the server has closed the connection.
  Result<std::optional<Reply>> receive(std::string_view bytes);

  [[nodiscard]] const std::optional<Maxes>& maxes() const { return maxes_; }
  [[nodiscard]] const std::string& kvsname() const { return kvsname_; }  // "" until it is known
  [[nodiscard]] bool is_waiting() const { return !request_.empty(); }
  [[nodiscard]] bool is_over() const { return over_; }

 private:
  Result<void> may_ask(std::string_view request) const;
  Result<void> may_use_keys(std::string_view request) const;
  Result<std::string> ask(std::string_view request, std::string_view answer, std::string_view rest = {});
  Result<Reply> read(std::string_view line);
  Result<void> read_fields(const PmiMessage& message, Reply& reply);
  Error broken(std::string what);

  Framer framer_;
  std::string request_;  // the request that waits for its reply; "": none
  std::string answer_;   // the name of that reply
  bool joined_ = false;
  bool over_ = false;
  std::optional<Maxes> maxes_;
  std::string kvsname_;
};

}  // namespace nacre::pmi
